#!/usr/bin/env python3
"""Find odd phrases in docstrings, comments, messages and documents: `python tools/prose.py [PATH …]`.

`make check` runs it. Each finding is printed as the path, the line, the phrase, and what to write instead. A phrase
that is right in its place gets a line in `tools/prose_allowed.txt`: the path, a colon, and enough of the line to
recognize it. Lines there that begin with `#` are comments.

In `tests` only docstrings and comments are checked: other strings there are test data.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
ALLOWED = Path(__file__).with_name("prose_allowed.txt")


class Phrase(NamedTuple):
    """A phrase to avoid, what to write instead, and texts of which each match contains one, in lower case."""

    pattern: re.Pattern[str]
    advice: str
    hints: tuple[str, ...]


def _phrase(pattern: str, advice: str, *hints: str, flags: re.RegexFlag = re.IGNORECASE) -> Phrase:
    return Phrase(re.compile(pattern, flags | re.MULTILINE), advice, hints)


PHRASES = (
    _phrase(r"\bin[;,] .*\bout\b(?:$|[.:;])", "say what it does, not what goes in and comes out", "in; ", "in, "),
    _phrase(
        r"(?<!\bthere )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|way\b)[a-z`]+",
        "`is not a …`",
        "is no ",
        "are no ",
        "was no ",
        "were no ",
    ),
    _phrase(r"\b(?:stands?|stood|standing)\b", "say what it is or does", "stand", "stood"),
    _phrase(r"\b(?:somebody|nobody)\b", "say who, or `someone`, `no one`", "somebody", "nobody"),
    _phrase(r"\bwhoever\b", "say who, or `anyone who`", "whoever"),
    _phrase(r"\b(?:at most|in|after|for|of) so many\b|^So many\b", "`a number of`, or the number", "so many"),
    _phrase(r"\bat hand\b", "say where it is", "at hand"),
    _phrase(r"\bfor good\b", "`permanently`", "for good"),
    _phrase(r"\bsigns\b(?! (?:in|up|out|tokens|requests|\w+ up)\b)", "`characters`", "signs", flags=re.NOFLAG),
)
_COMMENT = re.compile(r"(?:^|\s)(#.*)")

CHECKED = (
    "src",
    "docs",
    "examples",
    "bench",
    "tests",
    "tools",
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
)
GENERATED = ("docs/benchmarks/", "docs/reference/", "src/memoranda/client/sync/")


class Finding(NamedTuple):
    """A phrase to rewrite, with the text around it."""

    line: int
    phrase: str
    advice: str
    text: str


def findings(source: str, suffix: str, *, test: bool = False) -> Iterator[Finding]:
    """Yield the odd phrases of a file, given its text and suffix; of a test, those of its docstrings and comments."""
    folded = source.lower()
    # Few files have any of them: find those without parsing the others.
    candidates = [
        one for one in PHRASES if any(hint in folded for hint in one.hints) and one.pattern.search(source) is not None
    ]
    if not candidates:
        return
    read = _python_test if test else _python if suffix == ".py" else _markup
    for number, text in read(source):
        for one in candidates:
            if match := one.pattern.search(text):
                yield Finding(number, match[0], one.advice, text.strip())


def _python(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            for number, line in enumerate(node.value.split("\n"), node.lineno):
                yield number, line
    for number, line in enumerate(source.split("\n"), 1):
        if comment := _COMMENT.search(line):
            yield number, comment[1]


def _python_test(source: str) -> Iterator[tuple[int, str]]:
    blocks: list[Any] = [ast.parse(source)]
    for block in blocks:  # it grows meanwhile
        for node in block.body:
            if hasattr(node, "body"):
                blocks.append(node)
            elif isinstance(node, ast.Expr) and isinstance(text := getattr(node.value, "value", None), str):
                yield from enumerate(text.split("\n"), node.lineno)
    # Only the tokenizer can tell a comment from a `#` in test data; it is slow, so ask it about possible findings only.
    if any(one.pattern.search(comment) for comment in _COMMENT.findall(source) for one in PHRASES):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def _markup(source: str) -> Iterator[tuple[int, str]]:
    fenced = False
    for number, line in enumerate(source.split("\n"), 1):
        fenced ^= line.lstrip().startswith("```")
        if not fenced:
            yield number, line


def main(arguments: list[str]) -> int:
    """Print the findings that are not allowed; return the exit code."""
    chosen = [Path(one).resolve() for one in arguments] or [ROOT / one for one in CHECKED]
    files = [file for one in chosen for file in (sorted(one.rglob("*")) if one.is_dir() else [one])]
    lines = ALLOWED.read_text(encoding="utf-8").splitlines()
    allowed = [tuple(line.split(": ", 1)) for line in lines if line and not line.startswith("#")]
    used: set[tuple[str, ...]] = set()
    count = 0
    for file in files:
        name = file.relative_to(ROOT).as_posix()
        test = name.startswith("tests/")
        if file.suffix not in ((".py",) if test else (".py", ".md", ".html")) or name.startswith(GENERATED):
            continue
        for finding in findings(file.read_text(encoding="utf-8"), file.suffix, test=test):
            fitting = {entry for entry in allowed if entry[0] == name and entry[1] in finding.text}
            used |= fitting
            if not fitting:
                count += 1
                print(f"{name}:{finding.line}: “{finding.phrase}”: {finding.advice}\n    {finding.text}")
    stale = [] if arguments else [entry for entry in allowed if entry not in used]
    for entry in stale:
        print(f"tools/prose_allowed.txt: remove this line, nothing matches it\n    {': '.join(entry)}")
    if count:
        print(f"{count} to rewrite, or to allow in tools/prose_allowed.txt where they are right")
    return 1 if count or stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
