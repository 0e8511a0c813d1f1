"""The calls that programs know from elsewhere work as they are written there, against `memoranda serve` itself."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import run_process

import memoranda


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Return the address and the first key of a server that was started as users start it."""
    folder: Path = tmp_path_factory.mktemp("serving")
    with run_process(
        [sys.executable, "-m", "memoranda.cli", "serve", "--port", "0", "--json"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        started = json.loads(process.stdout.readline())
        yield started["address"], started["admin_key"]
        process.terminate()
        assert process.wait(20) == 0


def test_blocks_are_read_updated_and_recalled_as_written(
    serving: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        async with memoranda.AsyncClient(*serving) as client:
            await client.memory.update("core", "- Sells honey", expected_updated_at=None)
            await client.memory.update("core", "- Replies in verse", expected_updated_at=None, agent_id="agent_mail")
            notes = "- Orchard lease: the owner wants two offers before the harvest\n- Mill repair: the beam is paid"
            await client.memory.update("archival", notes, expected_updated_at=None)
            await client.memory.update(
                "archival",
                "- Orchard lease: papers in the blue box",
                expected_updated_at=None,
                agent_id="agent_files",
            )

            blocks = await client.memory.list()
            core = await client.memory.get("core")
            agent_core = await client.memory.get("core", scope="agent", agent_id="agent_mail")
            assert [block.block_type for block in blocks] == ["core", "archival"]
            assert core is not None and core.content == "- Sells honey"
            assert agent_core is not None and agent_core.content == "- Replies in verse"

            updated = await client.memory.update(
                "core",
                "- Wants short answers\n- Works in Europe/Lisbon",
                expected_updated_at=core.updated_at.isoformat(),
            )
            assert updated.updated_at > core.updated_at and updated.content.startswith("- Wants short answers\n")

            matches = await client.memory.recall("Orchard lease", agent_id="agent_files")
            for match in matches:
                print(match.scope, match.score, match.content)

    asyncio.run(main())
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.split()[0] for line in lines) == ["agent", "user"]
    assert all("Orchard lease" in line and float(line.split()[1]) > 0 for line in lines)
    assert not any("Mill" in line for line in lines)
