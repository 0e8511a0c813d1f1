"""docs/mcp.md names every tool, address and option that there is, and no other."""

from __future__ import annotations

import json
import re
from pathlib import Path

from typer.main import get_group

from memoranda.cli.serve import app
from memoranda.mcp.tools import BLOCK_URI, DEFINITION_URI, TOOLS

PAGE = Path(__file__).parents[2].joinpath("docs", "mcp.md").read_text(encoding="utf-8")


def test_the_table_has_every_tool_and_says_which_of_them_write() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .* \|( yes)? \|$", PAGE, re.MULTILINE)
    assert {name: bool(writes) for name, writes in rows} == {name: tool.writes for name, tool in TOOLS.items()}


def test_the_page_has_every_address() -> None:
    assert re.findall(r"^\| `(memoranda://[^`]+)`", PAGE, re.MULTILINE) == [BLOCK_URI, DEFINITION_URI]


def test_what_a_client_is_configured_with_can_be_called() -> None:
    shown = [json.loads(text) for text in re.findall(r"^```json\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)]
    command = get_group(app).commands["mcp"]
    known = {flag for option in command.params for flag in option.opts}
    for one in shown:
        started = one["mcpServers"]["memory"]
        assert (started["command"], started["args"][0]) == ("memoranda", "mcp")
        assert {word for word in started["args"] if word.startswith("-")} <= known
    assert len(shown) == 2
