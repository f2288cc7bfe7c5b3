#!/usr/bin/env python3
"""Whether `shim.c` and `shim.py` do what the hunt relies on: a small program changes files below them, and its power is cut, many times over.

    python3 tests/hostile/shim_test.py
"""

import errno
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import textwrap
import time

from shim import DELAY, FAIL, HOLD, SHORT, Disk, Missed, build

HEAD = """
import os
root = os.environ["SHIM_ROOT"]
def make(name, flags=os.O_RDWR | os.O_CREAT): return os.open(root + "/" + name, flags, 0o600)
def sync_names(): fd = os.open(root, os.O_RDONLY); os.fsync(fd); os.close(fd)
def fails(call, *words):
    try: call(*words)
    except OSError as error: return error.errno
"""


class Bench:
    """Disks in a folder, and programs on them."""

    def __init__(self, folder):
        self.folder, self.library, self.disks = folder, build(folder), 0

    def disk(self):
        self.disks += 1
        return Disk(self.library, self.folder, self.disks)

    def run(self, disk, text):
        ended = subprocess.run([sys.executable, "-SE", "-c", HEAD + textwrap.dedent(text)], env=disk.environment(), capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def outcomes(self, text, prepare=lambda disk: None, times=20):
        """What a power cut leaves of what a program did, many times: name -> bytes, as a set of sorted pairs."""
        found = set()
        for seed in range(times):
            disk = self.disk()
            prepare(disk)
            self.run(disk, text)
            disk.cut(random.Random(seed))
            found.add(tuple(sorted((path.name, path.read_bytes()) for path in disk.root.iterdir())))
        return found


def what_was_synced_is_there(bench):
    text = 'fd = make("a"); os.pwrite(fd, b"synced", 0); os.fdatasync(fd); sync_names()'
    assert bench.outcomes(text) == {(("a", b"synced"),)}


def what_was_not_is_there_or_not_or_torn(bench):
    text = 'fd = make("a"); os.pwrite(fd, b"o" * 2048, 0); os.fsync(fd); sync_names(); os.pwrite(fd, b"n" * 2048, 0)'
    states = {state[0][1] for state in bench.outcomes(text)}
    assert {b"o" * 2048, b"n" * 2048} < states, "all of it, and nothing"
    sectors = [state for state in states if all(len(set(state[at : at + 512])) == 1 for at in range(0, 2048, 512))]
    assert len(sectors) > 4 and len(states) > len(sectors), "whole sectors, and the bytes up to any one"


def a_name_is_kept_once_its_folder_is_synced(bench):
    made = bench.outcomes('fd = make("a"); os.pwrite(fd, b"x", 0); os.fsync(fd)')
    assert made == {(), (("a", b"x"),)}, "syncing a file keeps no name"
    text = 'fd = make("a"); os.pwrite(fd, b"x", 0); os.fsync(fd); sync_names(); os.unlink(root + "/a")'
    assert bench.outcomes(text) == {(), (("a", b"x"),)}
    assert bench.outcomes(text + "; sync_names()") == {()}


def what_is_replaced_by_a_rename_is_one_of_the_two(bench):
    text = """
    for name in "ab":
        fd = make(name); os.pwrite(fd, name.encode() * 5, 0); os.fsync(fd)
    sync_names(); os.rename(root + "/b", root + "/a")
    """
    assert bench.outcomes(text) == {(("a", b"aaaaa"), ("b", b"bbbbb")), (("a", b"bbbbb"),)}


def what_a_failed_sync_was_to_keep_no_later_one_does(bench):
    text = 'fd = make("a"); sync_names(); os.pwrite(fd, b"x", 0); assert fails(os.fsync, fd) == 5; os.fsync(fd); os.pwrite(fd, b"y", 1); os.fsync(fd)'
    states = bench.outcomes(text, lambda disk: disk.order(["sync"], FAIL, errno.EIO, times=1))
    assert {state[0][1] for state in states} == {b"xy", b"\0y"}, states


def lengths_and_room_are_changes_too(bench):
    text = """
    fd = make("a"); os.pwrite(fd, b"x" * 100, 0); os.fsync(fd); sync_names()
    os.ftruncate(fd, 10)
    """
    lengths = {len(state[0][1]) for state in bench.outcomes(text)}
    assert {10, 100} <= lengths and all(10 <= length <= 100 for length in lengths), lengths
    # Not through the C library: a call that some runtimes make by themselves.
    text = """
    import ctypes
    fd = make("a"); sync_names()
    number = {"x86_64": 285, "aarch64": 47}[os.uname().machine]
    assert ctypes.CDLL(None).syscall(number, fd, 0, 0, ctypes.c_long(8192)) == 0
    """
    assert {0, 8192} <= {len(state[0][1]) for state in bench.outcomes(text)}
    disk = bench.disk()
    disk.order(["reserve"], FAIL, errno.ENOSPC)
    told = bench.run(disk, text.replace("assert", "print(").rstrip().removesuffix("== 0") + ", os.fstat(fd).st_size)")
    assert told == "-1 0\n", told


def every_way_to_write_is_seen(bench):
    text = """
    os.makedirs(root + "/deep/er")
    fd = make("deep/er/a"); os.write(fd, b"ab"); os.writev(fd, [b"cd", b"ef"]); os.pwritev(fd, [b"G"], 1); os.close(fd)
    fd = make("deep/er/a", os.O_WRONLY | os.O_APPEND); os.write(fd, b"z"); os.close(fd)
    fd = make("deep/er/b", os.O_WRONLY | os.O_CREAT | os.O_TRUNC); os.write(fd, b"b"); os.close(fd)
    fd = make("deep/er/b", os.O_WRONLY | os.O_CREAT | os.O_TRUNC); os.write(fd, b"c"); os.close(fd)
    here = os.open(root + "/deep", os.O_RDONLY); os.rename("er", "est", src_dir_fd=here, dst_dir_fd=here)
    os.rename(root + "/deep/est/b", root + "/moved"); os.unlink("est/a", dir_fd=here); os.rmdir("est", dir_fd=here)
    """
    disk = bench.disk()
    bench.run(disk, text)
    disk.ended()
    disk.check()
    assert (disk.root / "moved").read_bytes() == b"c"
    # And a change behind its back is noticed.
    (disk.root / "stranger").write_bytes(b"")
    try:
        disk.check()
    except Missed:
        return
    raise AssertionError("a file that came unseen was not noticed")


def reads_fail_too(bench):
    disk = bench.disk()
    disk.order(["read"], SHORT, 50, times=1)
    disk.order(["read"], FAIL, errno.EIO, "a")
    told = bench.run(disk, 'fd = make("a"); os.write(fd, b"x" * 8); print(fails(os.pread, fd, 8, 0)); fd = make("b"); os.write(fd, b"x"); print(os.pread(fd, 8, 0))')
    assert told == "5\nb'x'\n", told


def calls_fail_are_cut_short_slow_and_held(bench):
    disk = bench.disk()
    disk.order(["create"], FAIL, errno.EMFILE, "a*", skip=1, times=1)
    short = disk.order(["write"], SHORT, 50, times=1)
    slow = disk.order(["sync"], DELAY, 200, times=1)
    text = """
    make("a1"); assert fails(make, "a2") == 24; fd = make("b")
    print(os.pwrite(fd, b"x" * 10, 0), os.pwrite(fd, b"x" * 10, 0)); os.fsync(fd)
    """
    begun = time.monotonic()
    assert bench.run(disk, text) == "5 10\n" and time.monotonic() - begun > 0.2
    assert (disk.hits(short), disk.hits(slow)) == (1, 1)
    for after, there in [(False, False), (True, True)]:
        disk = bench.disk()
        held = disk.order(["create"], HOLD, 0, "c", after=after)
        with subprocess.Popen([sys.executable, "-SE", "-c", HEAD + 'make("c")'], env=disk.environment()) as process:
            while not disk.held(held):
                time.sleep(0.01)
            disk.freeze()
            process.kill()
        assert (disk.root / "c").exists() == there
        disk.ended()
        disk.check()


def a_file_that_is_renamed_while_it_is_open_goes_by_its_new_name(bench):
    disk = bench.disk()
    old, new = (disk.order(["write", "sync"], DELAY, 0, name) for name in ("old", "new"))
    bench.run(disk, 'fd = make("old"); os.pwrite(fd, b"x", 0); os.rename(root + "/old", root + "/new"); os.pwrite(fd, b"y", 0); os.fsync(fd)')
    assert (disk.hits(old), disk.hits(new)) == (1, 2)


def a_process_that_ends_keeps_all_and_the_next_cut_takes_it(bench):
    states = set()
    for seed in range(20):
        disk = bench.disk()
        bench.run(disk, 'fd = make("a"); os.fsync(fd); sync_names(); os.pwrite(fd, b"x" * 9, 0)')
        disk.ended()
        assert (disk.root / "a").read_bytes() == b"x" * 9
        bench.run(disk, 'fd = make("a"); os.pwrite(fd, b"y", 20)')
        disk.cut(random.Random(seed))
        states.add((disk.root / "a").read_bytes())
        bench.run(disk, 'fd = make("a"); os.ftruncate(fd, 0); os.fsync(fd)')
        disk.cut(random.Random(seed))
        assert (disk.root / "a").read_bytes() == b""
    assert len(states) > 4, states


TESTS = [
    what_was_synced_is_there,
    what_was_not_is_there_or_not_or_torn,
    a_name_is_kept_once_its_folder_is_synced,
    what_is_replaced_by_a_rename_is_one_of_the_two,
    what_a_failed_sync_was_to_keep_no_later_one_does,
    lengths_and_room_are_changes_too,
    every_way_to_write_is_seen,
    reads_fail_too,
    calls_fail_are_cut_short_slow_and_held,
    a_file_that_is_renamed_while_it_is_open_goes_by_its_new_name,
    a_process_that_ends_keeps_all_and_the_next_cut_takes_it,
]


def main():
    with tempfile.TemporaryDirectory(prefix="highwater-shim-") as folder:
        bench = Bench(pathlib.Path(folder))
        for test in TESTS:
            test(bench)
            print(f"{test.__name__.replace('_', ' ')}: ok", flush=True)


if __name__ == "__main__":
    main()
