from __future__ import annotations

import json
from pathlib import Path

import pytest

from memoranda.server.app import create_app
from memoranda.server.openapi import document
from memoranda.server.settings import Settings

CHECKED_IN = Path(__file__).parents[2] / "docs" / "openapi.json"
AGAIN = "python -m memoranda.server.openapi > docs/openapi.json"


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    import memoranda

    with memoranda.open(tmp_path_factory.mktemp("openapi") / "memory.db") as memory:
        yield document(create_app(Settings(), memory))


def test_the_document_that_is_checked_in_is_that_of_the_application(described):
    assert CHECKED_IN.read_bytes() == described + b"\n", f"write it again: {AGAIN}"


def test_a_server_gives_the_same_document(served, described):
    got = served.client().get("/openapi.json")
    assert (got.status_code, got.headers["content-type"]) == (200, "application/json")
    assert got.content == described
    page = served.client().get("/docs")
    assert page.status_code == 200
    for path in json.loads(described)["paths"]:
        assert path in page.text
    assert "http://" not in page.text
    assert "https://" not in page.text


def test_the_document_is_openapi_3_1_and_every_operation_names_its_problems(described):
    told = json.loads(described)
    assert told["openapi"].startswith("3.1")
    ids = [one["operationId"] for path in told["paths"].values() for one in path.values()]
    assert len(ids) == len(set(ids))
    for path, operations in told["paths"].items():
        for method, operation in operations.items():
            assert operation["description"], (method, path)
            if path.startswith("/api/v1"):
                problem = operation["responses"]["422"]["content"]
                assert problem == {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    assert told["components"]["schemas"]["WriteFact"]["additionalProperties"] is False
    assert "additionalProperties" not in told["components"]["schemas"]["Fact"]


def test_every_route_of_the_interface_is_there(described):
    paths = json.loads(described)["paths"]
    for path, methods in {
        "/api/v1/memory/blocks": {"get"},
        "/api/v1/memory/blocks/{block_type}": {"get", "put", "delete"},
        "/api/v1/memory/recall": {"post"},
        "/api/v1/memory/definitions": {"get", "post"},
        "/api/v1/memory/definitions/{definition}": {"get", "patch", "delete"},
        "/api/v1/memory/definitions/{definition}/records": {"get"},
        "/api/v1/memory/facts": {"get"},
        "/api/v1/memory/facts/{key}": {"get", "put", "delete"},
        "/api/v1/memory/facts/{key}/history": {"get"},
        "/api/v1/collections": {"get"},
        "/api/v1/collections/{collection}/remember": {"post"},
        "/api/v1/collections/{collection}/recall": {"post"},
        "/api/v1/ledger": {"get"},
        "/api/v1/ledger/verify": {"get"},
        "/api/v1/erase": {"post"},
        "/api/v1/export": {"get"},
        "/health": {"get"},
        "/ready": {"get"},
        "/metrics": {"get"},
    }.items():
        assert methods <= set(paths[path]), path
