"""A process that works on a database of PostgreSQL when it is told to; each contender is a kind of it.

    postgres_worker.py KIND ADDRESS FOLDER

Each line of its input is a verb and its arguments as JSON, and each answer is a line of JSON. The tree that `memoranda`
comes from is on its PYTHONPATH, so two releases are measured by the same program.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import sys
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

COLLECTION = "notes"
DIMENSION = 256
LIMIT = 10
TENANT = "team"
KNOWN = "vectors.npy"
"""In the folder: the vectors of the texts in `KNOWN_TEXTS`; others get one of a pool."""
KNOWN_TEXTS = "texts.json"
_POOL = 4_096


def make_value(number: int) -> dict[str, Any]:
    """Return a value of about 120 bytes of JSON."""
    note = f"prefers short answers, writes from the office, asked {number} times"
    return {"language": "en", "plan": "pro", "seats": 12, "note": note, "number": number}


class GivenVectors:
    """An embedder that costs nothing: it looks vectors up."""

    id = "bench:given"
    dimension = DIMENSION
    calibration = None

    def __init__(self, folder: Path) -> None:
        """Read the known vectors, and make the pool for the rest."""
        made = np.random.default_rng(1).standard_normal((_POOL, DIMENSION)).astype(np.float32)
        self._pool = made / np.linalg.norm(made, axis=1, keepdims=True)
        self._known: dict[str, int] = {}
        if (folder / KNOWN).exists():
            self._vectors = np.load(folder / KNOWN)
            self._known = {text: row for row, text in enumerate(json.loads((folder / KNOWN_TEXTS).read_text()))}

    def of(self, text: str) -> Any:
        """Return the vector of a text."""
        row = self._known.get(text)
        return self._pool[zlib.crc32(text.encode()) % _POOL] if row is None else self._vectors[row]

    def embed(self, texts: Sequence[str]) -> Any:
        """Return the vectors of some texts."""
        return np.stack([self.of(text) for text in texts])


def run_threads(threads: int, seconds: float, work: Callable[[int, int], object]) -> dict[str, float]:
    """Let threads repeat something for so long; return how often all of them did it, and how long that took."""
    counts = [0] * threads
    barrier = threading.Barrier(threads + 1)
    failures: list[BaseException] = []
    end = 0.0

    def repeat(thread: int) -> None:
        barrier.wait()
        try:
            while time.perf_counter() < end:
                work(thread, counts[thread])
                counts[thread] += 1
        except BaseException as failure:
            failures.append(failure)

    workers = [threading.Thread(target=repeat, args=(thread,)) for thread in range(threads)]
    for one in workers:
        one.start()
    start = time.perf_counter()
    end = start + seconds
    barrier.wait()
    for one in workers:
        one.join()
    if failures:
        raise failures[0]
    return {"count": sum(counts), "seconds": time.perf_counter() - start}


def time_each(count: int, work: Callable[[int], object]) -> dict[str, Any]:
    """Do something so often; return the nanoseconds of each and the seconds that this process computed."""
    taken: list[int] = []
    computed = time.process_time()
    for turn in range(count):
        start = time.perf_counter_ns()
        work(turn)
        taken.append(time.perf_counter_ns() - start)
    return {"times": taken, "cpu": time.process_time() - computed}


def proportional_memory() -> float:
    """Return the memory of this process in MB, shared pages counted by their share (PSS)."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the kernel does not say how memory is shared")


