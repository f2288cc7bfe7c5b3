#!/usr/bin/env python3
"""What moved: old paths for new ones, and new ones for old.

    benches/moved.py            tells rows of moved.tsv that are wrong
    benches/moved.py --write    writes new paths for old ones into documents, scripts and comments

A file that is called otherwise today keeps its part in benches/tax.py and shared_lines.py, which know the parts by old paths.
"""

import functools
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
# What tells of the past keeps the past's names.
HISTORY = ("CHANGELOG.md", "benches/moved.tsv")
TEXTS = (".md", ".rs", ".py", ".sh", ".toml", ".yml")


@functools.cache
def rows():
    """Pairs of old and new path, in the order of the moves."""
    lines = (HERE / "moved.tsv").read_text().splitlines()
    return [tuple(line.split("\t")) for line in lines if line and not line.startswith("#")]


def follow(path, pairs):
    """A path after the longest of the pairs that fits, again until none does."""
    for _ in range(len(pairs) + 1):
        fits = [(old, new) for old, new in pairs if path == old or old.endswith("/") and path.startswith(old)]
        if not fits:
            return path
        old, new = max(fits, key=lambda pair: len(pair[0]))
        path = new + path[len(old) :]
    raise SystemExit(f"moved.tsv leads {path} in a circle")


@functools.cache
def was(path):
    """What a file of today was called when the parts were named."""
    return follow(path, [(new, old) for old, new in rows()])


@functools.cache
def now(path):
    """What a file of then is called today."""
    return follow(path, rows())


def faults():
    """Rows whose new path is not there, and those whose old path still is."""
    for old, _ in rows():
        if (ROOT / old).exists():
            yield f"{old} is still there"
        if not (ROOT / now(old)).exists():
            yield f"{old}: {now(old)} is not there"


def rewritten(text):
    """The text with new paths, given in full (`crates/a/src/b.rs`), or without `crates/` and `src/` as documents' prose does (`a/src/b.rs`)."""
    for old, _ in rows():
        for name, new in ((old, now(old)), (old.removeprefix("crates/"), now(old).removeprefix("crates/"))):
            end = "" if name.endswith("/") else r"(?![\w-])"
            text = re.sub(rf"(?<![\w-])(?<!\w/){re.escape(name)}{end}", lambda _, new=new: new, text)
    return text


def write():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in listed:
        path = ROOT / name
        if not name.endswith(TEXTS) or name.startswith(HISTORY) or path.is_symlink():
            continue
        text = path.read_text()
        if (changed := rewritten(text)) != text:
            path.write_text(changed)
            print(name)


if __name__ == "__main__":
    if "--write" in sys.argv:
        write()
    wrong = list(faults())
    print("\n".join(wrong) or f"{len(rows())} rows, all true")
    sys.exit(bool(wrong))
