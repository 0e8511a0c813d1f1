"""One voice: the same mistake gives the same code, the same sentence and the same details through every door.

The table of mistakes and doors is in `tests/support/mistakes.py`. Each test makes one mistake through one door,
compares what is said with what Python says, sees that nothing was changed, and does the right thing after that.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from clocked_server import Served
from hints import COMMANDS
from hints import PYTHON as PYTHON_WORDS
from mcp_client import Talk, doors_to
from mistakes import (
    DOORS,
    ELSEWHERE,
    MISTAKES,
    RIGHT,
    WRITING,
    Door,
    Mistake,
    Somebody,
    Told,
    Who,
    listen,
    pairs,
    session_of,
    why_not,
)
from ways import DESK, House, found_by_command

import memoranda
from memoranda import errors
from memoranda.model.clock import SystemClock
from memoranda.model.policy import Policy, Quota
from memoranda.model.scope import Scope
from memoranda.testing import FakeClock
from memoranda.testing.conformance.base import EMBEDDER

ALL = pairs()
NAMES = [f"{mistake.name}-{door.name}".replace(" ", "_") for mistake, door in ALL]
PYTHON = DOORS[0]


class Town:
    """One memory with its server, and the callers who make mistakes."""

    def __init__(self, house: House, served: Served) -> None:
        self.house = house
        self._served = served
        self._opened = ExitStack()

    def somebody(self, who: Who) -> Somebody:
        """Return a new caller with these rights."""
        name = self.house.fresh()
        memory, actor = self.house.memory, f"user:{name}"
        if who == "thrifty":
            handle = memory.acting_as(actor, policy=Policy.of(allow=("*",), quota=Quota(writes=0, per="1h")))
            return self._reached(name, handle, {})
        if who in ("owner", "admin"):
            return self._reached(name, memory, {"role": "admin"} if who == "admin" else {})
        own = Scope.of(user=name)
        # A conversation is written, whatever is said in it.
        for place in (Scope.of(session=session_of(name)), Scope.of(user=name, thread=session_of(name))):
            memory.permissions.grant(actor, "memory.write", scope=place)
            memory.permissions.grant(actor, "memory.read", scope=place)
        for capability in ("definitions.read", "runs", *(["memory.read"] if who != "stranger" else [])):
            memory.permissions.grant(actor, capability)
        if who == "watched":
            memory.permissions.grant(actor, "memory.write", level="approve", scope=own)
        if who == "stranger":
            memory.roles.define("stranger", allow=("definitions.read",))
        key: dict[str, Any] = {"role": who} if who in ("reader", "stranger") else {"allow": ["definitions.read"]}
        return self._reached(name, memory.acting_as(actor), key)._replace(acts=("--actor", actor))

    def freed(self, me: Somebody) -> Somebody:
        """Return the same person, who may now do everything."""
        return self._reached(me.name, self.house.memory, {})

    def _reached(self, name: str, memory: Any, key: dict[str, Any]) -> Somebody:
        @cache  # most mistakes are made elsewhere, and need neither
        def reach() -> tuple[memoranda.Client, httpx.Client]:
            token = self._served.ask(key={"tenant": "default", "user": name, "role": "member", **key})
            headers = {"Authorization": f"Bearer {token}"}
            client = memoranda.Client(self._served.url, token)
            http = httpx.Client(base_url=f"{self._served.url}/api/v1", headers=headers, timeout=30, verify=False)
            return self._opened.enter_context(client), self._opened.enter_context(http)

        @cache
        def doors() -> Callable[[str], Talk]:
            return self._opened.enter_context(doors_to(memory, agent=DESK.id))

        return Somebody(self.house, name, memory, reach, talk=lambda user: doors()(user))

    def close(self) -> None:
        self._opened.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("town")


@pytest.fixture(scope="module")
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="module", autouse=True)
def nothing_of_this_machine(folder: Path, clock: FakeClock) -> Iterator[None]:
    """Let commands use our file and our clock, and remove API keys from the environment."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("MEMORANDA_") or name.endswith("_API_KEY")]:
            patch.delenv(name)
        patch.delenv("OPENAI_BASE_URL", raising=False)
        patch.setenv("MEMORANDA_DB", str(folder / "memory.db"))
        patch.setenv("MEMORANDA_EMBEDDER", EMBEDDER)
        patch.setattr(SystemClock, "now", lambda _: clock.now())
        yield


@pytest.fixture(scope="module")
def everyone(folder: Path, clock: FakeClock) -> Iterator[Town]:
    agents = folder / "agents"
    agents.mkdir()
    (agents / "chat.toml").write_text(f'[agents.{DESK.id}]\nmodel = "test"\ninstructions = "You mend kites."\n')
    # A body may be larger than a value, so that it is the value that is refused.
    served = Served(folder / "memory.db", body_bytes=4 << 20, agents=str(agents))
    try:
        with memoranda.open(folder / "memory.db", clock=clock, embedder=EMBEDDER) as memory:
            house = House(memory, folder, cli=found_by_command, client=lambda _: None)
            yield Town(house, served)
    finally:
        served.close()


@pytest.fixture
def town(everyone: Town) -> Iterator[Town]:
    yield everyone
    everyone.close()


