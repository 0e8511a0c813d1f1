"""A task that waits for what the owner says next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memoranda.errors import ActionFailed, SchemaViolation
from memoranda.runs.outcome import Paused

Act = Callable[..., Any]


def test_a_run_pauses_until_something_is_said(act: Act, place: Any) -> None:
    with pytest.raises(Paused) as caught:
        act("wait_for_reply")
    assert caught.value.waiting.event == "reply"
    place.delivered.append("The blue one.")
    assert act("wait_for_reply") == {"text": "The blue one."}
    assert place.waits == [("reply", None), ("reply", None)]


def test_a_time_is_passed_on_and_when_it_is_over_that_is_what_it_gives(act: Act, place: Any) -> None:
    place.delivered.append(None)
    assert act("wait_for_reply", {"timeout": 90.5}) == {"timed_out": True}
    assert place.waits == [("reply", 90.5)]


@pytest.mark.parametrize("timeout", [0, -1, "90s", None, 10**12])
def test_a_time_that_is_none_is_refused(act: Act, place: Any, timeout: Any) -> None:
    with pytest.raises(SchemaViolation) as caught:
        act("wait_for_reply", {"timeout": timeout})
    assert caught.value.path == "$.inputs.timeout"
    assert place.waits == []
    place.delivered.append("Yes.")
    assert act("wait_for_reply", {"timeout": 0.5}) == {"text": "Yes."}


def test_a_text_may_come_in_an_object(act: Act, place: Any) -> None:
    place.delivered += [{"text": "Tomorrow.", "at": "noon"}, ""]
    assert act("wait_for_reply") == {"text": "Tomorrow."}
    assert act("wait_for_reply") == {"text": ""}


@pytest.mark.parametrize("delivered", [3, ["Yes."], {"said": "Yes."}, {"text": 3}, False])
def test_what_is_no_text_fails_for_good(act: Act, place: Any, delivered: Any) -> None:
    place.delivered.append(delivered)
    with pytest.raises(ActionFailed) as caught:
        act("wait_for_reply")
    assert (caught.value.type, caught.value.task, caught.value.retryable) == ("unreadable", "step", False)
