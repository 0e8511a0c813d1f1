#!/usr/bin/env python3
"""Build a release: `python tools/release.py 0.2.0` writes the package and its notes to `dist/`.

Nothing is tagged or uploaded. The version must be that of `pyproject.toml`, and have its section in `CHANGELOG.md`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"


def notes_of(changelog: str, version: str) -> str:
    """Return the section of a version, without its heading; empty if there is none."""
    found = re.search(rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", changelog, re.M | re.S)
    return found[1].strip() if found else ""


def main(arguments: list[str]) -> int:
    """Build the release and say what to do next; return the exit code."""
    version = arguments[0] if arguments else ""
    current = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    notes = notes_of((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, check=True, capture_output=True, text=True)
    for wrong, said in (
        (
            version != current,
            f"pyproject.toml has version {current}: run `make release VERSION={current}`, or change it",
        ),
        (not notes, f"CHANGELOG.md has no section `## {version} - YYYY-MM-DD`: rename `## Unreleased`"),
        (bool(changed.stdout), "there are changes that are not committed: commit or stash them"),
    ):
        if wrong:
            print(f"release: {said}", file=sys.stderr)
            return 1
    shutil.rmtree(DIST, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(DIST)], cwd=ROOT, check=True)
    (DIST / "NOTES.md").write_text(notes + "\n", encoding="utf-8")
    print(*sorted(str(file.relative_to(ROOT)) for file in DIST.iterdir()), sep="\n")
    print(f"\nNext:\n  git tag -a v{version} -F dist/NOTES.md\n  git push origin v{version}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