@pytest.mark.parametrize(("mistake", "door"), ALL, ids=NAMES)
def test_a_mistake_is_the_same_mistake_through_every_door(
    town: Town, record_property: Callable[[str, object], None], mistake: Mistake, door: Door
) -> None:
    me = town.somebody(mistake.who)
    # A model may change what a model wrote, and what its user wrote waits for the user.
    earlier = me._replace(memory=me.memory.from_origin("assistant")) if door.name == "MCP" else me
    if mistake.standing:
        PYTHON.verbs[mistake.verb](earlier, {**RIGHT[mistake.verb], "idempotency_key": "flown once"})
    if mistake.rejected:
        town.house.memory.scope(user=me.name).reject(mistake.wrong["value"], key=RIGHT["set"]["key"], reason="it tore")
    right = {**RIGHT[mistake.verb], **mistake.right}
    wrong = {**right, **mistake.wrong}
    before = me.everything()

    expected = listen(PYTHON, me, mistake.verb, wrong)
    told = listen(door, me, mistake.verb, wrong)
    assert expected is not None and told is not None, "somebody let it pass"
    assert expected.code == mistake.code and expected.hint
    if door.name in mistake.otherwise:
        assert told.code == mistake.otherwise[door.name][0]
        assert same(told, expected, mistake) != [], "it is not said otherwise at all"
    else:
        assert same(told, expected, mistake) == []
        if door.name == "client":
            kinds = [(type(told.details[name]), type(expected.details[name])) for name in mistake.details]
            assert all(one is other for one, other in kinds), "the client gives what the engine gives, not its text"
    if door.name in ("command line", "REST", "MCP", "workflow tool", "chat tool"):
        assert not PYTHON_WORDS.search(told.hint or told.said), "it advises what only Python can do"
    if door.name in ("REST", "client"):
        assert not COMMANDS.search(told.hint), "it advises what only an operator can do"
    assert me.everything() == before, "a mistake changes nothing"

    if mistake.verb == "change":
        PYTHON.verbs["set"](earlier, RIGHT["set"])
        before = me.everything()
    able = me if mistake.who in ("owner", "admin") else town.freed(me)
    assert listen(door, able, mistake.verb, right) is None
    if mistake.verb in WRITING:
        assert me.everything() != before, "what is right does change something"
    record_property("mistake", [mistake.name, door.name])


def same(told: Told, expected: Told, mistake: Mistake) -> list[str]:
    """Return in what two doors differ."""
    differ = [] if told.code == expected.code else [f"code: {told.code}, not {expected.code}"]
    if first_sentence(told, expected) != spoken(expected):
        differ.append(f"words: {spoken(told)!r}, not {spoken(expected)!r}")
    for name in mistake.details:
        if name not in told.details:
            differ.append(f"detail {name} is missing")
        elif name != "approval" and plain(name, told.details[name]) != plain(name, expected.details[name]):
            differ.append(f"detail {name}: {told.details[name]!r}, not {expected.details[name]!r}")
    return differ


def first_sentence(told: Told, expected: Told) -> str:
    """Return what happened, without what to do about it: a model is told both in one text."""
    return spoken(told).removesuffix(f". {expected.neutral}") if expected.neutral else spoken(told)


def spoken(told: Told) -> str:
    """Return what was said, without the ids that are new each time."""
    return re.sub(r"`(session:|approval_)[^`]*`", r"`\1…`", told.said)


def plain(name: str, value: Any) -> Any:
    """Return a detail as it can be compared: moments whatever their form, places whatever they are inside of."""
    if isinstance(value, str) and name in ("expected", "actual", "current_updated_at") and value[:2] == "20":
        return datetime.fromisoformat(value)
    return value.removeprefix("$.") if name == "path" and isinstance(value, str) else value


def test_no_door_leaves_a_mistake_out_without_a_reason() -> None:
    for mistake in MISTAKES:
        for door in DOORS:
            assert why_not(mistake, door) != ""
        assert not set(mistake.cannot) & set(mistake.otherwise)
        assert {*mistake.cannot, *mistake.otherwise} <= {door.name for door in DOORS if mistake.verb in door.verbs}
    able = {(door.name, verb) for door in DOORS for verb in door.verbs}
    assert not able & set(ELSEWHERE), "what can be done needs no reason for not being done"
    assert able | set(ELSEWHERE) == {(door.name, verb) for door in DOORS for verb in RIGHT}


def test_every_error_that_a_caller_can_cause_is_in_the_table() -> None:
    caused = {mistake.code for mistake in MISTAKES}
    usage = {kind.code for kind in errors.UsageError.__subclasses__()}
    refusals = {kind.code for kind in errors.Refused.__subclasses__()}
    # Programs and policies have only one door; an unknown caller has none.
    assert usage | refusals <= caused | {
        "source_error",
        "evaluation_failed",
        "invalid_input",
        "invalid_policy",
        "unauthenticated",
    }


def test_the_page_about_errors_says_what_to_do_about_each() -> None:
    text = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `\w+` \| `(\w+)` \| (.*) \| (.*) ?\|$", text, re.MULTILINE)
    known = {one.code for one in vars(errors).values() if isinstance(one, type) and hasattr(one, "code")}
    assert {code for code, _, _ in rows} == known
    assert [code for code, when, what_to_do in rows if not when.strip() or not what_to_do.strip()] == []
