"""Moving a database: which tables are copied, and how one is read, written and compared.

All SQL stores have the same tables, apart from a few columns, which a subclass of `Side` adds or leaves out when it
reads and writes. Rows are copied as they are stored, and in the order in which a database has an index for them. Two
copies of a table are compared by the number of their rows and by the sum of their hashes, so the order of the other
database does not matter, and an interrupted copy can go on with its sum.

The target is marked before the first row is written: its schema gets a number that no program opens. A table `move`,
which exists only until the end, records how far each table was copied, in the transaction that writes the rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from hashlib import sha256
from typing import Any, ClassVar, NamedTuple, cast

import msgspec

from memoranda.errors import AlreadyExists, Conflict, Corrupt, MigrationNeeded, StorageError
from memoranda.model.event import RUN_EVENTS, event_body
from memoranda.store.sql.entries import EntryRows
from memoranda.store.sql.errors import UNFINISHED
from memoranda.store.sql.rows import Row


class Table(NamedTuple):
    """A table whose rows are moved, and the columns by which they are read in order."""

    name: str
    key: tuple[str, ...]


COPIED = tuple(
    Table(name, tuple(key.split()))
    for name, key in {
        "tenants": "tenant",
        "epochs": "tenant scope",
        "grants": "tenant id",
        "guards": "tenant scope origin",
        "definitions": "tenant id",
        "approvals": "tenant id",
        "rejections": "tenant id",
        "omissions": "tenant id",
        "sessions": "tenant scope",
        "replays": "tenant scope key",
        "usage": "tenant actor seconds begins",
        "erasures": "tenant scope place",
        "content_keys": "tenant scope",
        "facts": "tenant scope key",
        "revisions": "tenant scope key version",
        "links": "tenant child version parent parent_version",
        "collections": "tenant name",
        "spaces": "tenant collection embedder",
        "shelves": "tenant number",
        "entries": "tenant sequence",
        "vectors": "tenant sequence slot",
        "event_texts": "tenant position",
        "events": "tenant position",
    }.items()
)
"""Every table that has something of its own, in the order in which they are copied: SQLite writes a vector beside its
entry. `tenants` is first, because it says which ledgers an interrupted move has copied."""

DERIVED = frozenset({"positions", "chain", "removals", "segments", "portions", "parts"})
"""Tables that are made again from others: they are not copied."""

LOCAL = frozenset({"migrated", "roles", "move"})
"""Tables about one database: its schema, the roles of its server, and a move to it."""

PAGE_ROWS = 4_096
PAGE_BYTES = 4_194_304
"""Content of one page. A longer row is a page of its own."""

_JSON = frozenset(
    "clauses digests effect findings messages metadata payload phrases results rule rules schema space successor text"
    .split()
)  # fmt: skip
"""The columns that have JSON, in all tables."""

_EVENT_COLUMNS = ("body", "hash", "position", "run", "tenant")
_SUMS = 2**256

_encode = msgspec.msgpack.Encoder().encode
_check_json = msgspec.json.Decoder(msgspec.Raw).decode


class Sum(msgspec.Struct, frozen=True):
    """The number of rows of a table, and the sum of their hashes."""

    rows: int = 0
    digest: str = f"{0:064x}"

    def add(self, rows: Iterable[Row]) -> Sum:
        """Return the sum with more rows."""
        count, total = self.rows, int(self.digest, 16)
        for row in rows:
            count += 1
            total += int.from_bytes(sha256(_encode(row)).digest())
        return Sum(count, f"{total % _SUMS:064x}")


class Copied(msgspec.Struct, frozen=True):
    """How far a table was copied: to the row with this key."""

    sum: Sum = Sum()
    after: tuple[Any, ...] = ()
    done: bool = False


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The move that is writing to a database."""

    source: str
    """The address, without secrets."""
    kind: str
    """The kind of the source, which decides the order in which its rows are read."""
    heads: str
    """A hash of the ends of all ledgers in the snapshot: every write moves one of them."""


class Page(NamedTuple):
    """Rows of a table, and the key of the last one."""

    rows: list[Row]
    after: tuple[Any, ...]


