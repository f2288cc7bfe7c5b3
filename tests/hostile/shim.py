"""Disks whose power can be cut: what `shim.c` traces is replayed here, and a cut leaves one of the states that a real one could have left.

What was synced is there. What was not, each write and each change of a name, is there, or not, or torn, as drawn: the rule of the simulator's disk
(`crates/disk/src/simulated`) and of the trait `Disk`. A write whose sync failed is never safe again, whatever is synced later.
"""

import errno
import mmap
import os
import pathlib
import random
import shutil
import struct
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent

# As in shim.c.
OPS = {"open": 1, "create": 2, "write": 4, "sync": 8, "names": 16, "rename": 32, "remove": 64, "cut": 128, "reserve": 256, "make": 512, "read": 1024}
DELAY, HOLD, FAIL, SHORT = 1, 2, 3, 4
HEAD, RULE, RULES = 32, struct.Struct("<9I28s"), 16
RECORD = struct.Struct("<IcBHHhI5Q")
SECTOR = 512
FOR_EVER = 0xFFFFFFFF


class Missed(Exception):
    """The trace and the folder differ: something changed that the shim did not see."""


def build(folder):
    """The shim, compiled."""
    to = folder / "shim.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", to, HERE / "shim.c"], check=True)
    return to


class File:
    """A file's changes that a power cut may undo, oldest first."""

    def __init__(self, inode, size):
        self.inode, self.size, self.changes, self.graves = inode, size, [], []


class Folder:
    def __init__(self, inode):
        self.inode, self.seen, self.kept, self.changes = inode, {}, {}, []


class Write:
    """A change of bytes or length: `len` bytes at `at`, or (`len` is `None`) the length `at`; what it replaces, and the length before."""

    def __init__(self, serial, at, length, size, replaced):
        self.serial, self.at, self.len, self.size, self.replaced = serial, at, length, size, replaced
        self.durable = self.failed = False
        self.bytes = b""

    def undo(self, file):
        """Takes it back, and remembers what it wrote."""
        if self.len is not None:
            file.seek(self.at)
            self.bytes = file.read(self.len)
        end = self.size if self.len is None else min(self.size, self.at + self.len)
        file.truncate(self.size)
        if end > self.at:
            file.seek(self.at)
            file.write(self.replaced.ljust(end - self.at, b"\0"))

    def keep(self, file):
        if self.len is None:
            file.truncate(self.at)
        else:
            file.seek(self.at)
            file.write(self.bytes)

    def keep_some(self, file, draw):
        fate = draw.randrange(4)
        if fate == 1 or self.len is None and fate == 2:
            self.keep(file)
        elif self.len is None and fate == 3:
            now = file.seek(0, os.SEEK_END)
            file.truncate(draw.randint(*sorted([now, self.at])))
        elif fate == 2:
            file.seek(self.at)
            file.write(self.bytes[: draw.randint(0, len(self.bytes))])
        elif fate == 3:
            self.keep_sectors(file, draw)

    def keep_sectors(self, file, draw):
        start = 0
        while start < len(self.bytes):
            end = start + SECTOR - (self.at + start) % SECTOR
            if draw.random() < 0.5:
                file.seek(self.at + start)
                file.write(self.bytes[start:end])
            start = end


class Named:
    """A change of names in one folder; `None` for a name that is not meant."""

    def __init__(self, serial, one, gone, named):
        self.serial, self.one, self.gone, self.named = serial, one, gone, named

    def apply(self, names):
        if self.gone is not None and names.get(self.gone) is self.one:
            del names[self.gone]
        if self.named is not None:
            names[self.named] = self.one


class Record:
    def __init__(self, fields, name, other, replaced):
        _, kind, self.flag, _, _, self.error, _, self.serial, self.inode, self.at, self.len, self.size = fields
        self.kind, self.name, self.other, self.replaced = kind.decode(), name, other, replaced


