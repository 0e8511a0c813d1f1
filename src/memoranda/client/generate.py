"""The client for asyncio in, the one without out: `python -m memoranda.client.generate [--check]`.

The two differ in a few words only, so the second is made by replacing them. What is made is checked in, and a test
makes it again and compares. Formatting needs `ruff`, as all development here does.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
WRITTEN, MADE = HERE / "aio", HERE / "sync"
ROOT = HERE.parents[2]

_WORDS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\basync (def|for|with)\b", r"\1"),
        (r"\bawait ", ""),
        (r"\basyncio\.sleep\b", "time.sleep"),
        (r"\bimport asyncio\b", "import time"),
        (r"\basynccontextmanager\b", "contextmanager"),
        (r"\baclosing\b", "closing"),
        (r"\bAsync(?=[A-Z])", ""),
        (r"\b__a(enter|exit)__\b", r"__\1__"),
        (r"\ba(close|read|iter_bytes)\b", r"\1"),
        (r"\bclient\.aio\b", "client.sync"),
    )
)
_LEFT = re.compile(r"\b(?:async\w*|await|Async\w+|a(?:close|read|iter)\w*)\b")


def made_from(source: str, name: str) -> str:
    """Return the text of a module without asyncio, made from the one with it; refuse what was only half replaced."""
    for pattern, replacement in _WORDS:
        source = pattern.sub(replacement, source)
    left = _LEFT.search(source)
    if left:
        raise SystemExit(f"{name}: `{left.group()}` has no word in the client without asyncio; see `_WORDS`")
    return _tidied(f"# Made from client/aio/{name} by memoranda.client.generate: change that one.\n{source}", name)


def modules() -> Iterator[tuple[Path, str]]:
    """Yield each file of the client without asyncio, and the text that it has to have."""
    for written in sorted(WRITTEN.glob("*.py")):
        if written.name == "__init__.py":
            yield MADE / written.name, _PACKAGE
        else:
            yield MADE / written.name, made_from(written.read_text(encoding="utf-8"), written.name)


def differences() -> list[str]:
    """Return the names of files that are not what they have to be, and of those that should not be there."""
    wanted = dict(modules())
    stale = [file for file, text in wanted.items() if not file.exists() or file.read_text(encoding="utf-8") != text]
    extra = [file for file in sorted(MADE.glob("*.py")) if file not in wanted]
    return [file.name for file in (*stale, *extra)]


def main(arguments: list[str]) -> int:
    """Write what has to be written, or with `--check` only say whether anything does."""
    if arguments not in ([], ["--check"]):
        print("usage: python -m memoranda.client.generate [--check]", file=sys.stderr)
        return 2
    if arguments:
        different = differences()
        if different:
            print(f"not as made from client/aio: {', '.join(different)}", file=sys.stderr)
        return 1 if different else 0
    wanted = dict(modules())
    MADE.mkdir(exist_ok=True)
    for file, text in wanted.items():
        file.write_text(text, encoding="utf-8")
    for file in MADE.glob("*.py"):
        if file not in wanted:
            file.unlink()
    return 0


_PACKAGE = '"""The client without asyncio: made from `memoranda.client.aio`, word by word."""\n'


def _tidied(source: str, name: str) -> str:
    """Return a module with its imports in order and its lines as long as they should be: words became shorter."""
    where = str(MADE / name)
    for command in (("check", "--select", "I,UP028", "--fix", "--unsafe-fixes", "--quiet"), ("format", "--quiet")):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", where, "-"],
            input=source,
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=ROOT,
        )
        if done.returncode:
            raise SystemExit(f"{name}: ruff said {done.stderr.strip() or done.returncode}")
        source = done.stdout
    return source


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