class Side(ABC):
    """One of the two databases of a move, on a connection of its own."""

    kind: ClassVar[str]

    def __init__(self, url: str, rows: EntryRows) -> None:
        """Use the connection of `rows`; `url` is the address without secrets."""
        self.url = url
        self.rows = rows
        self._columns: dict[str, tuple[str, ...]] = {}

    # what a backend implements

    @abstractmethod
    def identity(self) -> tuple[Any, ...]:
        """Return what tells this database from every other one of its kind."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """Read one snapshot until the context ends."""

    @abstractmethod
    def translating(self) -> AbstractContextManager[None]:
        """Raise errors of the driver as ours."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""

    @abstractmethod
    def count(self, table: Table) -> int:
        """Return the number of rows of a table."""

    @abstractmethod
    def counters(self) -> dict[str, int]:
        """Return the highest number that was given out, of entries and by table."""

    @abstractmethod
    def _list_columns(self, table: Table) -> tuple[str, ...]:
        """Return the columns of the rows that are moved, sorted by name."""

    @abstractmethod
    def _key(self, table: Table) -> tuple[str, ...]:
        """Return the columns that an index of this database has in this order."""

    @abstractmethod
    def _rows_after(self, table: Table, after: tuple[Any, ...]) -> Generator[Row]:
        """Yield rows in the order of their keys, from the first after a key. Columns of the key follow the others."""

    # reading

    def columns(self, table: Table) -> tuple[str, ...]:
        """Return the columns of the rows that are moved, sorted by name."""
        if table.name == "events":
            return _EVENT_COLUMNS
        if table.name not in self._columns:
            self._columns[table.name] = self._list_columns(table)
        return self._columns[table.name]

    def pages(self, table: Table, after: tuple[Any, ...] = ()) -> Iterator[Page]:
        """Yield the rows of a table, from the first after a key; raise `Corrupt` at one that is damaged."""
        width = len(self.columns(table))
        checked = [index for index, column in enumerate(self.columns(table)) if column in _JSON]
        tenant = self.columns(table).index("tenant")
        page: list[Row] = []
        size, last = 0, after
        with self.translating():
            for found in self._events_after(after) if table.name == "events" else self._rows_after(table, after):
                row, last = found[:width], found[width:]
                if row[tenant] is None:
                    raise self._damaged(table, last, "it does not belong to an entry, or not to this one")
                for index in checked:
                    if row[index] is not None:
                        self._check_json(table, last, row[index])
                page.append(row)
                size += sum(len(value) for value in row if isinstance(value, (str, bytes)))
                if size >= PAGE_BYTES or len(page) >= PAGE_ROWS:
                    yield Page(page, last)
                    page, size = [], 0
        if page:
            yield Page(page, last)

    def heads(self) -> tuple[str, int]:
        """Return a hash of the ends of all ledgers, and the number of events in them."""
        self.rows.reset()
        found, events = sha256(), 0
        for tenant in self.rows.tenants():
            head = self.rows.head(tenant)
            found.update(_encode((tenant, head, msgspec.structs.astuple(self.rows.tenant_state(tenant)))))
            events += head[0] if head else 0
        return found.hexdigest(), events

    def _events_after(self, after: tuple[Any, ...]) -> Iterator[Row]:
        """Yield events by tenant and position, as `_rows_after` does.

        They are read through the store, which checks each one, and knows where a database has their hashes. The column
        `run` follows from the body.
        """
        first, position = cast("tuple[str, int]", after or ("", 0))
        for tenant in self.rows.tenants():
            if tenant < first:
                continue
            for event in self.rows.events(tenant, start=position + 1 if tenant == first else 1):
                run = event.resource if event.effect in RUN_EVENTS else None
                yield event_body(event), event.hash, event.position, run, tenant, tenant, event.position

    def _check_json(self, table: Table, key: tuple[Any, ...], content: bytes) -> None:
        try:
            _check_json(content)
        except msgspec.DecodeError as error:
            raise self._damaged(table, key, str(error)) from error

    def _damaged(self, table: Table, key: Sequence[Any], why: str) -> Corrupt:
        return Corrupt(
            f"`{self.url}`: the row {name_row(self._key(table), key)} of `{table.name}` cannot be moved: {why}",
            hint="Nothing is left out of a move: run `memoranda doctor` on the source, and restore a backup",
            url=self.url,
            table=table.name,
            key=list(key),
        )