class Disk:
    """One disk, below `folder/disk-NAME`, for one process at a time."""

    def __init__(self, shim, folder, name):
        self.shim, self.root, self.grave = shim, folder / f"disk-{name}", folder / f"grave-{name}"
        self.trace, control = folder / f"trace-{name}", folder / f"control-{name}"
        self.root.mkdir()
        self.grave.mkdir()
        self.trace.write_bytes(b"")
        control.write_bytes(bytes(HEAD + RULES * RULE.size))
        with open(control, "r+b") as file:
            self.orders = mmap.mmap(file.fileno(), 0)
        self.control, self.befallen, self.draw = control, {}, random.Random(name)
        self.read_anew()

    def environment(self):
        mine = {"LD_PRELOAD": self.shim, "SHIM_ROOT": self.root, "SHIM_CONTROL": self.control, "SHIM_TRACE": self.trace, "SHIM_GRAVE": self.grave}
        return os.environ | {name: str(value) for name, value in mine.items()}

    def lose(self):
        """Nothing is left on it."""
        shutil.rmtree(self.root)
        self.root.mkdir()
        self.read_anew()

    # ---- orders ----

    def number(self, at, value=None):
        if value is not None:
            struct.pack_into("<I", self.orders, at, value)
        return struct.unpack_from("<I", self.orders, at)[0]

    def order(self, ops, act, argument=0, name="*", skip=0, times=FOR_EVER, after=False):
        """Gives a rule; its place, for `hits`, `held` and `withdraw`."""
        places = (HEAD + n * RULE.size for n in range(RULES))
        at = next(place for place in places if not self.number(place))
        mask = sum(OPS[op] for op in ops)
        RULE.pack_into(self.orders, at, 0, mask, act, argument, skip, times, after, 0, 0, name.encode())
        self.number(at, 1)
        self.befallen[at] = kind_of(ops, act, argument)
        return at

    def hits(self, place):
        return self.number(place + 28)

    def held(self, place):
        return self.number(place + 32)

    def withdraw(self, counts):
        """Takes all rules away, and counts what they did by kind."""
        for place, kind in self.befallen.items():
            self.number(place, 0)
            counts[kind] = counts.get(kind, 0) + self.hits(place)
        self.befallen = {}

    def pace(self, sync_us):
        self.number(8, sync_us)

    def freeze(self):
        """No change begins from here on, and none is half made: the process may be killed."""
        self.number(0, 1)
        end = time.monotonic() + 20
        while self.number(4):
            if time.monotonic() > end:
                raise Missed("a change has not ended within 20 s")
            time.sleep(0.001)

    def is_filtered(self):
        return bool(self.number(12))

    # ---- the trace ----

    def read_anew(self):
        """All that is there is safe."""
        self.number(0, 0)
        self.number(4, 0)
        self.offset, self.open, self.by_inode = 0, {}, {}
        os.truncate(self.trace, 0)
        self.top = self.found(self.root)

    def found(self, path):
        stat = path.lstat()
        if not path.is_dir():
            one = File(stat.st_ino, stat.st_size)
        else:
            one = Folder(stat.st_ino)
            one.seen = {child.name: self.found(child) for child in sorted(path.iterdir())}
            one.kept = dict(one.seen)
        self.by_inode[stat.st_ino] = one
        return one

    def ended(self):
        """The process has ended, for whatever reason; its disk has power still."""
        self.follow()
        for record in list(self.open.values()):
            if record.kind != "S" and (made := self.was_made(record)):
                self.apply(record, made)
        self.open.clear()
        self.number(0, 0)
        self.number(4, 0)

    def follow(self):
        with open(self.trace, "rb") as trace:
            trace.seek(self.offset)
            data = trace.read()
        at = 0
        while at + RECORD.size <= len(data):
            fields = RECORD.unpack_from(data, at)
            length, name_len, other_len = fields[0], fields[3], fields[4]
            if at + length > len(data):
                break
            name, other = at + RECORD.size, at + RECORD.size + name_len
            end = other + other_len
            self.take(Record(fields, data[name:other].decode(), data[other:end].decode(), data[end : at + length]))
            at += length
        self.offset += at
        self.bury_for_good()

    def take(self, record):
        if record.kind == "d":
            # What nobody waits for began before the last cut.
            begun = self.open.pop(record.serial, None)
            if begun:
                self.apply(begun, record)
        elif record.kind != "B":
            self.open[record.serial] = record

    def was_made(self, record):
        """A change of which the process could not say that it is done; as if it had said so, or `None`."""
        if record.kind in "WTG":
            if record.inode not in self.by_inode or (path := self.places().get(record.inode)) is None:
                return None
            size = path.stat().st_size
            record.len = min(record.len, max(0, size - record.at))
            made = record.len > 0 if record.kind == "W" else size == record.at
        else:
            name = record.other if record.kind == "R" else record.name
            path = self.root / name
            there = path.lstat().st_ino if path.exists() else 0
            made = {"R": there == record.inode, "U": not there}.get(record.kind, there and there not in self.by_inode)
            record.inode = record.inode or there
        record.error = 0
        return record if made else None

    def apply(self, record, done):
        if done.error:
            if record.kind == "S":
                self.fail_sync(record)
            elif record.kind in "RU" and record.at:
                (self.grave / str(record.at)).unlink(missing_ok=True)
            return
        if record.kind in "WTG":
            self.change(record, done)
        elif record.kind in "CM":
            one = File(done.inode, 0) if record.kind == "C" else Folder(done.inode)
            self.by_inode[done.inode] = one
            self.name(record.serial, one, None, record.name)
        elif record.kind == "R":
            self.rename(record)
        elif record.kind == "U":
            self.mark_grave(record, record.name)
            self.name(record.serial, self.look(record.name), record.name, None)
        elif record.kind == "S":
            self.sync(record)

    def change(self, record, done):
        file = self.by_inode.get(record.inode)
        if file is None:
            return
        if file.size != record.size:
            raise Missed(f"inode {record.inode} was {file.size} bytes long, and is {record.size}")
        if record.kind == "W":
            change = Write(record.serial, record.at, done.len, record.size, record.replaced)
            file.size = max(file.size, record.at + done.len)
        else:
            change = Write(record.serial, record.at, None, record.size, record.replaced)
            file.size = record.at
        file.changes.append(change)

    def sync(self, record):
        one = self.by_inode.get(record.inode)
        if isinstance(one, Folder):
            for change in one.changes:
                if change.serial < record.serial:
                    change.apply(one.kept)
            one.changes = [change for change in one.changes if change.serial > record.serial]
        elif one:
            for change in one.changes:
                change.durable |= change.serial < record.serial and not change.failed
            while one.changes and one.changes[0].durable:
                one.changes.pop(0)

    def fail_sync(self, record):
        """What a failed sync was to make safe no later one does; of names it is settled at once, though nobody sees it before a cut."""
        one = self.by_inode.get(record.inode)
        if isinstance(one, File):
            for change in one.changes:
                change.failed |= change.serial < record.serial and not change.durable
        elif one:
            later = [change for change in one.changes if change.serial > record.serial]
            one.changes = [change for change in one.changes if change.serial < record.serial]
            self.keep_names(one, self.draw)
            one.changes = later

    # ---- names ----

    def look(self, path):
        one = self.top
        for name in pathlib.PurePath(path).parts:
            if not isinstance(one, Folder) or name not in one.seen:
                raise Missed(f"{path} is not known")
            one = one.seen[name]
        return one

    def name(self, serial, one, gone, named):
        """One gets a name, or loses one, or both: in one folder at once, in two one after the other."""
        path, other = pathlib.PurePath(named or gone), pathlib.PurePath(gone or named)
        if path.parent != other.parent:
            self.name(serial, one, None, named)
            return self.name(serial, one, gone, None)
        folder = self.look(path.parent)
        change = Named(serial, one, gone and other.name, named and path.name)
        change.apply(folder.seen)
        folder.changes.append(change)

    def rename(self, record):
        one = self.look(record.name)
        if record.at:
            self.mark_grave(record, record.other)
        self.name(record.serial, one, record.name, record.other)

    def mark_grave(self, record, name):
        if record.at:
            self.look(name).graves.append(record.at)

    def folders(self):
        """All that are there, or may be after a cut."""
        left, all_of_them = [self.top], []
        while left:
            folder = left.pop()
            if folder in all_of_them:
                continue
            all_of_them.append(folder)
            ones = [*folder.seen.values(), *folder.kept.values(), *(change.one for change in folder.changes)]
            left += [one for one in ones if isinstance(one, Folder)]
        return all_of_them

    def bury_for_good(self):
        """Removes files that no cut brings back."""
        buried = [one for one in self.by_inode.values() if isinstance(one, File) and one.graves]
        if not buried:
            return
        named = set()
        for folder in self.folders():
            named.update(map(id, folder.seen.values()))
            named.update(map(id, folder.kept.values()))
            named.update(id(change.one) for change in folder.changes)
        for one in buried:
            if id(one) not in named:
                for grave in one.graves:
                    (self.grave / str(grave)).unlink(missing_ok=True)
                # A process may write to it still; if not, another file may get its number.
                del self.by_inode[one.inode]

    def places(self):
        """Where the files are, by inode."""
        paths = [path for top in (self.root, self.grave) for path in top.rglob("*") if not path.is_dir()]
        return {path.lstat().st_ino: path for path in paths}

    def check(self):
        """The trace tells what the folder is."""

        def names(folder, path):
            for name, one in sorted(folder.seen.items()):
                yield path / name, None if isinstance(one, Folder) else one.size
                if isinstance(one, Folder):
                    yield from names(one, path / name)

        told = dict(names(self.top, self.root))
        there = {path: None if path.is_dir() else path.stat().st_size for path in self.root.rglob("*")}
        if told != there:
            differ = {str(path.name): (told.get(path), there.get(path)) for path in told.keys() | there.keys() if told.get(path, -1) != there.get(path, -1)}
            raise Missed(f"(traced, found): {differ}")

    # ---- a power cut ----

    def cut(self, draw):
        """The power was cut; the process has ended by it. What it came to, in words."""
        self.ended()
        self.check()
        lost = sum(len(folder.changes) for folder in self.folders())
        for folder in self.folders():
            self.keep_names(folder, draw)
        new, places = self.root.with_name(self.root.name + ".new"), self.places()
        torn = self.lay_out(self.top, new, places, draw)
        shutil.rmtree(self.root)
        new.rename(self.root)
        for grave in self.grave.iterdir():
            grave.unlink()
        self.read_anew()
        return f"{torn} unsynced writes, {lost} names"

    def keep_names(self, folder, draw):
        fate = draw.randrange(4)
        for change in folder.changes:
            if fate == 0 or fate > 1 and draw.random() < 0.5:
                change.apply(folder.kept)

    def lay_out(self, folder, path, places, draw):
        """Writes what is left of a folder; how many writes were not synced."""
        path.mkdir(mode=0o700)
        torn = 0
        for name, one in sorted(folder.kept.items()):
            if isinstance(one, Folder):
                torn += self.lay_out(one, path / name, places, draw)
                continue
            place = places[one.inode]
            if place.exists():
                place.rename(path / name)
                places[one.inode] = path / name
                torn += self.tear(one, path / name, draw)
            else:
                shutil.copyfile(places[one.inode], path / name)
        return torn

    def tear(self, one, path, draw):
        doubtful = [change for change in one.changes if not change.durable]
        if not doubtful:
            return 0
        with open(path, "r+b") as file:
            for change in reversed(one.changes):
                change.undo(file)
            fate = draw.randrange(4)
            for change in one.changes:
                if change.durable or fate == 0:
                    change.keep(file)
                elif fate > 1:
                    change.keep_some(file, draw)
        return len(doubtful)


def kind_of(ops, act, argument):
    """What a rule does, for the count of faults."""
    does = {DELAY: "slow", HOLD: "hangs", SHORT: "is cut short"}
    return f"{'/'.join(ops)} {does.get(act) or errno.errorcode[argument]}"
