"""Every error SQLite has is one of ours, with something to do about it."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from memoranda.errors import Busy, Corrupt, Full, ReadOnly, StorageError, Unavailable
from memoranda.store.sqlite.errors import ERRORS, translate


def every_subclass(kind: type[BaseException]) -> set[type[BaseException]]:
    return {kind}.union(*(every_subclass(child) for child in kind.__subclasses__())) - {apsw.Error}


def test_every_error_of_sqlite_is_mapped():
    assert every_subclass(apsw.Error) - set(ERRORS) == set()
    assert len(every_subclass(apsw.Error)) > 30  # the walk did find them


def test_every_result_code_of_sqlite_is_mapped():
    for code in range(1, 102):
        try:
            raise apsw.exception_for(code)
        except apsw.Error as error:
            if type(error) is not apsw.Error:  # a code SQLite has no error for
                assert type(error) in ERRORS, code
        except ValueError:
            continue


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (apsw.BusyError, Busy),
        (apsw.LockedError, Busy),
        (apsw.FullError, Full),
        (apsw.ReadOnlyError, ReadOnly),
        (apsw.CorruptError, Corrupt),
        (apsw.NotADBError, Corrupt),
        (apsw.CantOpenError, Unavailable),
        (apsw.IOError, Unavailable),
        (apsw.PermissionsError, Unavailable),
    ],
)
def test_the_ones_people_meet(error: type[apsw.Error], expected: type[StorageError], tmp_path: Path):
    path = str(tmp_path / "m.db")
    found = translate(error("what SQLite said"), path)
    assert type(found) is expected
    assert found.url == path
    assert f"`{path}`: what SQLite said" in str(found)


def test_every_translation_says_what_to_do():
    assert all(hint and issubclass(kind, StorageError) for kind, hint in ERRORS.values())


def test_an_error_sqlite_has_yet_to_invent_is_still_one_of_ours():
    class LaterError(apsw.Error):
        pass

    assert type(translate(LaterError("?"), "m.db")) is StorageError
    del LaterError