class Target(Side):
    """The database that a move writes to."""

    # what a backend implements

    @abstractmethod
    def writing(self) -> AbstractContextManager[None]:
        """Write one transaction until the context ends."""

    @abstractmethod
    def is_unfinished(self) -> bool:
        """Return whether a move to this database has not ended."""

    @abstractmethod
    def lock(self) -> None:
        """Keep other writers out until the transaction ends."""

    @abstractmethod
    def mark(self) -> None:
        """Make the table `move`, and keep every program from opening the database."""

    @abstractmethod
    def finish(self, counters: dict[str, int]) -> None:
        """Drop the table `move`, give no number again that the source has given, and let programs open the database."""

    @abstractmethod
    def empty(self, table: Table) -> None:
        """Remove the rows of a table."""

    @abstractmethod
    def has_rows(self, table: Table) -> bool:
        """Return whether a table has any rows."""

    @abstractmethod
    def _insert(self, table: Table, rows: list[Row]) -> None:
        """Write rows of a table."""

    @abstractmethod
    def _get_states(self) -> dict[str, bytes]:
        """Return the rows of `move`."""

    @abstractmethod
    def _put_state(self, name: str, state: bytes, before: bytes | None) -> bool:
        """Keep a row of `move` in place of what it was, or a new one; return False if it was something else."""

    # the record of the move

    def record(self) -> Record | None:
        """Return the move that is writing here; None if it did not begin."""
        state = self._get_states().get("")
        return None if state is None else msgspec.json.decode(state, type=Record)

    def copied(self) -> dict[str, Copied]:
        """Return how far each table was copied."""
        found = {name: state for name, state in self._get_states().items() if name}
        return {name: msgspec.json.decode(state, type=Copied) for name, state in found.items()}

    def begin(self, record: Record) -> None:
        """Mark an empty database as the target of a move, in a transaction."""
        self.lock()
        if self.is_unfinished():
            raise self._conflict()
        self.check_empty()
        self.mark()
        self._keep("", record, None)
        for table in COPIED:
            self._keep(table.name, Copied(), None)

    def begin_again(self, record: Record) -> None:
        """Remove what a move has written, and begin another, in a transaction."""
        self._keep("", record, self.record())
        for name, before in self.copied().items():
            self._keep(name, Copied(), before)
        for table in reversed(COPIED):
            self.empty(table)

    def write(self, table: Table, page: Page, before: Copied) -> Copied:
        """Write rows, and how far the table is copied with them, in one transaction."""
        after = Copied(before.sum.add(page.rows), page.after)
        with self.writing():
            self._keep(table.name, after, before)
            self._insert(table, page.rows)
        return after

    def end(self, table: Table, before: Copied) -> Copied:
        """Record that a table was copied to its end."""
        after = msgspec.structs.replace(before, done=True)
        with self.writing():
            self._keep(table.name, after, before)
        return after

    def _keep(self, name: str, state: Record | Copied, before: Record | Copied | None) -> None:
        known = None if before is None else msgspec.json.encode(before)
        if not self._put_state(name, msgspec.json.encode(state), known):
            raise self._conflict()

    def check_empty(self) -> None:
        """Raise an error if there is any memory."""
        if any(self.has_rows(table) for table in COPIED):
            raise AlreadyExists(f"`{self.url}` has memory already", hint="Move to an empty database", url=self.url)

    def _conflict(self) -> Conflict:
        return Conflict(
            f"another process is moving memory to `{self.url}`",
            hint="Wait until it ends, or stop it and run the move again",
            url=self.url,
        )

    def cannot_write(self, table: Table, row: Row | None, error: StorageError) -> StorageError:
        """Return an error that names the table, and perhaps the row, that could not be written."""
        columns = self.columns(table)
        where = f"`{table.name}`"
        if row is not None:
            where = f"the row {name_row(table.key, [row[columns.index(name)] for name in table.key])} of {where}"
        message = f"{error.message}, when writing {where}"
        return type(error)(message, hint=error.advice, **{**error.details, "table": table.name})


def check_schema(url: str, found: int, known: int) -> bool:
    """Return whether the target of a move is the unfinished one of this version; raise an error if it is an older one.

    `found` is the number of its schema, 0 for none. A newer one is refused when it is opened.
    """
    if found > UNFINISHED:
        if found != UNFINISHED + known:
            raise MigrationNeeded(
                f"`{url}` is the target of a move to schema {found - UNFINISHED}, this Memoranda has schema {known}",
                hint="Continue with the version that began it, or remove what is there and move to an empty database",
                found=found - UNFINISHED,
                wanted=known,
                url=url,
            )
        return True
    if 0 < found < known:
        raise AlreadyExists(
            f"`{url}` was written by an older Memoranda: it has schema {found}, this one {known}",
            hint="Move to an empty database; if it is empty, open it once with this version",
            url=url,
        )
    return False


def name_row(columns: Sequence[str], key: Sequence[Any]) -> str:
    """Return a row as messages name it.

    >>> name_row(("tenant", "sequence"), ("default", 7))
    "(tenant='default', sequence=7)"
    """
    return f"({', '.join(f'{column}={value!r}' for column, value in zip(columns, key, strict=True))})"


@contextmanager
def closing_on_error(side: Side) -> Generator[None]:
    """Close a side if what follows fails."""
    try:
        yield
    except BaseException:
        side.close()
        raise
