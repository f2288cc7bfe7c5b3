"""What the hunt on disks draws from: faults of calls, and calls in which the power is cut."""

import errno

from shim import DELAY, FAIL, FOR_EVER, HOLD, SHORT

# Which files a fault is for.
NAMES = ["*", "*", "journal-*", "journal-*", "checkpoint-*", "*.part-*", "*manifest*", "identity*", "ballast-*"]

# Calls, what befalls them (with what: milliseconds, an error, percent), and how often at most. A node that runs lives with these, as it does with
# a full disk, one that hangs, and no descriptors.
WAITED_OUT = [
    (["sync"], DELAY, (5, 400), FOR_EVER),
    (["sync"], HOLD, 0, 1),
    (["sync"], HOLD, 0, FOR_EVER),
    (["names"], HOLD, 0, 1),
    (["write"], HOLD, 0, 1),
    (["write"], DELAY, (1, 50), 40),
    (["rename", "remove", "create", "open"], HOLD, 0, 1),
    (["rename", "remove", "create", "open", "names"], DELAY, (5, 200), 20),
    (["reserve", "cut"], HOLD, 0, 1),
    (["write"], SHORT, (1, 99), 30),
    (["read"], SHORT, (1, 99), 30),
    (["read"], DELAY, (1, 30), 40),
    (["open", "create", "reserve", "write", "sync", "read"], FAIL, errno.EINTR, 3),
    (["open", "create"], FAIL, errno.EMFILE, FOR_EVER),
    (["create"], FAIL, errno.ENFILE, FOR_EVER),
    (["create", "reserve"], FAIL, errno.ENOSPC, FOR_EVER),
    (["reserve"], FAIL, errno.EDQUOT, FOR_EVER),
    (["reserve"], FAIL, errno.EFBIG, 3),
    (["reserve"], FAIL, errno.ENOMEM, 3),
]
# And may end for these, with words and a code. Whatever it does, nothing that was acknowledged is lost.
MAY_END = [
    (["sync"], FAIL, errno.EIO, 1),
    (["sync"], FAIL, errno.ENOSPC, 1),
    (["sync"], FAIL, errno.EDQUOT, 1),
    (["names"], FAIL, errno.EIO, 1),
    (["write"], FAIL, errno.EIO, 1),
    (["write"], FAIL, errno.ENOSPC, 5),
    (["write"], FAIL, errno.EDQUOT, 5),
    (["read"], FAIL, errno.EIO, 1),
    (["read"], FAIL, errno.EIO, FOR_EVER),
    (["rename"], FAIL, errno.EIO, 1),
    (["rename"], FAIL, errno.ENOSPC, 2),
    (["remove"], FAIL, errno.EIO, 1),
    (["open", "create"], FAIL, errno.EIO, 1),
    (["cut"], FAIL, errno.EIO, 1),
    (["reserve"], FAIL, errno.EIO, 1),
]
# Where the power is cut: calls, and of which files.
MOMENTS = [
    (["sync"], "journal-*"),
    (["write"], "journal-*"),
    (["sync", "write"], "*.part-*"),
    (["sync", "write", "rename", "create"], "*manifest*"),
    (["sync", "write", "rename", "create", "remove"], "identity*"),
    (["names"], "*"),
    (["create", "reserve"], "journal-*"),
    (["rename"], "*"),
    (["remove", "cut"], "*"),
    (["rename", "create", "reserve"], "ballast-*"),
]