class Ours:
    """Memoranda, of whatever tree."""

    def __init__(self, address: str, folder: Path, **limits: Any) -> None:
        """Open the database; the others are limits."""
        import memoranda

        self.memory = memoranda.open(
            address,
            tenant=TENANT,
            embedder=GivenVectors(folder),
            limits=memoranda.Limits(**limits),
            busy_timeout=60,
        )
        self._turn = 0

    def close(self) -> None:
        """Close the database."""
        self.memory.close()

    def _user(self, number: int) -> Any:
        return self.memory.scope(user=f"user-{number:05}")

    def write(self, first: int, threads: int, seconds: float) -> Any:
        """Set facts in several threads, each of a user of its own; every second one is new."""
        scopes = [self._user(first + thread) for thread in range(threads)]
        self._turn += 1
        mark = self._turn

        def work(thread: int, turn: int) -> None:
            scopes[thread].set(f"profile.run{mark}.trait{turn // 2:06}", make_value(turn))

        return run_threads(threads, seconds, work)

    def time_writes(self, count: int) -> Any:
        """Time single writes of one user."""
        scope = self._user(900)
        self._turn += 1
        return time_each(count, lambda turn: scope.set(f"single.run{self._turn}.{turn // 2:06}", make_value(turn)))

    def fill(self, users: int, each: int, first: int = 0) -> Any:
        """Write the notes of some users, 500 in a call; the notes are numbered through."""
        from corpus import make_note

        start = time.perf_counter()
        for user in range(first, first + users):
            for begin in range(0, each, 500):
                notes = [make_note(user * each + begin + one) for one in range(min(500, each - begin))]
                items = [{"content": note.text, "metadata": note.metadata} for note in notes]
                self._user(user).remember_many(items, collection=COLLECTION)
        return {"seconds": time.perf_counter() - start}

    def time_remembers(self, count: int, each: int, first: int) -> Any:
        """Time calls that remember so many notes each."""
        from corpus import make_note

        calls = [[make_note(first + turn * each + one) for one in range(each)] for turn in range(count)]
        items = [[{"content": note.text, "metadata": note.metadata} for note in notes] for notes in calls]
        return time_each(count, lambda turn: self._user(901).remember_many(items[turn], collection=COLLECTION))

    def time_recalls(self, count: int, users: int, each: int, seed: int) -> Any:
        """Time questions of random users about random notes of theirs; say how often the note was among the ten."""
        from corpus import make_note

        source = random.Random(seed)
        asked = [(user := source.randrange(users), user * each + source.randrange(each)) for _ in range(count)]
        notes = [make_note(number) for _, number in asked]
        found: list[bool] = []

        def work(turn: int) -> None:
            user, _ = asked[turn]
            results = self._user(user).recall(notes[turn].question, collection=COLLECTION, limit=LIMIT).results
            found.append(any(match.content == notes[turn].text for match in results))

        return {**time_each(count, work), "found": sum(found)}

    def time_big_recalls(self, count: int, user: int, each: int, seed: int) -> Any:
        """Time questions about random notes of one user."""
        from corpus import make_note

        source = random.Random(seed)
        questions = [make_note(user * each + source.randrange(each)).question for _ in range(count)]
        scope = self._user(user)
        return time_each(count, lambda turn: scope.recall(questions[turn], collection=COLLECTION, limit=LIMIT))

    def answer_big(self, count: int, user: int, each: int, seed: int, exact: bool) -> Any:
        """Return the ids of the first matches of questions about random notes of one user."""
        from corpus import make_note

        source, scope = random.Random(seed), self._user(user)
        questions = [make_note(user * each + source.randrange(each)).question for _ in range(count)]
        answers = [scope.recall(one, collection=COLLECTION, limit=LIMIT, exact=exact) for one in questions]
        return {"ids": [[match.id for match in answer] for answer in answers]}

    def memory_used(self) -> Any:
        """Return the memory of this process in MB."""
        return {"pss": proportional_memory()}


class Raw:
    """Bare statements that write the rows of a `set`, each thread on its own connection, in one round trip."""

    def __init__(self, address: str, folder: Path, schema: str = "raw") -> None:
        """Read how the rows look; `postgres_ground.copy_tables` has put a sample of each beside ours."""
        import psycopg

        self._address = address
        self._psycopg = psycopg
        with psycopg.connect(address, autocommit=True) as connection:
            self._tables = read_tables(connection, schema)
        self._number = os.getpid() << 40  # no two processes use the same numbers
        self._lock = threading.Lock()

    def close(self) -> None:
        """Nothing is open between two calls."""

    def _connect(self) -> Any:
        connection = self._psycopg.connect(self._address, autocommit=True)
        connection.prepare_threshold = 0
        return connection

    def _writer(self, connection: Any, user: int) -> Callable[[int], None]:
        with self._lock:
            self._number += 1 << 28
            number = self._number

        def write(turn: int) -> None:
            nonlocal number
            number += 1
            with connection.pipeline():
                connection.execute(b"BEGIN")
                for table in self._tables:
                    connection.execute(table.statement, table.row(user, turn, number), binary=True)
                connection.execute(b"COMMIT")

        return write

    def write(self, first: int, threads: int, seconds: float) -> Any:
        """Write rows in several threads."""
        with ExitStack() as stack:
            writers = [self._writer(stack.enter_context(self._connect()), first + thread) for thread in range(threads)]
            return run_threads(threads, seconds, lambda thread, turn: writers[thread](turn))

    def time_writes(self, count: int) -> Any:
        """Time single writes of one user."""
        with self._connect() as connection:
            writer = self._writer(connection, 900)
            writer(0)
            return time_each(count, writer)


