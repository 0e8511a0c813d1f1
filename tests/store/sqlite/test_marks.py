"""Marks of a tenant: where its ledger ends, asked of the writer, or of a reader during a write."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import memoranda


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "m.db")


def test_the_mark_of_a_tenant_stays_while_this_process_writes_to_others(path: str) -> None:
    with memoranda.open(path) as memory, memoranda.open(path) as other:
        memory.in_tenant("acme").scope(user="ada").set("k", 1)
        before = memory.mark(tenant="acme")
        memory.in_tenant("zeta").scope(user="ada").set("k", 1)
        assert memory.mark(tenant="acme") == before
        other.in_tenant("zeta").scope(user="ada").set("k", 2)
        assert memory.mark(tenant="acme") == before
        other.in_tenant("acme").scope(user="ada").set("k", 2)
        assert memory.mark(tenant="acme") != before


def test_the_mark_of_a_tenant_is_the_same_while_somebody_writes_as_before(path: str) -> None:
    """Then another connection is asked, and it must not seem as if something had been written."""
    with memoranda.open(path) as memory:
        memory.in_tenant("acme").scope(user="ada").set("k", 1)
        before = memory.mark(tenant="acme")
        store: Any = memory._gate._store
        writes, go_on = threading.Event(), threading.Event()
        writer = threading.Thread(
            target=lambda: store.transact(lambda rows: (writes.set(), go_on.wait(30))), daemon=True
        )
        writer.start()
        assert writes.wait(30)
        try:
            assert store._writer.ledger_end("acme") == (False, None)
            assert memory.mark(tenant="acme") == before
        finally:
            go_on.set()
            writer.join(30)
        assert store._writer.ledger_end("acme") == (True, before)


def test_what_a_work_has_not_committed_is_in_no_mark(path: str) -> None:
    with memoranda.open(path) as memory:
        acme = memory.in_tenant("acme")
        acme.scope(user="ada").set("k", 1)
        before = memory.mark(tenant="acme")
        store: Any = memory._gate._store
        seen: list[object] = []
        run = type(store._writer._rows)._run

        def looking(rows, name, *values) -> None:
            run(rows, name, *values)
            if name == "move_head":
                seen.append(store.mark("acme"))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(store._writer._rows), "_run", looking)
            acme.scope(user="ada").set("k", 2)
        assert seen == [before]
        assert memory.mark(tenant="acme") != before
