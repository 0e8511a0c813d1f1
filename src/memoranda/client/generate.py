"""Generate the sync client from the async one: `python -m memoranda.client.generate [--check]`.

The two differ in a few words, which are replaced. The result is checked in, and a test compares it. Needs `ruff`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
ASYNC, SYNC = HERE / "aio", HERE / "sync"
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


def sync_source(source: str, name: str) -> str:
    """Return the sync source of an async module; exit if a word has no replacement."""
    for pattern, replacement in _WORDS:
        source = pattern.sub(replacement, source)
    left = _LEFT.search(source)
    if left:
        raise SystemExit(f"{name}: `{left.group()}` has no replacement in `_WORDS`")
    return _format(f"# Generated from client/aio/{name} by memoranda.client.generate; do not edit.\n{source}", name)


def modules() -> Iterator[tuple[Path, str]]:
    """Yield each file of the sync client and its expected text."""
    for written in sorted(ASYNC.glob("*.py")):
        if written.name == "__init__.py":
            yield SYNC / written.name, _PACKAGE
        else:
            yield SYNC / written.name, sync_source(written.read_text(encoding="utf-8"), written.name)


def differences() -> list[str]:
    """Return the names of files that are outdated or should not exist."""
    wanted = dict(modules())
    stale = [file for file, text in wanted.items() if not file.exists() or file.read_text(encoding="utf-8") != text]
    extra = [file for file in sorted(SYNC.glob("*.py")) if file not in wanted]
    return [file.name for file in (*stale, *extra)]


def main(arguments: list[str]) -> int:
    """Write the sync client, or with `--check` only compare it."""
    if arguments not in ([], ["--check"]):
        print("usage: python -m memoranda.client.generate [--check]", file=sys.stderr)
        return 2
    if arguments:
        different = differences()
        if different:
            print(f"outdated: {', '.join(different)}; run python -m memoranda.client.generate", file=sys.stderr)
        return 1 if different else 0
    wanted = dict(modules())
    SYNC.mkdir(exist_ok=True)
    for file, text in wanted.items():
        file.write_text(text, encoding="utf-8")
    for file in SYNC.glob("*.py"):
        if file not in wanted:
            file.unlink()
    return 0


_PACKAGE = '"""The sync client, generated from `memoranda.client.aio`."""\n'


def _format(source: str, name: str) -> str:
    """Sort the imports and format the source with ruff."""
    where = str(SYNC / name)
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
            raise SystemExit(f"{name}: ruff failed: {done.stderr.strip() or done.returncode}")
        source = done.stdout
    return source


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
