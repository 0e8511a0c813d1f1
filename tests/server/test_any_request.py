"""Requests generated from the OpenAPI document, valid and invalid, get a documented response, never a 500."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

DEEP = os.environ.get("MEMORANDA_DEPTH") == "deep"
ALWAYS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

DOCUMENT = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text(encoding="utf-8"))
# Every request here has a key; without that, one that is made to lack it would count as unfit.
for operations in DOCUMENT["paths"].values():
    for described in operations.values():
        described.pop("security", None)
API = schemathesis.openapi.from_dict({name: part for name, part in DOCUMENT.items() if name != "security"})
FOUND: list[Any] = [found.ok() for found in API.get_all_operations() if isinstance(found, Ok)]
OPERATIONS = {f"{one.method.upper()} {one.path}": one for one in FOUND}
# What has neither a body nor a query cannot be asked wrongly.
REFUSING = [
    f"{method.upper()} {path}"
    for path, operations in DOCUMENT["paths"].items()
    for method, described in operations.items()
    if "requestBody" in described or any(one.get("in") == "query" for one in described.get("parameters", ()))
]


@schemathesis.serializer("application/x-ndjson")
def lines(ctx, value):
    """Return what was made up as lines."""
    return str(value).encode("utf-8", "replace")


HEALTH_CHECKS: list[Any] = list(HealthCheck)
THOROUGH = settings(
    max_examples=300 if DEEP else 6,
    suppress_health_check=HEALTH_CHECKS,
    deadline=None,
    phases=[Phase.generate],
    database=None,
)


def test_every_route_is_tried():
    assert len(OPERATIONS) >= 65
    assert len(REFUSING) >= 45


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_request_that_fits_gets_an_answer_that_is_documented(name, served):
    @THOROUGH
    @given(case=OPERATIONS[name].as_strategy(generation_mode=GenerationMode.POSITIVE))
    def ask(case):
        case.call_and_validate(
            base_url=served.address, headers={"Authorization": f"Bearer {served.key}"}, checks=ALWAYS
        )

    ask()


@pytest.mark.parametrize("name", REFUSING)
def test_a_request_that_does_not_fit_is_refused_as_documented(name, served):
    @THOROUGH
    @given(case=OPERATIONS[name].as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def ask(case):
        case.call_and_validate(
            base_url=served.address,
            headers={"Authorization": f"Bearer {served.key}"},
            checks=[*ALWAYS, negative_data_rejection],
        )

    ask()
