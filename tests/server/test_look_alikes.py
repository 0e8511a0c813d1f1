"""Over HTTP: an id that looks the same as another is refused; one in another script is another id."""

from __future__ import annotations

from urllib.parse import quote

import pytest

API = "/api/v1"


def write_under(someone, id):
    """Say an id in each place that takes one from a request: a key, an agent, a collection."""
    name = quote(id, safe="")
    block = {"content": f"- {id}", "expected_updated_at": None}
    return [
        someone.put(f"{API}/memory/facts/{name}", json={"value": id}),
        someone.put(f"{API}/memory/blocks/core", params={"scope": "agent", "agent_id": id}, json=block),
        someone.post(f"{API}/collections/{name}/remember", json={"content": f"of {id}"}),
    ]


def read_under(someone, id):
    """Return what is stored under an id in those places."""
    name = quote(id, safe="")
    return [
        someone.get(f"{API}/memory/facts/{name}").json()["value"],
        someone.get(f"{API}/memory/blocks/core", params={"scope": "agent", "agent_id": id}).json()["content"],
        [one["content"] for one in someone.get(f"{API}/collections/{name}/entries").json()["entries"]],
    ]


@pytest.mark.parametrize("alike", ["pre\u200bss", "press\u2060", "cafe\u0301", "\u202epress", "press\x00"])
def test_an_id_that_looks_like_another_is_refused_and_changes_nothing(someone, alike):
    refused = write_under(someone, alike)
    assert [answer.status_code for answer in refused] == [422] * 3, [answer.text for answer in refused]
    assert {answer.headers["Content-Type"] for answer in refused} == {"application/problem+json"}
    assert someone.get(f"{API}/memory/facts").json()["facts"] == []
    assert [answer.status_code for answer in write_under(someone, "press")] == [200, 200, 201]


def test_an_id_in_another_script_is_another_id(someone):
    for id in ("press", "pr\u0435ss"):
        assert [answer.status_code for answer in write_under(someone, id)] == [200, 200, 201]
    for id in ("press", "pr\u0435ss"):
        assert read_under(someone, id) == [id, f"- {id}", [f"of {id}"]]
