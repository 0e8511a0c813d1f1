#!/usr/bin/env python3
"""Find phrases in docstrings, comments, messages and documents that nobody would say: `python tools/prose.py [PATH …]`.

`make check` runs it. A phrase that is right where it is gets a line in `tools/prose_allowed.txt`: the path, a colon,
and enough of the line to recognize it.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ALLOWED = Path(__file__).with_name("prose_allowed.txt")

PHRASES = {
    "X in, Y out: say what it does": re.compile(r"\bin[;,] .*\bout\b[.:]?$|\bin[;,] .*\bout[.:;]"),
    "is no …: write `is not a …`": re.compile(r"\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|way\b)[a-z`]"),
    "stand: say what it is or does": re.compile(r"\b(?:stands?|stood|standing)\b", re.IGNORECASE),
    "somebody, nobody, whoever: say who": re.compile(r"\b(?:somebody|nobody|whoever)\b", re.IGNORECASE),
    "so many: say `a number of` or name it": re.compile(
        r"\b(?:at most|in|after|for|of) so many\b|^So many\b", re.IGNORECASE
    ),
    "at hand: say where it is": re.compile(r"\bat hand\b", re.IGNORECASE),
    "for good: say `permanently`": re.compile(r"\bfor good\b", re.IGNORECASE),
    "signs: say `characters`": re.compile(r"\bsigns\b(?! (?:in|up|out|tokens|requests)\b)"),
}
FOLDERS = ("src", "docs", "examples", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")
NOT_OURS = ("docs/benchmarks/", "docs/reference/", "src/memoranda/client/sync/")


def findings(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the line number, the advice and the text of each phrase in a file."""
    for number, text in _prose(path):
        for advice, pattern in PHRASES.items():
            if pattern.search(text):
                yield number, advice, text.strip()


def _prose(path: Path) -> Iterator[tuple[int, str]]:
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from _strings(source)
        yield from _comments(source)
    else:
        fenced = False
        for number, line in enumerate(source.split("\n"), 1):
            fenced ^= line.lstrip().startswith("```")
            if not fenced:
                yield number, line


def _strings(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            for offset, line in enumerate(node.value.split("\n")):
                yield node.lineno + offset, line


def _comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def main(arguments: list[str]) -> int:
    """Print what was found and is not allowed; return the exit code."""
    chosen = [Path(one).resolve() for one in arguments] or [ROOT / one for one in FOLDERS]
    files = [file for one in chosen for file in (sorted(one.rglob("*")) if one.is_dir() else [one])]
    allowed = [line.partition(": ") for line in ALLOWED.read_text(encoding="utf-8").splitlines() if line]
    used: set[int] = set()
    count = 0
    for file in files:
        name = file.relative_to(ROOT).as_posix()
        if file.suffix not in (".py", ".md", ".html") or name.startswith(NOT_OURS):
            continue
        for number, advice, text in findings(file):
            fits = [place for place, (path, _, part) in enumerate(allowed) if path == name and part in text]
            used.update(fits)
            if not fits:
                count += 1
                print(f"{name}:{number}: {advice}\n    {text}")
    stale = [] if arguments else [": ".join(line[::2]) for place, line in enumerate(allowed) if place not in used]
    for line in stale:
        print(f"tools/prose_allowed.txt: nothing needs this line any more\n    {line}")
    if count:
        print(f"{count} phrases to rewrite; tools/prose_allowed.txt is for those that are right where they are")
    return 1 if count or stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