class RawTable:
    """One table that a `set` writes to: a row of it, and what changes from row to row."""

    def __init__(self, schema: str, name: str, columns: list[str], key: list[str], sample: tuple[Any, ...]) -> None:
        """Make the statement; a table whose key has no version replaces its rows."""
        self.name, self.columns, self.key, self.sample = name, columns, key, sample
        replaced = "version" in columns and "version" not in key
        places = ", ".join(["%s"] * len(columns))
        names = ", ".join(columns)
        statement = f"INSERT INTO {schema}.{name} ({names}) VALUES ({places})"
        if replaced:
            changes = ", ".join(f"{one} = EXCLUDED.{one}" for one in columns if one not in key)
            statement += f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"
        self.statement = statement.encode()

    def row(self, user: int, turn: int, number: int) -> list[Any]:
        """Return the next row of a user."""
        pairs = zip(self.columns, self.sample, strict=True)
        return [self._value(column, value, user, turn, number) for column, value in pairs]

    def _value(self, column: str, value: Any, user: int, turn: int, number: int) -> Any:
        if column == "scope":
            return f"user:user-{user:05}"
        if column == "key" and isinstance(value, str):
            return f"profile.run{number >> 28}.trait{turn // 2:06}"
        if column not in self.key or column == "tenant":
            return value
        return number if isinstance(value, int) else f"{value}-{number}"


def read_tables(connection: Any, schema: str) -> list[RawTable]:
    """Return the tables of a schema, with the columns that can be written, the key and the sample row of each."""
    tables: list[RawTable] = []
    names = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'r' ORDER BY relname",
        (schema,),
    ).fetchall()
    for (name,) in names:
        columns = [
            column
            for (column,) in connection.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
                " AND attidentity = '' AND attgenerated = '' ORDER BY attnum",
                (f"{schema}.{name}",),
            )
        ]
        key = [
            column
            for (column,) in connection.execute(
                "SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)"
                " WHERE indrelid = %s::regclass AND indisprimary",
                (f"{schema}.{name}",),
            )
        ]
        sample = connection.execute(f"SELECT {', '.join(columns)} FROM {schema}.{name} LIMIT 1").fetchone()
        tables.append(RawTable(schema, name, columns, key, sample))
    return tables


class Peer:
    """LangGraph's PostgresStore, with the same vectors and an HNSW index."""

    def __init__(self, address: str, folder: Path) -> None:
        """Open it, creating its tables."""
        from langgraph.store.postgres import PostgresStore

        embedder = GivenVectors(folder)
        self._stack = ExitStack()
        index: Any = {
            "dims": DIMENSION,
            "embed": lambda texts: [embedder.of(text).tolist() for text in texts],
            "fields": ["text"],
            "distance_type": "cosine",
        }
        self.store = self._stack.enter_context(PostgresStore.from_conn_string(address, index=index))
        self.store.setup()
        self.store.conn.execute("SET hnsw.iterative_scan = relaxed_order")
        self._turn = 0

    def close(self) -> None:
        """Close it."""
        self._stack.close()

    def _items(self, numbers: range, user: int) -> list[Any]:
        from corpus import make_note
        from langgraph.store.base import PutOp

        notes = [make_note(number) for number in numbers]
        place = ("users", f"user-{user:05}", COLLECTION)
        return [PutOp(place, str(note.number), {"text": note.text, **note.metadata}) for note in notes]

    def time_writes(self, count: int) -> Any:
        """Time single puts of one user, which nothing indexes."""
        self._turn += 1
        place = ("users", "user-00900")
        return time_each(
            count,
            lambda turn: self.store.put(place, f"single.run{self._turn}.{turn // 2:06}", make_value(turn), index=False),
        )

    def fill(self, users: int, each: int, first: int = 0) -> Any:
        """Put the notes of some users, 500 in a batch."""
        start = time.perf_counter()
        for user in range(first, first + users):
            for begin in range(0, each, 500):
                numbers = range(user * each + begin, user * each + min(begin + 500, each))
                self.store.batch(self._items(numbers, user))
        return {"seconds": time.perf_counter() - start}

    def time_remembers(self, count: int, each: int, first: int) -> Any:
        """Time batches of puts."""
        calls = [self._items(range(first + turn * each, first + (turn + 1) * each), 901) for turn in range(count)]
        return time_each(count, lambda turn: self.store.batch(calls[turn]))

    def time_recalls(self, count: int, users: int, each: int, seed: int) -> Any:
        """Time searches in the namespaces of random users; say how often the note was among the ten."""
        from corpus import make_note

        source = random.Random(seed)
        asked = [(user := source.randrange(users), user * each + source.randrange(each)) for _ in range(count)]
        notes = [make_note(number) for _, number in asked]
        found: list[bool] = []

        def work(turn: int) -> None:
            place = ("users", f"user-{asked[turn][0]:05}", COLLECTION)
            results = self.store.search(place, query=notes[turn].question, limit=LIMIT)
            found.append(any(one.value["text"] == notes[turn].text for one in results))

        return {**time_each(count, work), "found": sum(found)}


