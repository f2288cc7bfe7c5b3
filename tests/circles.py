#!/usr/bin/env python3
"""Counts the circles among the files of each crate: A uses B, and B uses A, directly or through others.

    python3 tests/circles.py [--list] [CRATE...]

A file depends on another if it names something that is defined there: in `use crate::..`, `use super::..`,
`use self::..`, or inline (`crate::a::b(..)`, `super::x`, and `lead::Ack` after `mod lead;`). A name that a module only
passes on (`pub use`) counts as a name of the file that defines it, so that a facade like lib.rs is no hub. Not counted:
`mod x;`, and `pub use` of what the file itself does not mention (they place and show a file, and use nothing of it); what
stands under `#[cfg(test)]`; and methods (the compiler knows whose they are, this script does not).

Prints for each crate its files, its circles (strongly connected components of more than one file) and how many files
are in one. A circle that has to be is said so by a comment that names it: `// circle: why`, in any of its files.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IDENT = r"[A-Za-z_][A-Za-z0-9_]*"


def without_comments_and_strings(text):
    """The text with comments, strings and character literals blanked; offsets and braces of code stay."""
    pattern = re.compile(
        r"//[^\n]*|/\*.*?\*/|b?r(#+)\".*?\"\1|b?r\"[^\"]*\"|b?\"(?:\\.|[^\"\\])*\"|b?'(?:\\(?:x..|u\{[^}]*\}|.)|[^\\'\n])'",
        re.S,
    )
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def closing(text, at):
    """Where the brace that opens at `at` is closed."""
    depth = 0
    for at in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return len(text)


def without_tests(text):
    """Blanks what stands under `#[cfg(test)]` and the like: the next item, to its `;` or the end of its braces."""
    while found := re.search(r"#\[cfg\((?:all\()?test\b[^\n]*\]", text):
        end = found.end()
        while rest := re.match(r"\s*#\[[^\n]*\]", text[end:]):
            end += rest.end()
        item = re.compile(r"[;{,]").search(text, end)
        stop = len(text) if item is None else item.start()
        if item is not None and item.group() == "{":
            stop = closing(text, stop)
        text = text[: found.start()] + re.sub(r"[^\n]", " ", text[found.start() : stop + 1]) + text[stop + 1 :]
    return text


def flatten(tree, prefix=()):
    """The paths of a use tree, as (path, name it gets here)."""
    tree = tree.strip()
    if tree.startswith("{"):
        parts, depth, start = [], 0, 1
        for at, char in enumerate(tree):
            depth += {"{": 1, "}": -1}.get(char, 0)
            if char == "," and depth == 1 or depth == 0:
                parts.append(tree[start:at])
                start = at + 1
        return [path for part in parts if part.strip() for path in flatten(part, prefix)]
    head, separator, rest = tree.partition("::")
    if separator:
        return flatten(rest, prefix + (head.strip(),))
    name, _, alias = (part.strip() for part in tree.partition(" as "))
    path = prefix if name == "self" else prefix + (name,)
    return [(path, alias or path[-1])] if path else []


class Module:
    """A module that has a file of its own; modules within braces are taken for a part of it."""

    def __init__(self, path, file, text):
        self.path, self.file = path, file
        self.text = without_tests(without_comments_and_strings(text))
        self.why = re.search(r"//+!? *circle: ", text) is not None
        uses = re.compile(rf"((?:pub(?:\([^)]*\))?\s+)?)use\s+([^;]+);")
        self.uses = [(bool(m[1]), path) for m in uses.finditer(self.text) for path in flatten(m[2])]
        self.code = uses.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), self.text)
        self.children = set(re.findall(rf"\bmod\s+({IDENT})\s*;", self.code))
        kinds = "fn|struct|enum|union|trait|type|const|static|macro_rules!"
        self.names = set(re.findall(rf"\b(?:{kinds})\s+(?:mut\s+)?({IDENT})", self.code))
        self.inline = set(re.findall(rf"\bmod\s+({IDENT})\s*\{{", self.code))


class Crate:
    def __init__(self, folder):
        self.modules = {}
        source = folder / "src"
        roots = [source / name for name in ("lib.rs", "main.rs") if (source / name).exists()]
        for root in roots[:1]:
            self.load((), root, source)

    def load(self, path, file, folder):
        module = Module(path, file, file.read_text())
        self.modules[path] = module
        for child in module.children:
            for candidate in (folder / f"{child}.rs", folder / child / "mod.rs"):
                if candidate.exists():
                    self.load(path + (child,), candidate, folder / child)

    def absolute(self, module, path):
        """The path from the crate's root, or None if it leads out of the crate."""
        if path[0] == "crate":
            return path[1:]
        here = module.path
        if path[0] in ("self", "super"):
            while path and path[0] in ("self", "super"):
                here, path = (here[:-1] if path[0] == "super" else here), path[1:]
            return here + path
        if path[0] in module.children:
            return here + path
        for _, (target, name) in module.uses:
            # Through a module, or a type, that was imported by its name: `heap::rounded(..)` after `use crate::heap;`.
            if name == path[0] and target != path[:1] and target[0] in ("crate", "self", "super"):
                absolute = self.absolute(module, target)
                return None if absolute is None else absolute + path[1:]
        return None

    def defined_in(self, path, seen=()):
        """The module whose file defines what the path names."""
        at = ()
        while len(at) < len(path) and path[: len(at) + 1] in self.modules:
            at = path[: len(at) + 1]
        module, rest = self.modules[at], path[len(at) :]
        if not rest or rest[0] == "*" or rest[0] in module.names or rest[0] in module.inline or path in seen:
            return module
        for _, (target, name) in module.uses:
            absolute = self.absolute(module, target)
            if name == rest[0] and absolute is not None:
                return self.defined_in(absolute + rest[1:], seen + (path,))
        for _, (target, name) in module.uses:
            absolute = self.absolute(module, target)
            if name == "*" and absolute is not None:
                found = self.defined_in(absolute[:-1] + rest, seen + (path,))
                if rest[0] in found.names:
                    return found
        return module

    def edges(self, module):
        """The modules that this one depends on, each with what it names there."""
        inline = re.findall(rf"(?<![\w:])((?:{IDENT})(?:::{IDENT})+)", self.edge_text(module))
        mentioned = set(re.findall(IDENT, module.code))
        named = [path for public, (path, name) in module.uses if not public or name in mentioned]
        named += [tuple(path.split("::")) for path in inline]
        found = {}
        for path in named:
            absolute = self.absolute(module, path)
            if absolute is None:
                continue
            if absolute and absolute[-1] == "*" and len(absolute) > 1:
                absolute = absolute[:-1]
            target = self.defined_in(absolute)
            # A bare module (`use super::segment;`) is no use yet: the paths that go through it are.
            if target is not module and absolute != target.path:
                found.setdefault(target.path, set()).add(absolute[-1])
        return found

    @staticmethod
    def edge_text(module):
        """The code, with `super` in a module within braces read as what it is there: this file."""
        text = module.code
        for name in module.inline:
            start = re.search(rf"\bmod\s+{name}\s*\{{", text)
            if start:
                end = closing(text, start.end() - 1)
                text = text[: start.start()] + text[start.start() : end].replace("super::", "self::") + text[end:]
        return text

    def components(self):
        """Tarjan's strongly connected components of more than one file."""
        edges = {path: self.edges(module) for path, module in self.modules.items()}
        number, low, stack, circles = {}, {}, [], []

        def visit(path):
            number[path] = low[path] = len(number)
            stack.append(path)
            for other in edges[path]:
                if other not in number:
                    visit(other)
                if other in stack:
                    low[path] = min(low[path], low[other])
            if low[path] == number[path]:
                circle = []
                while not circle or circle[-1] != path:
                    circle.append(stack.pop())
                if len(circle) > 1:
                    circles.append(sorted(circle))

        sys.setrecursionlimit(10_000)
        for path in sorted(edges):
            if path not in number:
                visit(path)
        return sorted(circles, key=len, reverse=True), edges


def main():
    wanted = [name for name in sys.argv[1:] if not name.startswith("-")]
    print(f"{'crate':<12}{'files':>6}{'circles':>9}{'files in circles':>18}{'  of it explained':>17}")
    for folder in sorted((ROOT / "crates").iterdir()):
        if wanted and folder.name not in wanted or not (folder / "Cargo.toml").exists():
            continue
        crate = Crate(folder)
        circles, edges = crate.components()
        explained = [circle for circle in circles if any(crate.modules[path].why for path in circle)]
        inside = sum(len(circle) for circle in circles)
        print(f"{folder.name:<12}{len(crate.modules):>6}{len(circles):>9}{inside:>18}{len(explained):>17}")
        if "--list" in sys.argv:
            for circle in circles:
                for path in circle:
                    uses = {other: edges[path][other] for other in edges[path] if other in circle}
                    said = ", ".join(f"{'::'.join(to) or 'lib'} ({', '.join(sorted(of))})" for to, of in uses.items())
                    print(f"    {'::'.join(path) or 'lib'} -> {said}")
                print()


if __name__ == "__main__":
    main()
