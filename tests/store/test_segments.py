"""Indexes of large collections in the cache folder of a host: found, followed, verified, and gone with what they index.

Large is fifty entries here.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import memoranda
from memoranda.engine import segments
from memoranda.engine.memory_index import MemoryIndex
from memoranda.retrieval.index.segment import Contents
from memoranda.retrieval.index.shelf import ShelfIndex
from memoranda.testing import FakeClock

Open = Callable[..., memoranda.Memory]
Hosts = Callable[[str], memoranda.Memory]

_WORDS = "boat harbour rope anchor storm captain lighthouse map engine winch".split()
SECRET = "kestrelquay"


@pytest.fixture(autouse=True)
def _few_entries_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "WORTH_SEALING", 50)
    monkeypatch.setattr(segments, "_PAUSE", 0)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "m.db") if request.param == "sqlite" else request.getfixturevalue("database")


@pytest.fixture
def open_memory(url: str, cache: Path) -> Iterator[Open]:
    opened: list[memoranda.Memory] = []

    def open_memory(**options: Any) -> memoranda.Memory:
        options = {"cache": cache, "embedder": "hashing:64"} | options
        opened.append(memoranda.open(options.pop("url", url), **options))
        return opened[-1]

    yield open_memory
    for memory in opened:
        memory.close()


def note(number: int) -> str:
    return " ".join(_WORDS[(number * step + step) % 10] for step in range(1, 6)) + f" {number}"


def fill(memory: memoranda.Memory, first: int = 0, count: int = 60, **more: Any) -> None:
    with memory.batch() as batch:
        for number in range(first, first + count):
            metadata = {"thread": f"t{number % 4}", "actor": ["Ada", "Grace"][number % 2], "n": number}
            batch.remember(memory.scope(user="ada"), note(number), collection="notes", metadata=metadata, **more)


def settle(memory: memoranda.Memory) -> None:
    """Wait until the segments of a memory are written."""
    root: Any = memory.root
    for work in list(root._indexes.segments._busy.values()):
        work.join(30)


def answers(memory: memoranda.Memory) -> list[Any]:
    ada = memory.scope(user="ada")
    found: list[Any] = []
    for query in ("boat in the storm", "captain 17", "the engine of the winch 33", "4711"):
        for where in (None, {"actor": "Ada"}, {"n": {"$gte": 40}}):
            for collection in (None, "notes"):
                matches = ada.recall(query, collection=collection, filter=where, limit=30)
                found.append([(match.content, round(match.score, 6), match.metadata) for match in matches])
    return found


def expected(open_memory: Open, **options: Any) -> list[Any]:
    """Return what an index answers that is made of the rows."""
    return answers(open_memory(cache="off", **options))


def files(cache: Path) -> list[Path]:
    return sorted((cache / "segments").glob("*.segment"))


def seal(memory: memoranda.Memory) -> None:
    """Let both indexes of Ada be written."""
    ada = memory.scope(user="ada")
    ada.recall("boat")
    ada.recall("boat", collection="notes")
    settle(memory)


class Counting:
    """Counts the rows that indexes are made of, and the files that are opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = 0
        add = ShelfIndex._add

        def count(index: ShelfIndex, new: list[Any]) -> None:
            self.rows += len(new)
            add(index, new)

        monkeypatch.setattr(ShelfIndex, "_add", count)


def test_another_process_starts_from_the_file_and_follows(open_memory: Open, cache: Path, monkeypatch: Any) -> None:
    first = open_memory()
    fill(first)
    seal(first)
    assert len(files(cache)) == 2
    counting = Counting(monkeypatch)
    same = open_memory()
    assert answers(same) == answers(first) != []
    assert counting.rows == 0
    root: Any = same.root
    mapped = root._indexes.mapped_bytes
    assert mapped == sum(path.stat().st_size for path in files(cache))
    assert root._indexes.nbytes < mapped
    # Written by a process without a cache: removals remain to be followed.
    writer = open_memory(cache=None)
    fill(writer, 60, 5)
    ada = writer.scope(user="ada")
    gone = ada.recall("boat in the storm", collection="notes").results[0]
    ada.forget(gone.ref)
    ada.remember("The captain is 4711", collection="notes", key="c")
    ada.remember("The captain is 4712", collection="notes", key="c")
    ada.set("boat", "storm")
    counting.rows = 0
    assert answers(same) == expected(open_memory)
    assert gone.content not in str(answers(open_memory()))
    assert len(files(cache)) == 2


