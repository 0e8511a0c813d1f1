"""A program in, the file of its tests out; and back from such a file to the program beside it.

The tests of `hotel.abl` are in `hotel.tests.yaml`, whatever the program's own ending is.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from memoranda.errors import NotFound, UsageError
from memoranda.model.text import quote

ENDING = ".tests.yaml"
"""How a file of tests is called that belongs to the program beside it."""
ENDINGS = (ENDING, ".tests.yml")


def tests_beside(program: Path, ending: str) -> Path:
    """Return the file of tests that belongs to a program whose name ends like this."""
    return program.with_name(program.name.removesuffix(ending) + ENDING)


def programs_beside(tests: Path, endings: Iterable[str]) -> list[Path]:
    """Return the programs that a file of tests may belong to: those that stand beside it and end like this."""
    stem = stem_of(tests)
    return [beside for ending in endings if (beside := tests.with_name(stem + ending)).is_file() and beside != tests]


def stem_of(tests: Path) -> str:
    """Return what a file of tests and its program are both called."""
    for ending in ENDINGS:
        if tests.name.endswith(ending):
            return tests.name.removesuffix(ending)
    return tests.stem


def read_tests(file: Path, *, hint: str) -> str:
    """Return the text of a file of tests; `hint` says where one belongs that is not there."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise NotFound(f"there is no file {quote(str(file), longest=300)}", hint=hint, path=str(file)) from None
    except UnicodeDecodeError:
        raise UsageError(f"{quote(str(file))} is not text in UTF-8", hint="Convert it", path=str(file)) from None
    except OSError as error:
        message = f"{quote(str(file))} cannot be read: {error.strerror or error}"
        raise UsageError(message, hint="Name a file that can be read", path=str(file)) from None
