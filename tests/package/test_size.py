"""How large the package is, what it brings with it, and how long its import takes beside others; all is printed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
OWN = 24 * MIB
"""What the package itself may take on the disk, without bytecode; 17 MiB are the files of the default embedder."""
CORE = 130 * MIB
"""What it may take with all that it needs, without any extra. Half of it is numpy."""
BESIDE_NUMPY = 2.0
"""How many times the processor time of numpy's import ours may take; that one is loaded when it is needed."""

SIZES = """
import importlib.metadata, json
print(json.dumps({
    one.name: sum(file.locate().stat().st_size for file in one.files or () if "__pycache__" not in file.parts)
    for one in importlib.metadata.distributions()
}))
"""
IMPORT = """
import sys, time
begun = time.process_time()
__import__(sys.argv[1])
print(time.process_time() - begun)
"""

pytestmark = pytest.mark.package


def sizes(environment: Any) -> dict[str, int]:
    """Return the bytes that each package takes in an environment, largest first."""
    found: dict[str, int] = json.loads(environment.python(SIZES))
    return dict(sorted(found.items(), key=lambda one: -one[1]))


def test_the_package_and_what_it_needs_are_not_large(bare: Any, capsys: pytest.CaptureFixture[str]) -> None:
    found = sizes(bare)
    total = sum(found.values())
    with capsys.disabled():
        print(f"\nwithout an extra: {len(found)} packages, {total / MIB:.1f} MiB")
        for name, size in found.items():
            if size >= MIB / 2:
                print(f"  {name:20} {size / MIB:6.1f} MiB")
    assert 0 < found["memoranda"] <= OWN
    assert total <= CORE


def test_the_page_about_installing_says_how_large_each_package_is(bare: Any) -> None:
    page = (ROOT / "docs" / "installing.md").read_text(encoding="utf-8")
    said = {
        name: float(size) for name, size in re.findall(r"^\| ([\w-]+) \| ([\d.]+) \| [^|]+ \|$", page, re.MULTILINE)
    }
    found = {re.sub("[-_.]+", "-", name).lower(): size / MIB for name, size in sizes(bare).items()}
    assert set(said) == set(found)
    # Other systems and Pythons have other wheels of these versions, so a size is said roughly.
    assert {name: (said[name], size) for name, size in found.items() if abs(said[name] - size) > 0.1 + size / 10} == {}
    [total] = re.findall(r"about (\d+) MiB", page)[:1]
    assert abs(int(total) - sum(found.values())) <= 5


@pytest.mark.parametrize("extra", ["api", "client", "llm", "mcp", "onnx", "postgres", "server", "all"])
def test_what_an_extra_adds_is_printed(extra: str, bare: Any, install: Any, capsys: pytest.CaptureFixture[str]) -> None:
    without, found = sizes(bare), sizes(install(extra))
    new = {name: size for name, size in found.items() if name not in without}
    with capsys.disabled():
        print(f"\n{extra}: {len(new)} packages more, {sum(new.values()) / MIB:.1f} MiB: {', '.join(list(new)[:8])}")
    assert new
    assert without.items() <= found.items()


def test_an_import_takes_no_longer_than_that_of_a_large_package(bare: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def least(module: str) -> float:
        # The first compiles what the others load.
        return min(float(bare.python(IMPORT, module)) for _ in range(6))

    took = {module: least(module) for module in ("memoranda", "numpy", "asyncio")}
    with capsys.disabled():
        print("\nprocessor time of an import:", ", ".join(f"{name} {1000 * one:.0f} ms" for name, one in took.items()))
    assert took["memoranda"] <= BESIDE_NUMPY * took["numpy"]