def test_a_fact_is_found_beside_entries_of_a_segment(open_memory: Open, cache: Path) -> None:
    first = open_memory()
    fill(first)
    first.scope(user="ada").set("cat", f"is called {SECRET}")
    seal(first)
    later = open_memory()
    assert SECRET in str(later.scope(user="ada").recall(SECRET).results[0].content)
    assert answers(later) == expected(open_memory)
    assert not any(SECRET.encode() in path.read_bytes() for path in files(cache))


@pytest.mark.parametrize("share", [0.0, 0.2, 0.6, 0.999])
def test_a_damaged_file_costs_time_and_no_answer(
    open_memory: Open, cache: Path, share: float, caplog: pytest.LogCaptureFixture
) -> None:
    first = open_memory()
    fill(first)
    seal(first)
    right = answers(first)
    first.close()
    for number, path in enumerate(files(cache)):
        data = bytearray(path.read_bytes())
        if number:
            del data[int(len(data) * share) :]
        else:
            holds = [place for place, byte in enumerate(data) if byte]
            data[holds[int(len(holds) * share)]] ^= 1
        path.write_bytes(data)
    again = open_memory()
    assert answers(again) == right
    assert caplog.text.count("is dropped, and made again") == 2
    settle(again)
    caplog.clear()
    assert answers(open_memory()) == right
    assert not caplog.text and len(files(cache)) == 2


