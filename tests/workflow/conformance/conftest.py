"""A server with its admin pages, started once, and a way to fill their forms."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import warm_memoranda


class Pages:
    """The pages of an administrator, and the API beside them."""

    def __init__(self, address: str, key: str) -> None:
        self.client = httpx.Client(base_url=address, headers={"Origin": address}, timeout=60)
        assert self.client.post("/admin/sign-in", data={"key": key, "onwards": ""}).status_code == 303
        self.api = httpx.Client(base_url=f"{address}/api/v1", headers={"Authorization": f"Bearer {key}"}, timeout=60)

    def read(self, path: str) -> str:
        """Return the HTML of a page."""
        answer = self.client.get(f"/admin{path}")
        assert answer.status_code == 200, answer.text
        return answer.text

    def send(self, path: str, **fields: str) -> None:
        """Send the form of a page."""
        hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', self.read(path)))
        answer = self.client.post(f"/admin{path}", data={**hidden, **fields})
        assert answer.status_code == 303, answer.text


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """Return the pages of a server of these tests."""
    db: Path = tmp_path_factory.mktemp("pages") / "memory.db"
    env = {name: value for name, value in os.environ.items() if not name.startswith("MEMORANDA_")}
    arguments = ("serve", "--db", str(db), "--port", "0", "--json")
    with (
        db.with_suffix(".log").open("ab") as log,
        warm_memoranda.run_fork(*arguments, warmth="server", stderr=log, env=env) as process,
    ):
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        made = Pages(told["address"], told["admin_key"])
        yield made
        made.client.close()
        made.api.close()
