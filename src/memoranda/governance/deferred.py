"""Notes of reads in, ledger events out a moment later: a read never waits for the disk."""

from __future__ import annotations

import threading
from collections import deque

import msgspec

from memoranda.engine.sessions import ended_session
from memoranda.errors import MemorandaError
from memoranda.governance.ledger import Signature, append
from memoranda.model.event import Note
from memoranda.model.scope import Scope
from memoranda.store.base import Store, Transaction

_DELAY = 0.05
_MOST_WAITING = 10_000


class DeferredEvents:
    """Notes that are appended together within 50 ms, and at the latest when the memory closes."""

    def __init__(self, store: Store) -> None:
        """Wait for the first note before starting a thread."""
        self._store = store
        self._waiting: deque[tuple[Note, Signature]] = deque()
        self._flushing = threading.Lock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None

    def add(self, note: Note, signature: Signature) -> None:
        """Put a note off. When too many could not be written, raise why instead of forgetting any."""
        if self._failure is not None and len(self._waiting) > _MOST_WAITING:
            raise self._failure
        self._waiting.append((note, signature))
        if self._thread is None:
            with self._flushing:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="memoranda-ledger", daemon=True)
                    self._thread.start()
        self._wake.set()

    def flush(self) -> None:
        """Append everything that waits; what cannot be written stays waiting."""
        with self._flushing:
            batch = list(self._waiting)
            if not batch:
                return
            self._store.transact(lambda rows: _append_all(rows, batch))
            for _ in batch:
                self._waiting.popleft()

    def close(self) -> None:
        """Stop the thread and append what is left."""
        self._closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        self.flush()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wake.wait()
            self._wake.clear()
            if self._closing.wait(_DELAY):
                return  # close() writes what is left, in the caller's thread, where a failure is seen
            try:
                self.flush()
                self._failure = None
            except MemorandaError as failure:
                self._failure = failure  # the notes wait on: the next flush or close() tries again and raises
                self._wake.set()


def _append_all(rows: Transaction, batch: list[tuple[Note, Signature]]) -> None:
    for note, signature in batch:
        append(rows, (without_the_erased(rows, note, signature),), signature)


def without_the_erased(rows: Transaction, note: Note, signature: Signature) -> Note:
    """Return a note without its content where its subject was erased, or its session ended, before it is kept."""
    scope = Scope(signature.tenant, note.scope)
    erasure = rows.erasure(scope)
    if (erasure is not None and signature.at <= erasure.at) or ended_session(rows, scope) is not None:
        return msgspec.structs.replace(note, payload=None)
    return note