def test_two_versions_share_the_folder(open_memory: Open, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = open_memory()
    fill(first)
    seal(first)
    old = files(cache)
    monkeypatch.setattr(memoranda, "__version__", "9.9")
    newer = open_memory()
    seal(newer)
    assert len(files(cache)) == 4 and set(old) < set(files(cache))
    newer.erase(user="ada")  # takes those of every version
    assert files(cache) == []


@pytest.mark.parametrize("what", ["other", "link", "mode"])
def test_a_file_that_others_made_or_may_change_is_not_opened(
    open_memory: Open, cache: Path, what: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    if what == "other" and os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    first = open_memory()
    fill(first)
    seal(first)
    right = answers(first)
    for path in files(cache):
        if what == "other":
            os.chown(path, 12345, -1)
        elif what == "mode":
            path.chmod(0o644)
        else:
            shutil.move(path, cache / path.name)
            path.symlink_to(cache / path.name)
    counting = Counting(monkeypatch)
    again = open_memory()
    assert answers(again) == right
    assert counting.rows >= 120 or again.waits  # PostgreSQL has another copy
    assert what == "link" or "Remove it" in caplog.text


@pytest.mark.parametrize("what", ["other", "link", "mode", "file", "missing"])
def test_a_folder_that_is_not_private_is_not_used(
    open_memory: Open, cache: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = cache / "segments"
    cache.mkdir()
    if what == "other":
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder away")
        folder.mkdir(mode=0o700)
        os.chown(folder, 12345, -1)
    elif what == "link":
        (cache / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(cache / "elsewhere")
    elif what == "mode":
        folder.mkdir()
        folder.chmod(0o770)
    elif what == "file":
        folder.write_text("")
    memory = open_memory() if what != "missing" else open_memory(cache="/dev/null/cache")
    fill(memory)
    right = expected(open_memory)
    assert answers(memory) == right
    settle(memory)
    memory.erase(user="ada")
    assert files(cache) == []
    assert caplog.text.count("The cache folder") == 1 and "MEMORANDA_CACHE" in caplog.text


def test_a_full_disk_costs_time_and_no_answer(
    open_memory: Open, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(contents: Contents, file: Any, about: Any) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    memory = open_memory()
    fill(memory)
    with monkeypatch.context() as full:
        full.setattr(Contents, "write", fail)
        seal(memory)
    assert "No space left" in caplog.text
    assert list((cache / "segments").iterdir()) == []
    assert answers(memory) == expected(open_memory)


def test_files_are_private_and_their_names_tell_nothing(open_memory: Open, cache: Path, tmp_path: Path) -> None:
    memory = open_memory()
    fill(memory)
    seal(memory)
    assert stat.S_IMODE((cache / "segments").stat().st_mode) == 0o700
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files(cache))
    assert not any("ada" in path.name.partition(".")[0] or "notes" in path.name for path in files(cache))
    other = open_memory(url=str(tmp_path / "other.db"))
    fill(other)
    seal(other)
    begins = {path.name.split("-")[0] for path in files(cache)}
    assert len(files(cache)) == 4 and len(begins) == 2  # the same ids have other names in another database


def test_what_is_forgotten_is_gone_from_the_folder_at_once(open_memory: Open, cache: Path) -> None:
    memory, reader = open_memory(), open_memory()
    fill(memory)
    ada = memory.scope(user="ada")
    said = ada.remember(f"Her boat is {SECRET}", collection="notes", metadata={"label": SECRET.upper(), "n": 7})
    seal(reader)
    assert any(SECRET.encode() in path.read_bytes() for path in files(cache))
    assert any(SECRET.upper().encode() in path.read_bytes() for path in files(cache))
    assert ada.leak_probes(SECRET).segments is True
    ada.forget(said.ref)
    assert files(cache) == []
    assert ada.leak_probes(SECRET).segments is False
    # What is written again has nothing of it, although the indexes in memory still have its row.
    root: Any = reader.root
    for held in root._indexes._held.values():
        held.next_sealing = 0
    seal(reader)
    seal(open_memory())
    assert len(files(cache)) == 2
    for path in files(cache):
        data = path.read_bytes()
        assert SECRET.encode() not in data and SECRET.upper().encode() not in data and b"captain" in data
    assert answers(open_memory()) == expected(open_memory)


def test_an_entry_that_was_replaced_leaves_the_file(open_memory: Open, cache: Path, monkeypatch: Any) -> None:
    memory = open_memory()
    fill(memory)
    ada = memory.scope(user="ada")
    ada.remember("The captain is 4711", collection="notes", key="c")
    seal(memory)
    before = files(cache)
    ada.remember("The captain is 4712", collection="notes", key="c")
    counting = Counting(monkeypatch)
    assert answers(open_memory()) == answers(memory) == expected(open_memory)
    assert files(cache) == before
    assert counting.rows <= 2 * 61 + 4


@pytest.mark.parametrize("how", ["erase", "collection", "expire"])
def test_whatever_removes_memory_removes_its_files(open_memory: Open, cache: Path, how: str) -> None:
    clock = FakeClock()
    memory = open_memory(clock=clock)
    fill(memory)
    memory.scope(user="ada").remember(f"Her boat is {SECRET}", collection="notes", ttl="1h")
    with memory.batch() as batch:
        for number in range(60):
            batch.remember(memory.scope(user="bob"), note(number), collection="notes")
    memory.scope(user="bob").recall("boat", collection="notes")
    seal(memory)
    assert len(files(cache)) == 3
    if how == "erase":
        memory.erase(user="ada")
    elif how == "collection":
        memory.collections.delete("notes")
    else:
        clock.advance(3601)
        assert memory.sweep().entries == 1
    left = 0 if how == "collection" else 1
    assert len(files(cache)) == left
    assert not any(SECRET.encode() in path.read_bytes() for path in files(cache))


def test_a_sweep_removes_the_files_of_what_another_host_removed(open_memory: Open, cache: Path, tmp_path: Path) -> None:
    memory, elsewhere = open_memory(), open_memory(cache=tmp_path / "elsewhere")
    fill(memory)
    seal(memory)
    seal(elsewhere)
    memory.sweep()
    assert len(files(cache)) == len(files(tmp_path / "elsewhere")) == 2
    elsewhere.erase(user="ada")
    assert files(tmp_path / "elsewhere") == [] and len(files(cache)) == 2
    memory.sweep()
    assert files(cache) == []


def test_a_removal_while_a_file_is_written_is_noticed(
    open_memory: Open, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, go_on = threading.Event(), threading.Event()
    write = Contents.write

    def slow(contents: Contents, file: Any, about: Any) -> None:
        write(contents, file, about)
        writing.set()
        assert go_on.wait(30)

    monkeypatch.setattr(Contents, "write", slow)
    memory = open_memory()
    fill(memory)
    said = memory.scope(user="ada").remember(f"Her boat is {SECRET}", collection="notes")
    memory.scope(user="ada").recall("boat", collection="notes")
    assert writing.wait(30)
    open_memory().scope(user="ada").forget(said.ref)
    go_on.set()
    settle(memory)
    assert files(cache) == []


def test_a_restored_backup_does_not_get_the_index_of_what_was_lost(
    open_memory: Open, cache: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "b.db"
    first = open_memory(url=str(path))
    fill(first)
    seal(first)
    first.close()
    shutil.copy(path, tmp_path / "backup.db")
    first = open_memory(url=str(path))
    fill(first, 100, 60)
    seal(first)
    first.close()
    shutil.copy(tmp_path / "backup.db", path)
    restored = open_memory(url=str(path))
    assert answers(restored) == expected(open_memory, url=str(path))  # the file is ahead of the rows
    seal(restored)
    restored.close()
    # The same numbers are given again, for other entries.
    for ahead in files(cache):
        ahead.unlink()
    first = open_memory(url=str(path))
    fill(first, 100, 60)
    seal(first)
    first.close()
    shutil.copy(tmp_path / "backup.db", path)
    again = open_memory(url=str(path), cache="off")
    fill(again, 200, 80)
    caplog.clear()
    found = answers(open_memory(url=str(path)))
    assert found == answers(again)
    assert caplog.text.count("of another history") == 2


def test_the_least_recently_used_files_go_first(open_memory: Open, cache: Path) -> None:
    memory = open_memory(limits=memoranda.Limits(cache_bytes=600_000))
    for user in ("a", "b", "c", "d", "e", "f"):
        with memory.batch() as batch:
            for number in range(60):
                batch.remember(memory.scope(user=user), note(number), collection="notes")
        memory.scope(user=user).recall("boat", collection="notes")
        settle(memory)
    left = files(cache)
    assert 1 < len(left) < 6
    assert sum(path.stat().st_blocks * 512 for path in left) <= 600_000


def test_nothing_is_kept_where_it_is_turned_off(
    open_memory: Open, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORANDA_CACHE", str(tmp_path / "variable"))
    for options in ({"cache": None}, {"cache": "off"}, {"url": ":memory:"}):
        memory = open_memory(**options)
        fill(memory)
        answers(memory)
        assert {"exports", "segments"} <= set(memory.scope(user="ada").leak_probes("boat").absent)
        memory.close()
    assert not cache.exists() and not (tmp_path / "variable").exists()
    memory = open_memory(cache="auto")
    fill(memory)
    seal(memory)
    assert len(files(tmp_path / "variable")) == 2
    monkeypatch.setenv("MEMORANDA_CACHE", "off")
    assert segments.default_folder() is None


def test_closing_waits_for_what_is_written(open_memory: Open, cache: Path) -> None:
    memory = open_memory()
    fill(memory)
    memory.scope(user="ada").recall("boat")
    memory.close()
    assert len(files(cache)) == 1
    assert [path.name for path in (cache / "segments").iterdir() if path.name.startswith(".")] == []


def test_a_clock_that_was_set_back_does_not_get_an_index_of_the_future(open_memory: Open, cache: Path) -> None:
    clock = FakeClock()
    memory = open_memory(clock=clock)
    fill(memory)
    memory.scope(user="ada").remember("The winch is 4711", collection="notes", ttl="1h")
    clock.advance(3601)
    seal(memory)
    earlier = FakeClock()
    earlier.advance(60)
    past = open_memory(clock=earlier)
    assert "4711" in str(answers(past))
    assert answers(past) == expected(open_memory, clock=earlier)


def test_the_index_of_a_subject_keeps_what_outdates_messages(open_memory: Open, cache: Path) -> None:
    memory = open_memory()
    ada = memory.scope(user="ada")
    ada.learn([{"role": "user", "content": "I live in Lisbon."}], conversation="c1")
    fill(memory)
    ada.learn([{"role": "user", "content": "I live in Porto now."}], conversation="c2")
    seal(memory)
    index = open_memory()
    assert answers(index) == expected(open_memory)
    root: Any = index.root
    (subject,) = root._indexes._subjects.values()
    fresh: Any = open_memory(cache="off")
    answers(fresh)
    (other,) = fresh.root._indexes._subjects.values()
    assert isinstance(subject, MemoryIndex)
    assert subject.outdated == other.outdated and subject.outdated_by == other.outdated_by


def pieces(url: str) -> int:
    """Return how many pieces of segments are in a database."""
    with psycopg.connect(url, autocommit=True) as connection:
        (count,) = connection.execute("SELECT count(*) FROM memoranda.segments").fetchone() or (0,)
    return count


@pytest.fixture
def hosts(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    """Return a function that opens one database from several hosts, each with a cache folder of its own."""
    monkeypatch.setattr(segments, "_PIECE", 20_000)
    opened: list[memoranda.Memory] = []

    def open_on(host: str) -> memoranda.Memory:
        opened.append(memoranda.open(database, cache=tmp_path / host, embedder="hashing:64"))
        return opened[-1]

    yield open_on
    for memory in opened:
        memory.close()


def test_another_host_copies_what_was_published(
    hosts: Hosts, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = hosts("one")
    fill(first)
    seal(first)
    assert pieces(database) > 20
    fill(first, 60, 2)
    counting = Counting(monkeypatch)
    second = hosts("two")
    assert answers(second) == answers(first)
    assert counting.rows <= 2 * 2 + 4  # the two that are newer, in either index of either process
    names = [[path.name for path in files(tmp_path / host)] for host in ("one", "two")]
    assert names[0] == names[1] and len(names[0]) == 2
    assert [path.read_bytes() for path in files(tmp_path / "one")] == [
        path.read_bytes() for path in files(tmp_path / "two")
    ]


@pytest.mark.parametrize("statement", ["bytes = bytes || 'x' WHERE piece = 3", "bytes = 'x' WHERE piece = 0"])
def test_a_damaged_copy_is_not_used(
    hosts: Hosts, database: str, tmp_path: Path, statement: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = hosts("one")
    fill(first)
    seal(first)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"UPDATE memoranda.segments SET {statement}".encode())
    assert answers(hosts("two")) == answers(first)
    assert caplog.text.count("is not used") == 2


@pytest.mark.parametrize("how", ["forget", "erase", "collection", "expire"])
def test_what_is_removed_is_gone_from_what_was_published_with_the_same_commit(
    hosts: Hosts, database: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = hosts("one")
    fill(first)
    said = first.scope(user="ada").remember(f"Her boat is {SECRET}", collection="notes", ttl="1s")
    with first.batch() as batch:
        for number in range(60):
            batch.remember(first.scope(user="bob"), note(number), collection="notes")
    seal(first)
    of_ada = pieces(database)
    first.scope(user="bob").recall("boat")
    settle(first)
    assert pieces(database) > of_ada > 20
    monkeypatch.setattr(segments.SegmentBook, "remove", lambda *_: True)  # not by what follows the commit
    if how == "forget":
        first.scope(user="ada").forget(said.ref)
    elif how == "erase":
        first.erase(user="ada")
    elif how == "collection":
        first.collections.delete("notes")
    else:
        time.sleep(1.1)
        assert first.sweep().entries == 1
    assert pieces(database) < of_ada if how != "collection" else pieces(database) == 0
    assert pieces(database) > 10 or how == "collection"


def test_what_was_removed_while_it_is_published_is_not(
    hosts: Hosts, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = segments.SegmentBook._publish
    first, other = hosts("one"), hosts("two")
    fill(first)
    said = first.scope(user="ada").remember(f"Her boat is {SECRET}", collection="notes")

    def forget_first(self: segments.SegmentBook, *given: Any) -> None:
        monkeypatch.undo()
        other.scope(user="ada").forget(said.ref)
        publish(self, *given)

    monkeypatch.setattr(segments.SegmentBook, "_publish", forget_first)
    monkeypatch.setattr(segments, "WORTH_SEALING", 50)
    first.scope(user="ada").recall("boat", collection="notes")
    settle(first)
    assert pieces(database) == 0


RECALLING = """
import sys
import memoranda
from memoranda.engine import segments
from memoranda.retrieval.index.segment import Contents

segments.WORTH_SEALING, segments._PAUSE = 50, 0
with memoranda.open(sys.argv[1], cache=sys.argv[2], embedder="hashing:64") as memory:
    print("ready", flush=True)
    if sys.stdin.readline().strip() == "halt":
        def halt(contents, file, about):
            file.write(b"half")
            file.flush()
            print("writing", flush=True)
            sys.stdin.readline()
        Contents.write = halt
    ada = memory.scope(user="ada")
    for query in ("boat in the storm", "captain 17"):
        for where in (None, {"actor": "Ada"}):
            for collection in (None, "notes"):
                matches = ada.recall(query, collection=collection, filter=where, limit=30)
                print([(match.content, round(match.score, 6)) for match in matches], flush=True)
"""


def test_processes_that_start_together_share_what_one_of_them_made(
    open_memory: Open, url: str, cache: Path, run_child: Any
) -> None:
    fill(open_memory(cache=None))
    killed = run_child(RECALLING, url, cache)
    assert killed.hear() == "ready"
    killed.say("halt")
    while killed.hear() != "writing":
        pass  # its answers do not wait for that
    killed.stop()
    assert list((cache / "segments").glob(".*.tmp")) and not files(cache)  # a later writer removes it a day later
    answers: list[list[str]] = []
    for _ in range(2):  # the first make the files, or use those that another one made; the second find them
        children = [run_child(RECALLING, url, cache) for _ in range(3)]
        for child in children:
            assert child.hear() == "ready"
        for child in children:
            child.say("go")
        answers += [child.finish() for child in children]
        assert len(files(cache)) == 2
    assert len(answers) == 6 and all(said == answers[0] and len(said) == 8 for said in answers)
