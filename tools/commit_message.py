#!/usr/bin/env python3
"""Check commit messages: `commit_message.py FILE` in the commit-msg hook, `commit_message.py --range A..B` in CI.

A subject reads `area: do something`, has at most 72 characters and no period at its end. A body follows an empty line.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

LONGEST = 72
_SUBJECT = re.compile(r"[a-z][a-z0-9-]*(, [a-z][a-z0-9-]*)*: \S")
_BY_GIT = ("Merge ", "Revert ", "fixup! ", "squash! ", "amend! ")


def mistakes(message: str) -> list[str]:
    """Return what is wrong with a commit message, in sentences.

    >>> mistakes("store: retry after a lost connection")
    []
    >>> mistakes("Fixed stuff.")
    ['start the subject with the area it is about, such as `store: retry …`', 'end the subject without a period']
    """
    subject, *rest = [line for line in message.split("\n") if not line.startswith("#")]
    if subject.startswith(_BY_GIT):
        return []
    found: list[str] = []
    if not _SUBJECT.match(subject):
        found.append("start the subject with the area it is about, such as `store: retry …`")
    if len(subject) > LONGEST:
        found.append(f"shorten the subject to {LONGEST} characters; it has {len(subject)}")
    if subject.rstrip().endswith("."):
        found.append("end the subject without a period")
    if rest and rest[0].strip():
        found.append("leave the second line empty")
    return found


def main(arguments: list[str]) -> int:
    """Check one message in a file, or those of a range of commits; return the exit code."""
    if arguments[:1] == ["--range"]:
        command = ["git", "log", "--no-merges", "--format=%B%x00", arguments[1]]
        log = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        messages = [message.strip("\n") for message in log.split("\0") if message.strip()]
    else:
        messages = [Path(arguments[0]).read_text(encoding="utf-8")]
    wrong = [(message, found) for message in messages if (found := mistakes(message))]
    for message, found in wrong:
        print(message.partition("\n")[0], *(f"  - {one}" for one in found), sep="\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
