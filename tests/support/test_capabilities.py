"""The table of capabilities shows what tests showed, and a run of everything fails where it has a blank."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import capabilities
import pytest


def report(row: str, column: str) -> Any:
    return SimpleNamespace(user_properties=[("other", 1), ("capability", [row, column])])


def whole() -> dict[str, list[Any]]:
    """The reports of a run in which every cell that has no reason has a passed test."""
    cells = [(row, column) for row in capabilities.ROWS for column in capabilities.COLUMNS]
    return {"passed": [report(*cell) for cell in cells if cell not in capabilities.ABSENT]}


def test_a_whole_table_has_no_fault_and_a_reason_for_each_blank():
    table = capabilities.Table(whole())
    assert table.faults(whole=True) == []
    lines = list(table.lines())
    assert len([line for line in lines if line.startswith("(")]) == len(set(capabilities.ABSENT.values()))
    width = max(map(len, capabilities.ROWS))
    for row, line in zip(capabilities.ROWS, lines[1:], strict=False):
        assert line.startswith(row)
        assert len(line[width:].split()) == len(capabilities.COLUMNS), line


@pytest.mark.parametrize("instead", ["nothing", "failed", "skipped"])
def test_a_blank_is_a_fault_of_a_whole_run_and_of_no_other(instead: str):
    stats = whole()
    lost = stats["passed"].pop(0)
    stats[instead] = [lost]
    row, column = lost.user_properties[1][1]
    table = capabilities.Table(stats)
    (fault,) = table.faults(whole=True)
    assert fault.startswith(f"{row} on {capabilities.COLUMNS[column]}: no test passed")
    assert table.faults(whole=False) == []


def test_a_reason_for_what_passes_is_a_fault_of_any_run():
    cell = next(iter(capabilities.ABSENT))
    (fault,) = capabilities.Table({"passed": [report(*cell)]}).faults(whole=False)
    assert "take its reason out" in fault


def test_what_failed_is_shown_and_rows_that_did_not_run_are_not():
    table = capabilities.Table({"failed": [report("races", "sqlite")], "passed": [report("races", "postgres")] * 2})
    (_, line, *reasons) = table.lines()
    assert line.split()[:4] == ["races", "(1)", "1", "FAILED"] and "2" in line.split()
    assert len(reasons) == 2
    assert not capabilities.Table({"passed": [SimpleNamespace(user_properties=[])]})


def test_a_row_that_the_table_does_not_have_is_refused():
    class Item:
        nodeid = "tests/some.py::test"

        def iter_markers(self, name: str) -> list[pytest.Mark]:
            return [pytest.mark.capability("no such row", backend="sqlite").mark]

    with pytest.raises(pytest.UsageError, match="no row `no such row`"):
        capabilities.cells_of(Item())  # pyright: ignore[reportArgumentType]


def test_what_needs_a_program_that_is_not_here_may_be_left_out():
    stats = whole()
    (lost,) = [one for one in stats["passed"] if one.user_properties[1][1] == ["pooler", "postgres"]]
    stats["passed"].remove(lost)
    assert len(capabilities.Table(stats).faults(whole=True)) == 1
    assert capabilities.Table(stats | {"skipped": [lost]}).faults(whole=True) == []
