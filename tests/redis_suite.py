#!/usr/bin/env python3
"""Runs Redis 7.0's own test suite against a node of ours.

    python3 tests/redis_suite.py [--binary FILE] [--source FOLDER] [--unit UNIT ..] [--verbose]

Of the suite nothing is kept here. It is fetched as Debian's source package `redis` (apt, into a folder that is removed; the machine's
own lists stay as they are), or taken from FOLDER, an unpacked source tree of Redis 7.0, which is copied. It needs `tclsh`.

Each unit gets a node of its own: one replica, in memory. The suite runs in its mode for servers that it did not start, one database.
tests/redis/suite.txt names what is left out, each with its reason; a unit that it says nothing of is not run. Prints a line for each
unit and every failure, then how many tests passed, failed, and were left out, by us and by the suite itself for any server that it
did not start. Ends well if none failed.
"""

import argparse
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from redis_compare import free_port, start_highwater, wait_for  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
PLAN = ROOT / "tests/redis/suite.txt"
SOURCES = """Types: deb-src
URIs: http://deb.debian.org/{archive}
Suites: {suites}
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Unit:
    """A file of the suite, and what of it is left out."""

    def __init__(self, name):
        self.name = name
        self.skipped = []  # (test, reason)
        self.untag = 0
        self.denied = []  # (tag, reason)


def read_plan():
    """Lines: `[unit]` or `[unit] untag n` begins a unit, the first n blocks of which are also run if they are kept for servers that the suite
    starts; `! tag | reason` leaves blocks with a tag out, `- test | reason` leaves a test out, `/` in front of it makes it a
    pattern."""
    units = []
    for number, line in enumerate(PLAN.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("["):
            name, _, word = line[1:].partition("]")
            units.append(Unit(name))
            units[-1].untag = int(word.replace("untag", "") or 0)
        elif line.startswith("! ") and " | " in line:
            units[-1].denied.append(line[2:].split(" | ", 1))
        elif line.startswith("- ") and " | " in line:
            test, reason = line[2:].rsplit(" | ", 1)
            units[-1].skipped.append((test, reason))
        else:
            sys.exit(f"{PLAN}:{number}: not understood: {line}")
    return units


def fetch(folder):
    """Redis's source package, by apt with lists of its own."""
    apt = folder / "apt"
    (apt / "parts").mkdir(parents=True)
    (apt / "lists/partial").mkdir(parents=True)
    code = re.search(r"VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text()).group(1)
    for archive, suites in (("debian", f"{code} {code}-updates"), ("debian-security", f"{code}-security")):
        (apt / "parts" / f"{archive}.sources").write_text(SOURCES.format(archive=archive, suites=suites))
    config = apt / "conf"
    config.write_text(
        f'Dir::Etc::sourcelist "/dev/null";\nDir::Etc::sourceparts "{apt}/parts";\nDir::State::lists "{apt}/lists";\n'
    )
    env = {"APT_CONFIG": str(config), "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(["apt-get", "update"], env=env, check=True, **quiet)
    subprocess.run(["apt-get", "source", "--download-only", "redis"], cwd=folder, env=env, check=True, **quiet)
    (archive,) = folder.glob("redis_*.orig.tar.gz")
    subprocess.run(["tar", "xf", archive], cwd=folder, check=True)
    (tree,) = folder.glob("redis-*/")
    return tree


def prepare(folder, source):
    tree = folder / "redis"
    if source:
        shutil.copytree(Path(source) / "tests", tree / "tests")
        (tree / "src").mkdir(exist_ok=True)
    else:
        shutil.move(fetch(folder), tree)
    # Some tests call Redis's own tools; those of the machine will do.
    for tool in ("redis-cli", "redis-benchmark"):
        at, path = tree / "src" / tool, shutil.which(tool)
        if path and not at.exists():
            at.symlink_to(path)
    (tree / "tests/tmp").mkdir(exist_ok=True)
    return tree


def run(unit, tree, binary, seconds):
    """A node, the unit against it; what the suite printed."""
    if unit.untag:
        # Tests that the suite keeps from servers that it did not start, though nothing in them needs one that it did.
        path = tree / "tests" / f"{unit.name}.tcl"
        path.write_text(path.read_text().replace("external:skip", "", unit.untag))
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        # Machines that are busy let a thread stand still for longer than a leader may.
        node = start_highwater(binary, folder, port, "timeouts.election_timeout_ms=5000")
        try:
            wait_for(port, node)
            skips = Path(folder) / "skips"
            skips.write_text("".join(f"{test}\n" for test, _ in unit.skipped))
            command = ["tclsh", "tests/test_helper.tcl", "--host", "127.0.0.1", "--port", str(port), "--singledb"]
            command += ["--ignore-encoding", "--ignore-digest", "--durable", "--clients", "1", "--timeout", str(seconds)]
            tags = " ".join("-" + tag for tag in ["needs:repl"] + [tag for tag, _ in unit.denied])
            # Its parts talk over one of the ports below.
            command += ["--baseport", str(random.randrange(12_000, 30_000))]
            command += ["--skipfile", str(skips), "--tags", tags, "--single", unit.name]
            out = subprocess.run(command, cwd=tree, capture_output=True, timeout=20 * seconds, errors="replace")
            log = Path(folder, "hw.log").read_text(errors="replace")
            ended = node.poll() is not None
        finally:
            node.terminate()
            node.wait()
    text = COLOURS.sub("", out.stdout)
    if ended or "panicked" in log:
        text += f"\n[err]: the node {'ended' if ended else 'panicked'}: {log[-2000:]}\n"
    return text


def main():
    parser = argparse.ArgumentParser(description="Redis's own tests against Highwater.")
    parser.add_argument("--binary", default=str(ROOT / "target/release/highwater"))
    parser.add_argument("--source", help="an unpacked source tree of Redis 7.0")
    parser.add_argument("--unit", action="append", help="only these")
    parser.add_argument("--seconds", type=int, default=120, help="a test that takes longer failed")
    parser.add_argument("--verbose", action="store_true", help="print all that the suite prints")
    options = parser.parse_args()
    if not shutil.which("tclsh"):
        sys.exit("there is no tclsh (package tcl)")
    units = [unit for unit in read_plan() if not options.unit or unit.name in options.unit]
    total, reasons = Counter(), Counter()
    with tempfile.TemporaryDirectory() as folder:
        tree = prepare(Path(folder), options.source)
        for unit in units:
            text = run(unit, tree, options.binary, options.seconds)
            if options.verbose:
                print(text)
            passed = len(re.findall(r"^\[ok\]:", text, re.M))
            errors = re.findall(r"^\[(?:err|exception|TIMEOUT)\]:.*(?:\n(?!\[|===|Cleanup|\s*$).*)*", text, re.M)
            if "The End" not in text:
                errors += ["[err]: the unit did not end:\n" + "\n".join(text.splitlines()[-12:])]
            skipped = re.findall(r"^\[skip\]: (.*)", text, re.M)
            ignored = len(re.findall(r"^\[ignore\]:", text, re.M))
            print(f"{unit.name}: {passed} passed, {len(errors)} failed, {len(skipped)} left out, {ignored} not for this server")
            for error in errors:
                print("  " + "\n    ".join(error.splitlines()[:4]))
            for name in skipped:
                fits = [reason for test, reason in unit.skipped if test == name or test[0] == "/" and re.search(test[1:], name)]
                reasons[fits[0] if fits else "not known"] += 1
            stale = [test for test, _ in unit.skipped if not any(test == name or test[0] == "/" and re.search(test[1:], name) for name in skipped)]
            for test in stale:
                print(f"  (no such test is left to leave out: {test})")
            total.update(passed=passed, failed=len(errors), skipped=len(skipped), ignored=ignored)
            sys.stdout.flush()
    print("left out:")
    for reason, count in reasons.most_common():
        print(f"  {count:4} {reason}")
    print(
        f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} left out, "
        f"{total['ignored']} that the suite keeps for servers that it starts, or for Redis's replication"
    )
    sys.exit(1 if total["failed"] else 0)


if __name__ == "__main__":
    main()