class Sender:
    """Sends writes to a server, each thread over a connection and with a key of its own."""

    def __init__(self, address: str, folder: Path) -> None:
        """Read the keys, which lie in the folder."""
        self._host, _, port = address.removeprefix("http://").partition(":")
        self._port = int(port)
        self._keys: list[str] = json.loads((folder / "keys.json").read_text())
        self._turn = 0

    def close(self) -> None:
        """Nothing is open between two calls."""

    def write(self, first: int, threads: int, seconds: float) -> Any:
        """Put facts over HTTP."""
        connections = [http.client.HTTPConnection(self._host, self._port, timeout=120) for _ in range(threads)]
        self._turn += 1
        mark = f"{os.getpid()}.{self._turn}"

        def work(thread: int, turn: int) -> None:
            body = json.dumps({"value": make_value(turn)})
            headers = {
                "Authorization": f"Bearer {self._keys[first + thread]}",
                "Content-Type": "application/json",
            }
            path = f"/api/v1/memory/facts/run{mark.replace('.', '-')}.trait{turn // 2:06}"
            connections[thread].request("PUT", path, body, headers)
            answer = connections[thread].getresponse()
            said = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"{answer.status}: {said[:300]!r}")

        done = run_threads(threads, seconds, work)
        for one in connections:
            one.close()
        return done


KINDS: dict[str, Callable[..., Any]] = {"ours": Ours, "raw": Raw, "peer": Peer, "http": Sender}


def first_recall(address: str, folder: Path, user: int, number: int) -> None:
    """Open a database in this new process and ask one question; print what that took, and later the memory."""
    from corpus import make_note

    import memoranda

    embedder = GivenVectors(folder)
    question = make_note(number).question
    embedder.embed([question])
    computed, start = time.process_time(), time.perf_counter()
    with memoranda.open(address, tenant=TENANT, embedder=embedder, busy_timeout=60) as memory:
        opened = time.perf_counter()
        found = memory.scope(user=f"user-{user:05}").recall(question, collection=COLLECTION, limit=LIMIT)
        if not found.results:
            raise RuntimeError("nothing was found")
        done = time.perf_counter()
        said = {"opening": opened - start, "first": done - opened, "cpu": time.process_time() - computed}
        print(json.dumps(said), flush=True)
        sys.stdin.readline()  # until all have their index
        print(json.dumps({"pss": proportional_memory()}), flush=True)
        sys.stdin.readline()  # until all have looked


def main() -> None:
    """Answer lines, or ask one question and end."""
    kind, address, folder, *rest = sys.argv[1:]
    if kind == "first":
        first_recall(address, Path(folder), *map(int, rest[:2]))
        return
    options = json.loads(rest[0]) if rest else {}
    worker = KINDS[kind](address, Path(folder), **options)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        verb, arguments = json.loads(line)
        print(json.dumps(getattr(worker, verb)(**arguments)), flush=True)
    worker.close()


if __name__ == "__main__":
    main()
