"""Where an export is written: a regular file is complete or absent, and anything else is left as it is."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import memoranda
from memoranda import Memory


@pytest.fixture
def memory() -> Iterator[Memory]:
    with memoranda.open(":memory:") as memory:
        memory.scope(user="ada").set("kiln.cone", 6)
        yield memory


def test_a_pipe_stays_a_pipe_and_gets_the_whole_export(memory: Memory, tmp_path: Path) -> None:
    pipe, plain = tmp_path / "pipe", tmp_path / "plain.jsonl"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    assert memory.export(pipe) == 1
    reader.join(10)
    memory.export(plain)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert read[0].splitlines()[1:] == plain.read_bytes().splitlines()[1:] and b"kiln.cone" in read[0]
    assert sorted(os.listdir(tmp_path)) == ["pipe", "plain.jsonl"]


def test_a_link_stays_a_link_and_the_file_behind_it_is_replaced(memory: Memory, tmp_path: Path) -> None:
    file, link = tmp_path / "shelf" / "ada.jsonl", tmp_path / "latest.jsonl"
    file.parent.mkdir()
    file.write_text("earlier")
    link.symlink_to(file)
    memory.export(link)
    assert link.is_symlink() and b"kiln.cone" in file.read_bytes()
    assert os.listdir(file.parent) == ["ada.jsonl"]


def test_an_export_that_fails_leaves_the_old_file_and_nothing_beside_it(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = tmp_path / "ada.jsonl"
    file.write_text("earlier")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            memory.export(file)
    assert file.read_text() == "earlier" and os.listdir(tmp_path) == ["ada.jsonl"]
    memory.export(file)
    assert "kiln.cone" in file.read_text() and os.listdir(tmp_path) == ["ada.jsonl"]


def test_exports_to_one_file_at_the_same_time_leave_a_whole_one(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, sync = tmp_path / "ada.jsonl", os.fsync

    def meanwhile(number: int) -> None:
        monkeypatch.setattr(os, "fsync", sync)
        memory.scope(user="bob").set("kiln.cone", 7)
        assert memory.export(file) == 2  # another one, from its beginning to its end
        sync(number)

    monkeypatch.setattr(os, "fsync", meanwhile)
    assert memory.export(file) == 1
    assert len(file.read_bytes().splitlines()) == 2 and os.listdir(tmp_path) == ["ada.jsonl"]
    assert memory.export(file) == 2
