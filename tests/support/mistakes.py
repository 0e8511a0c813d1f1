"""Every mistake that can be made through several doors: how to make it at each door, and what the door must report.

A door offers some verbs: set a fact, remember, recall, and so on. A mistake is a verb with one thing wrong about it.
Every other door has to report it as Python does: with the same code, the same sentence, the same details.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from textwrap import dedent
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import httpx
from mcp.shared.exceptions import MCPError
from mcp_client import Talk
from ways import DESK, FLOW, KITE, House, Scripted, command

import memoranda
from memoranda.agent.models import Ask, Reply, ToolCall
from memoranda.api.memory import Memory
from memoranda.chat import chat, preview
from memoranda.errors import NEUTRAL_WORDS, render_hint

Verb = Literal[
    "set",
    "read",
    "change",
    "remember",
    "recall",
    "write block",
    "recall lines",
    "find",
    "define",
    "ask",
    "preview",
    "go on",
]
Who = Literal["owner", "admin", "reader", "stranger", "watched", "thrifty"]
"""A caller may do everything, also on a server; only read; not even that; write with approval; nothing any more."""
NAN = float("nan")
LONG_AGO = "2020-01-01T00:00:00+00:00"


class Told(NamedTuple):
    """What a door reported about a mistake."""

    code: str
    said: str
    details: dict[str, Any]
    hint: str = ""
    neutral: str = ""
    """The hint as a model is given it."""


class Somebody(NamedTuple):
    """A caller who makes a mistake: a new one for each test, so that nothing else is remembered about them."""

    house: House
    name: str
    memory: Memory
    """Restricted to the caller's rights."""
    reach: Callable[[], tuple[memoranda.Client, httpx.Client]]
    """Returns their client, and a plain HTTP connection."""
    talk: Callable[[str], Talk]
    """Returns an MCP client for the memory of a user, restricted to the caller's rights."""
    acts: tuple[str, ...] = ()
    """The command-line options that name the caller."""

    @property
    def client(self) -> memoranda.Client:
        return self.reach()[0]

    @property
    def http(self) -> httpx.Client:
        return self.reach()[1]

    def at(self, asked: dict[str, Any]) -> Any:
        """Return the requested scope: the caller's own, one of another user, or one below the caller's own."""
        memory = self.memory if asked.get("epoch") is None else self.memory.at_epoch(asked["epoch"])
        if asked.get("below"):
            return memory.at(f"user:{self.name}/{asked['below']}")
        return memory.scope(user=asked.get("user", self.name))

    def flags(self, asked: dict[str, Any]) -> list[str]:
        """Return the same scope as command-line options."""
        if asked.get("below"):
            return ["--scope", f"user:{self.name}/{asked['below']}", *self.acts]
        return ["--user", asked.get("user", self.name), *self.acts]

    def stamp(self, asked: dict[str, Any]) -> datetime | str | None:
        """Return when the caller claims that a block was last written."""
        if asked["seen"] == "now":
            block = self.house.memory.scope(user=self.name).blocks.get(asked["block"])
            return block and block.updated_at
        return LONG_AGO if asked["seen"] == "long ago" else None

    def everything(self) -> list[Any]:
        """Return everything that is remembered about the caller, and all definitions."""
        own = self.house.memory.scope(user=self.name)
        return [
            [(fact.key, fact.value) for fact in own.list(internal=True)],
            [(entry.id, entry.content) for entry in own.entries(collection="kites")],
            [
                (fact.key, fact.value)
                for fact in self.house.memory.scope(user=self.name, agent=DESK.id).list(internal=True)
            ],
            [definition.slug for definition in self.house.memory.definitions.list()],
        ]


SEARCH = ("collection", "limit", "threshold", "filter", "mode")


def _chosen(asked: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: asked[name] for name in names}


def _given(asked: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the arguments that were given."""
    return {name: asked[name] for name in names if asked[name] is not None}


def _slug(me: Somebody, asked: dict[str, Any]) -> str:
    return asked["slug"] or f"kite_of_{me.name}"


# Python


def python_set(me: Somebody, asked: dict[str, Any]) -> None:
    me.at(asked).set(asked["key"], asked["value"], **_chosen(asked, "ttl", "expect", "idempotency_key"))


def python_read(me: Somebody, asked: dict[str, Any]) -> None:
    me.at(asked).get(asked["key"], as_of=asked["as_of"])


def python_change(me: Somebody, asked: dict[str, Any]) -> None:
    me.at(asked).update(asked["key"], _with_a_line)


def python_remember(me: Somebody, asked: dict[str, Any]) -> None:
    me.at(asked).remember(asked["content"], **_chosen(asked, "collection", "ttl", "metadata"))


def python_recall(me: Somebody, asked: dict[str, Any]) -> None:
    me.at(asked).recall(asked["query"], **_chosen(asked, *SEARCH))


def python_block(me: Somebody, asked: dict[str, Any]) -> None:
    me.at(asked).blocks.update(asked["block"], asked["content"], expected_updated_at=me.stamp(asked))


def python_lines(me: Somebody, asked: dict[str, Any]) -> None:
    me.at(asked).blocks.recall(asked["query"], limit=asked["limit"])


def python_find(me: Somebody, asked: dict[str, Any]) -> None:
    me.memory.definitions.get(asked["definition"])


def python_define(me: Somebody, asked: dict[str, Any]) -> None:
    me.memory.definitions.create(name=f"Kite of {me.name}", slug=_slug(me, asked), schema=asked["schema"])


def python_ask(me: Somebody, asked: dict[str, Any]) -> None:
    chat(
        me.memory,
        DESK,
        "Which kite?",
        user=me.name,
        conversation_id=me.house.fresh(),
        message_id="m1",
        model=asked["model"],
    )


def python_preview(me: Somebody, asked: dict[str, Any]) -> None:
    preview(me.memory, DESK, "Which kite?", user=me.name, memory_policy={"archival_limit": asked["lines"]})


def python_go_on(me: Somebody, asked: dict[str, Any]) -> None:
    session = me.memory.scope(user=me.name).session(me.house.fresh())
    if asked["ended"]:
        session.end()
    session.set("wind", "west")


def _with_a_line(kite: Any) -> Any:
    return {**kite, "lines": kite["lines"] + 1}


# asyncio


def asyncio_set(me: Somebody, asked: dict[str, Any]) -> None:
    async def write() -> None:
        place = memoranda.AsyncMemory(me.memory)
        place = place if asked["epoch"] is None else place.at_epoch(asked["epoch"])
        below = place.at(f"user:{me.name}/{asked['below']}") if asked.get("below") else None
        own = below or place.scope(user=asked.get("user", me.name))
        await own.set(asked["key"], asked["value"], **_chosen(asked, "ttl", "expect", "idempotency_key"))

    asyncio.run(write())


def asyncio_read(me: Somebody, asked: dict[str, Any]) -> None:
    asyncio.run(memoranda.AsyncMemory(me.memory).scope(user=me.name).get(asked["key"], as_of=asked["as_of"]))


def asyncio_change(me: Somebody, asked: dict[str, Any]) -> None:
    asyncio.run(memoranda.AsyncMemory(me.memory).scope(user=me.name).update(asked["key"], _with_a_line))


def asyncio_remember(me: Somebody, asked: dict[str, Any]) -> None:
    given = _chosen(asked, "collection", "ttl", "metadata")
    asyncio.run(memoranda.AsyncMemory(me.memory).scope(user=me.name).remember(asked["content"], **given))


def asyncio_recall(me: Somebody, asked: dict[str, Any]) -> None:
    asyncio.run(memoranda.AsyncMemory(me.memory).scope(user=me.name).recall(asked["query"], **_chosen(asked, *SEARCH)))


def asyncio_block(me: Somebody, asked: dict[str, Any]) -> None:
    blocks = memoranda.AsyncMemory(me.memory).scope(user=me.name).blocks
    asyncio.run(blocks.update(asked["block"], asked["content"], expected_updated_at=me.stamp(asked)))


def asyncio_lines(me: Somebody, asked: dict[str, Any]) -> None:
    blocks = memoranda.AsyncMemory(me.memory).scope(user=me.name).blocks
    asyncio.run(blocks.recall(asked["query"], limit=asked["limit"]))


def asyncio_find(me: Somebody, asked: dict[str, Any]) -> None:
    asyncio.run(memoranda.AsyncMemory(me.memory).definitions.get(asked["definition"]))


def asyncio_define(me: Somebody, asked: dict[str, Any]) -> None:
    definitions = memoranda.AsyncMemory(me.memory).definitions
    asyncio.run(definitions.create(name=f"Kite of {me.name}", slug=_slug(me, asked), schema=asked["schema"]))


def asyncio_go_on(me: Somebody, asked: dict[str, Any]) -> None:
    async def go_on() -> None:
        session = await memoranda.AsyncMemory(me.memory).scope(user=me.name).session(me.house.fresh())
        if asked["ended"]:
            await session.end()
        await session.set("wind", "west")

    asyncio.run(go_on())


# the command line


def command_set(me: Somebody, asked: dict[str, Any]) -> None:
    options = _options(**_chosen(asked, "ttl", "expect", "idempotency_key", "epoch"))
    command("facts", "set", *me.flags(asked), "--as-json", *options, "--", asked["key"], json.dumps(asked["value"]))


def command_read(me: Somebody, asked: dict[str, Any]) -> None:
    try:
        command("facts", "get", *me.flags(asked), *_options(as_of=asked["as_of"]), asked["key"])
    except memoranda.NotFound:
        # It leaves with 1, so that a script can tell; to all others no fact is an answer.
        return


def command_change(me: Somebody, asked: dict[str, Any]) -> None:
    standing = command("facts", "get", *me.flags(asked), asked["key"])
    command_set(me, {**RIGHT["set"], **asked, "value": _with_a_line(standing["value"]), "expect": standing["version"]})


def command_remember(me: Somebody, asked: dict[str, Any]) -> None:
    labels = None if asked["metadata"] is None else json.dumps(asked["metadata"])
    options = _options(collection=asked["collection"], ttl=asked["ttl"], metadata_json=labels)
    command("remember", *me.flags(asked), "--as-json", *options, "--", json.dumps(asked["content"]))


def command_recall(me: Somebody, asked: dict[str, Any]) -> None:
    filter = None if asked["filter"] is None else json.dumps(asked["filter"])
    given = _chosen(asked, "collection", "limit", "threshold", "mode")
    command("recall", *me.flags(asked), *_options(**given, filter_json=filter), "--", asked["query"])


def command_block(me: Somebody, asked: dict[str, Any]) -> None:
    stamp = me.stamp(asked)
    options = _options(expected_updated_at=stamp.isoformat() if isinstance(stamp, datetime) else stamp)
    command("blocks", "set", *me.flags(asked), *options, "--", asked["block"], asked["content"])


def command_lines(me: Somebody, asked: dict[str, Any]) -> None:
    command("blocks", "recall", *me.flags(asked), *_options(limit=asked["limit"]), "--", asked["query"])


def command_find(me: Somebody, asked: dict[str, Any]) -> None:
    command("definitions", "show", *me.acts, asked["definition"])


def command_define(me: Somebody, asked: dict[str, Any]) -> None:
    options = _options(name=f"Kite of {me.name}", slug=_slug(me, asked), schema=json.dumps(asked["schema"]))
    command("definitions", "create", *options)


def command_ask(me: Somebody, asked: dict[str, Any]) -> None:
    file = me.house.folder / "asks.mashin"
    file.write_text(_ASKING, encoding="utf-8")
    command("run", str(file), "--user", me.name, "--model", asked["model"])


def command_go_on(me: Somebody, asked: dict[str, Any]) -> None:
    session = me.house.fresh()
    me.memory.scope(user=me.name).session(session)
    if asked["ended"]:
        me.memory.scope(session=session).end()
    command("facts", "set", "--session", session, "wind", "west")


def _options(**given: Any) -> list[str]:
    named = {name.replace("_", "-"): str(value) for name, value in given.items() if value is not None}
    return [f"--{name}={value}" for name, value in named.items()]


# REST


def rest_set(me: Somebody, asked: dict[str, Any]) -> None:
    once = {} if asked["idempotency_key"] is None else {"Idempotency-Key": asked["idempotency_key"]}
    where = {} if asked.get("below") is None else {"scope": asked["below"]}
    decided = {} if asked["epoch"] is None else {"X-Memoranda-Epoch": str(asked["epoch"])}
    body = json.dumps(_given(asked, "value", "ttl", "expect"))
    _heard(me.http.put(f"/memory/facts/{asked['key']}", content=body, params=where, headers=once | decided))


def rest_read(me: Somebody, asked: dict[str, Any]) -> None:
    answer = me.http.get(f"/memory/facts/{asked['key']}", params=_given(asked, "as_of"))
    if answer.status_code != 404:
        _heard(answer)


def rest_change(me: Somebody, asked: dict[str, Any]) -> None:
    answer = me.http.get(f"/memory/facts/{asked['key']}")
    _heard(answer)
    body = {"value": _with_a_line(answer.json()["value"]), "expect": answer.json()["version"]}
    _put(me, f"/memory/facts/{asked['key']}", body)


def rest_remember(me: Somebody, asked: dict[str, Any]) -> None:
    _post(me, f"/collections/{asked['collection']}/remember", _given(asked, "content", "ttl", "metadata"))


def rest_recall(me: Somebody, asked: dict[str, Any]) -> None:
    body = _given(asked, "query", "limit", "threshold", "filter", "mode")
    _post(me, f"/collections/{asked['collection']}/recall", body)


def rest_block(me: Somebody, asked: dict[str, Any]) -> None:
    stamp = me.stamp(asked)
    shown = stamp.isoformat() if isinstance(stamp, datetime) else stamp
    _put(me, f"/memory/blocks/{asked['block']}", {"content": asked["content"], "expected_updated_at": shown})


def rest_lines(me: Somebody, asked: dict[str, Any]) -> None:
    _post(me, "/memory/recall", {"query": asked["query"], "limit": asked["limit"]})


def rest_find(me: Somebody, asked: dict[str, Any]) -> None:
    _heard(me.http.get(f"/memory/definitions/{asked['definition']}"))


def rest_define(me: Somebody, asked: dict[str, Any]) -> None:
    _post(
        me, "/memory/definitions", {"name": f"Kite of {me.name}", "slug": _slug(me, asked), "schema": asked["schema"]}
    )


def rest_ask(me: Somebody, asked: dict[str, Any]) -> None:
    body = {"message": "Which kite?", "conversation_id": me.house.fresh(), "message_id": "m1", "stream": False}
    _post(me, f"/agent/{DESK.id}/chat", {**body, "model": asked["model"]})


def rest_preview(me: Somebody, asked: dict[str, Any]) -> None:
    body = {"message": "Which kite?", "memory_policy": {"archival_limit": asked["lines"]}}
    _post(me, f"/agent/{DESK.id}/prompts/preview", body)


def _put(me: Somebody, path: str, body: dict[str, Any]) -> None:
    _heard(me.http.put(path, content=json.dumps(body)))


def _post(me: Somebody, path: str, body: dict[str, Any]) -> None:
    _heard(me.http.post(path, content=json.dumps(body)))


class Problem(Exception):
    """A problem document, as received."""

    def __init__(self, words: dict[str, Any]) -> None:
        super().__init__(words["detail"])
        self.words = words


def _heard(answer: httpx.Response) -> None:
    if answer.is_error:
        raise Problem(answer.json())


# the client


def client_set(me: Somebody, asked: dict[str, Any]) -> None:
    given = _chosen(asked, "ttl", "expect", "idempotency_key")
    client = me.client if asked["epoch"] is None else me.client.at_epoch(asked["epoch"])
    client.facts.set(asked["key"], asked["value"], **given, scope=asked.get("below"))


def client_read(me: Somebody, asked: dict[str, Any]) -> None:
    me.client.facts.get(asked["key"], as_of=asked["as_of"])


def client_change(me: Somebody, asked: dict[str, Any]) -> None:
    me.client.facts.update(asked["key"], _with_a_line)


def client_remember(me: Somebody, asked: dict[str, Any]) -> None:
    me.client.collections.remember(asked["content"], **_chosen(asked, "collection", "ttl", "metadata"))


def client_recall(me: Somebody, asked: dict[str, Any]) -> None:
    me.client.collections.recall(asked["query"], **_chosen(asked, *SEARCH))


def client_block(me: Somebody, asked: dict[str, Any]) -> None:
    me.client.memory.update(asked["block"], asked["content"], expected_updated_at=me.stamp(asked))


def client_lines(me: Somebody, asked: dict[str, Any]) -> None:
    me.client.memory.recall(asked["query"], limit=asked["limit"])


def client_find(me: Somebody, asked: dict[str, Any]) -> None:
    me.client.definitions.get(asked["definition"])


def client_define(me: Somebody, asked: dict[str, Any]) -> None:
    me.client.definitions.create(name=f"Kite of {me.name}", slug=_slug(me, asked), schema=asked["schema"])


def client_ask(me: Somebody, asked: dict[str, Any]) -> None:
    me.client.chat(DESK.id, "Which kite?", model=asked["model"])


def client_preview(me: Somebody, asked: dict[str, Any]) -> None:
    me.client.preview(DESK.id, "Which kite?", memory_policy={"archival_limit": asked["lines"]})


# MCP


def mcp_set(me: Somebody, asked: dict[str, Any]) -> None:
    place = {"agent:desk": "agent", None: "user"}.get(asked.get("below"), asked.get("below"))
    _call(me, "set_fact", asked, "key", "value", "ttl", "expect", "epoch", scope=place)


def mcp_read(me: Somebody, asked: dict[str, Any]) -> None:
    try:
        _call(me, "get_fact", asked, "key", "as_of")
    except memoranda.NotFound:
        # A model is told so; to all others no fact is an answer.
        return


def mcp_change(me: Somebody, asked: dict[str, Any]) -> None:
    standing = _call(me, "get_fact", asked, "key")
    mcp_set(me, {**RIGHT["set"], **asked, "value": _with_a_line(standing["value"]), "expect": standing["version"]})


def mcp_remember(me: Somebody, asked: dict[str, Any]) -> None:
    _call(me, "remember", asked, "content", "collection", "ttl", "metadata")


def mcp_recall(me: Somebody, asked: dict[str, Any]) -> None:
    _call(me, "recall", asked, "query", *SEARCH)


def mcp_block(me: Somebody, asked: dict[str, Any]) -> None:
    stamp = me.stamp(asked)
    shown = stamp.isoformat() if isinstance(stamp, datetime) else stamp
    _call(me, "update_memory_block", asked, "block", "content", expected_updated_at=shown)


def mcp_lines(me: Somebody, asked: dict[str, Any]) -> None:
    _call(me, "recall_blocks", asked, "query", "limit")


def mcp_find(me: Somebody, asked: dict[str, Any]) -> None:
    me.talk(me.name).ask("read_resource", f"memoranda://definitions/{asked['definition']}")


def _call(me: Somebody, tool: str, asked: dict[str, Any], *names: str, **more: Any) -> Any:
    return me.talk(asked.get("user", me.name)).call(tool, **_given(asked, *names), **more)


# ABL


_BY_SET = """
AGENT: Flyer
GOAL: "Fly kites"
MEMORY:
  session:
    - given
      INPUT: true
  persistent:
    - user.{key}
      TYPE: object
FLOW:
  field:
    REASONING: false
    SET:
      - user.{key} = given
    THEN: COMPLETE
"""
_BY_TRIGGER = """
AGENT: Flyer
GOAL: "Fly kites"
MEMORY:
  session:
    - given
      INPUT: true
  persistent:
    - user.{key}
      TYPE: object
  remember:
    - WHEN: given IS SET
      STORE: given -> user.{key}
      TTL: {ttl}
FLOW:
  field:
    REASONING: false
    RESPOND: "Up!"
    THEN: COMPLETE
"""


def abl_set(me: Somebody, asked: dict[str, Any]) -> None:
    text = (_BY_SET if asked["ttl"] is None else _BY_TRIGGER).format_map(asked)
    _opened(_agent(me, text), me, asked, {"given": asked["value"]})


def abl_read(me: Somebody, asked: dict[str, Any]) -> None:
    lines = ["AGENT: Flyer", 'GOAL: "Fly kites"', "MEMORY:", "  persistent:", f"    - user.{asked['key']}"]
    lines += ["      TYPE: object", "FLOW:", "  field:", "    REASONING: false"]
    lines += [f"    RESPOND: \"{{{{COALESCE(user.{asked['key']}.colour, 'none')}}}}\"", "    THEN: COMPLETE"]
    _opened(_agent(me, "\n".join(lines)), me, asked, {})


def abl_tool(tool: str, *names: str) -> Callable[[Somebody, dict[str, Any]], None]:
    """Return a function that calls one of the memory tools that every agent has."""
    lines = ["AGENT: Flyer", 'GOAL: "Fly kites"', "MEMORY:", "  session:"]
    lines += [f"    - {name}\n      INPUT: true" for name in names]
    lines += ["FLOW:", "  field:", "    REASONING: false", f"    CALL: {tool}", "      WITH:"]
    lines += [*(f"        {name}: {name}" for name in names), "    THEN: COMPLETE"]

    def call(me: Somebody, asked: dict[str, Any]) -> None:
        _opened(_agent(me, "\n".join(lines)), me, asked, {name: asked[name] for name in names})

    return call


_ASKS = """
AGENT: Flyer
GOAL: "Fly kites"
FLOW:
  field:
    REASONING: true
    GOAL: "Say which kite flies"
    THEN: COMPLETE
"""


def abl_ask(me: Somebody, asked: dict[str, Any]) -> None:
    agent = memoranda.abl.load(_ASKS, memory=me.memory, model=asked["model"])
    _listened(agent.start(user=me.name).say("Which kite?"))


def abl_go_on(me: Somebody, asked: dict[str, Any]) -> None:
    agent = _agent(me, 'AGENT: Flyer\nGOAL: "Fly kites"\nFLOW:\n  field:\n    REASONING: false\n    RESPOND: "Up!"\n')
    session = agent.start(user=me.name)
    if asked["ended"]:
        session.end()
    session.say("Higher!")


def _agent(me: Somebody, text: str) -> Any:
    return memoranda.abl.load(dedent(text), memory=me.memory)


def _opened(agent: Any, me: Somebody, asked: dict[str, Any], given: dict[str, Any]) -> None:
    # Who may not write elsewhere was told which session is theirs.
    id = session_of(me.name) if me.acts else None
    _listened(agent.start(user=asked.get("user", me.name), id=id, vars=given).opening)


def session_of(name: str) -> str:
    """Return the session and conversation of a caller who may write nothing else."""
    return f"session_of_{name}"


class Noted(Exception):
    """A refusal or failure in the trace of an agent's turn."""

    def __init__(self, code: str, said: str, details: dict[str, Any]) -> None:
        super().__init__(said)
        self.told = Told(code, said, details)


def _listened(turn: Any) -> None:
    for one in turn.trace:
        told = one.detail.get("details") or {}
        if one.kind == "refused":
            raise Noted(one.detail["code"], one.detail["why"], told)
        if one.kind == "called" and one.detail.get("failed"):
            raise Noted(told["code"], one.detail["failed"], told)
        if one.kind == "error":
            raise Noted(one.detail["subtype"], one.detail["message"], told)


# mashin


def mashin_remember(me: Somebody, asked: dict[str, Any]) -> None:
    _run_machine(me, asked, "remember keep", "content", "collection", "ttl", "metadata")


def mashin_recall(me: Somebody, asked: dict[str, Any]) -> None:
    _run_machine(me, asked, "recall found", "query", "collection", "limit", "threshold", "filter")


_ASKING = """machine asks
  ensures
    allowed to reason
  implements
    ask answer, using: "made:up"
      with task "Which kite?"
"""


def mashin_ask(me: Somebody, asked: dict[str, Any]) -> None:
    _finished(memoranda.mashin.load(_ASKING, memory=me.memory, model=asked["model"]).run({}, user=me.name))


def _run_machine(me: Somebody, asked: dict[str, Any], step: str, *names: str) -> None:
    given = {name: asked[name] for name in names if asked[name] is not None or name == "content"}
    lines = ["machine notes", "  accepts", *(f"    {name} as any" for name in given)]
    lines += ["  ensures", "    allowed to memory", "  implements", f"    {step}"]
    lines += [f"      {name}: input.{name}" for name in given]
    machine = memoranda.mashin.load("\n".join(lines), memory=me.memory)
    _finished(machine.run(given, user=asked.get("user", me.name)))


class Ended(Exception):
    """The failure with which a run ended."""

    def __init__(self, failure: Any) -> None:
        super().__init__(failure.message)
        self.failure = failure


def _finished(run: Any) -> Any:
    if run.error is not None:
        raise Ended(run.error)
    return run


# workflows


def action_set(me: Somebody, asked: dict[str, Any]) -> None:
    text = f"""
    defs:
      keep: {{kind: task, action: update_memory, inputs: {{memory: {{{asked["key"]}: "=$input.kite"}}}}}}
    flow:
      - do: keep
    """
    flow = memoranda.workflow.load(dedent(text), memory=me.memory, name=FLOW)
    _finished(flow.run({"kite": asked["value"]}, owner=asked.get("user", me.name)))


def action_read(me: Somebody, asked: dict[str, Any]) -> None:
    # What a workflow does not mount it reads where it may, and does without where it may not.
    action_find(me, {"definition": asked["key"]})


def action_find(me: Somebody, asked: dict[str, Any]) -> None:
    id = asked["definition"] if asked["definition"] != "kite" else me.house.definitions["user"].id
    text = f"""
    defs:
      mounted: {{kind: memory, settings: {{definition_id: {id}}}}}
      nothing: {{kind: task, action: set_context, inputs: {{values: {{}}}}}}
    flow:
      - do: nothing
    """
    _finished(memoranda.workflow.load(dedent(text), memory=me.memory, name=FLOW).run({}, owner=me.name))


def action_ask(me: Somebody, asked: dict[str, Any]) -> None:
    text = """
    defs:
      primary: {kind: model, settings: {provider: openai}}
      answer:
        kind: task
        action: ai_generate_text
        inputs: {prompt: "Which kite?"}
        bindings: {model: primary}
    flow:
      - do: answer
    """
    flow = memoranda.workflow.load(dedent(text), memory=me.memory, name=FLOW, model=asked["model"])
    _finished(flow.run({}, owner=me.name))


def tool_set(me: Somebody, asked: dict[str, Any]) -> None:
    calls = Reply("", (ToolCall("c0", "update_memory", {"memory": {asked["key"]: asked["value"]}}),))
    model = Scripted(calls, "Noted.")
    text = f"""
    defs:
      mounted: {{kind: memory, settings: {{definition_id: {me.house.definitions["user"].id}}}}}
      primary: {{kind: model, settings: {{provider: openai}}}}
      answer:
        kind: task
        action: ai_agent
        inputs: {{prompt: "Remember my kite."}}
        bindings: {{model: primary, memory: [mounted]}}
    flow:
      - do: answer
    """
    flow = memoranda.workflow.load(dedent(text), memory=me.memory, name=FLOW, model=model)
    _finished(flow.run({}, owner=asked.get("user", me.name)))
    _answered(model.asked[-1].messages[-1].text)


# chat


def chat_block(me: Somebody, asked: dict[str, Any]) -> None:
    _talk(me, "update_memory", {"block": asked["block"], "content": asked["content"]}, asked)


def chat_lines(me: Somebody, asked: dict[str, Any]) -> None:
    _talk(me, "recall_memory", {"query": asked["query"], "limit": asked["limit"]}, asked)


class _Late(Scripted):
    """A model that is too slow: while it thinks, another writer changes the block."""

    def __init__(self, meanwhile: Callable[[], None], *replies: Reply | str) -> None:
        super().__init__(*replies)
        self._meanwhile = meanwhile

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        if not self.asked:
            self._meanwhile()
        return super().reply(ask, timeout=timeout)


def _talk(me: Somebody, tool: str, arguments: dict[str, Any], asked: dict[str, Any]) -> None:
    replies = (Reply("", (ToolCall("c0", tool, arguments),)), "Noted.")
    written = {**RIGHT["write block"], "seen": "now"}
    model = (
        _Late(lambda: python_block(me, written), *replies) if asked.get("seen") == "long ago" else Scripted(*replies)
    )
    user = asked.get("user", me.name)
    id = session_of(me.name) if me.acts else me.house.fresh()
    chat(me.memory, DESK, "Well?", user=user, conversation_id=id, message_id=me.house.fresh(), model=model)
    _answered(model.asked[-1].messages[-1].text)


class Answered(Exception):
    """What a model is told about its call."""

    def __init__(self, words: dict[str, Any]) -> None:
        super().__init__(words["error"])
        self.words = words


def _answered(text: str) -> None:
    words = json.loads(text)
    if "error" in words:
        raise Answered(words)


def listen(door: Door, me: Somebody, verb: Verb, asked: dict[str, Any]) -> Told | None:
    """Do something through a door; return the error that was reported, or None."""
    try:
        door.verbs[verb](me, asked)
    except memoranda.SourceError as error:
        first = error.diagnostics[0]
        return Told(error.code, first.message, {"diagnostic": first.code}, first.hint)
    except memoranda.MemorandaError as error:
        neutral = render_hint(error.advice, NEUTRAL_WORDS)
        return Told(error.code, error.message, error.details, error.hint, neutral)
    except Problem as problem:
        words = problem.words
        return Told(words["code"], words["detail"], words, words.get("hint", ""))
    except MCPError as refused:
        words = refused.data
        return Told(words["code"], words["message"], words["details"], words["hint"])
    except Noted as noted:
        return noted.told
    except Ended as ended:
        details = ended.failure.details
        return Told(details.get("code", ""), ended.failure.message, details, details.get("hint", ""))
    except Answered as answered:
        words = answered.words
        return Told(words.get("code", ""), words.get("message", words["error"]), words)
    return None


class Door(NamedTuple):
    """A door: the verbs it offers, and how to call them."""

    name: str
    verbs: dict[Verb, Callable[[Somebody, dict[str, Any]], None]]


DOORS = (
    Door(
        "Python",
        {
            "set": python_set,
            "read": python_read,
            "change": python_change,
            "remember": python_remember,
            "recall": python_recall,
            "write block": python_block,
            "recall lines": python_lines,
            "find": python_find,
            "define": python_define,
            "ask": python_ask,
            "preview": python_preview,
            "go on": python_go_on,
        },
    ),
    Door(
        "asyncio",
        {
            "set": asyncio_set,
            "read": asyncio_read,
            "change": asyncio_change,
            "remember": asyncio_remember,
            "recall": asyncio_recall,
            "write block": asyncio_block,
            "recall lines": asyncio_lines,
            "find": asyncio_find,
            "define": asyncio_define,
            "go on": asyncio_go_on,
        },
    ),
    Door(
        "command line",
        {
            "set": command_set,
            "read": command_read,
            "change": command_change,
            "remember": command_remember,
            "recall": command_recall,
            "write block": command_block,
            "recall lines": command_lines,
            "find": command_find,
            "define": command_define,
            "ask": command_ask,
            "go on": command_go_on,
        },
    ),
    Door(
        "REST",
        {
            "set": rest_set,
            "read": rest_read,
            "change": rest_change,
            "remember": rest_remember,
            "recall": rest_recall,
            "write block": rest_block,
            "recall lines": rest_lines,
            "find": rest_find,
            "define": rest_define,
            "ask": rest_ask,
            "preview": rest_preview,
        },
    ),
    Door(
        "client",
        {
            "set": client_set,
            "read": client_read,
            "change": client_change,
            "remember": client_remember,
            "recall": client_recall,
            "write block": client_block,
            "recall lines": client_lines,
            "find": client_find,
            "define": client_define,
            "ask": client_ask,
            "preview": client_preview,
        },
    ),
    Door(
        "MCP",
        {
            "set": mcp_set,
            "read": mcp_read,
            "change": mcp_change,
            "remember": mcp_remember,
            "recall": mcp_recall,
            "write block": mcp_block,
            "recall lines": mcp_lines,
            "find": mcp_find,
        },
    ),
    Door(
        "ABL",
        {
            "set": abl_set,
            "read": abl_read,
            "remember": abl_tool("memory.remember", "content", "collection"),
            "recall": abl_tool("memory.recall", "query", "collection", "limit"),
            "ask": abl_ask,
            "go on": abl_go_on,
        },
    ),
    Door("mashin", {"remember": mashin_remember, "recall": mashin_recall, "ask": mashin_ask}),
    Door("workflow action", {"set": action_set, "read": action_read, "find": action_find, "ask": action_ask}),
    Door("workflow tool", {"set": tool_set}),
    Door("chat tool", {"write block": chat_block, "recall lines": chat_lines}),
)


class Mistake(NamedTuple):
    """Something wrong about a verb, and what every door must report."""

    name: str
    verb: Verb
    code: str
    wrong: Mapping[str, Any] = MappingProxyType({})
    right: Mapping[str, Any] = MappingProxyType({})
    """The right arguments in place of the wrong ones; if the caller lacks rights, another caller passes the same."""
    details: tuple[str, ...] = ()
    """What a program is told besides the message."""
    who: Who = "owner"
    standing: bool = False
    """Whether something is stored there already."""
    rejected: bool = False
    """Whether the wrong value was rejected there."""
    cannot: Mapping[str, str] = MappingProxyType({})
    """Doors that cannot make it, and why."""
    otherwise: Mapping[str, tuple[str, str]] = MappingProxyType({})
    """Doors that must say it in another way: their code, and why."""


RIGHT: dict[Verb, dict[str, Any]] = {
    "set": {
        "key": "kite",
        "value": {"colour": "red", "lines": 2},
        "ttl": None,
        "expect": None,
        "idempotency_key": None,
        "epoch": None,
    },
    "read": {"key": "kite", "as_of": None},
    "change": {"key": "kite"},
    "remember": {"content": "The red kite has two lines", "collection": "kites", "ttl": None, "metadata": None},
    "recall": {"query": "kite", "collection": "kites", "limit": 5, "threshold": 0.0, "filter": None, "mode": "hybrid"},
    "write block": {"block": "core", "content": "- Prefers red kites", "seen": "now"},
    "recall lines": {"query": "kite", "limit": 10},
    "find": {"definition": "kite"},
    "define": {"slug": None, "schema": KITE},
    "ask": {"model": "test"},
    "preview": {"lines": 3},
    "go on": {"ended": False},
}
"""A call of each verb with nothing wrong about it."""

WRITING: tuple[Verb, ...] = ("set", "change", "remember", "write block", "define")

ELSEWHERE: dict[tuple[str, Verb], str] = {
    ("asyncio", "ask"): "a conversation with an agent is held in a thread, by one function for all programs",
    ("asyncio", "preview"): "a conversation with an agent is held in a thread, by one function for all programs",
    ("command line", "preview"): "prompts are looked at where agents are configured: in Python and on the server",
    ("REST", "go on"): "sessions of facts are begun by programs; what a server begins are sessions of agents",
    ("client", "go on"): "sessions of facts are begun by programs; what a server begins are sessions of agents",
    ("MCP", "define"): "its clients keep what definitions allow; those are made by people and programs",
    ("MCP", "ask"): "its client has a model of its own, and asks for memory only",
    ("MCP", "preview"): "its client has a model of its own, and shows it what it likes",
    ("MCP", "go on"): "it reaches the memory of one user, where nothing is begun and nothing ends",
    ("ABL", "change"): "an agent sets what it knows: a missing fact is null to it, and no mistake",
    ("ABL", "write block"): "agents keep facts and texts; blocks are written by people, chat and sleep-time jobs",
    ("ABL", "recall lines"): "agents keep facts and texts; blocks are written by people, chat and sleep-time jobs",
    ("ABL", "find"): "an agent meets definitions only through the facts that they are about",
    ("ABL", "define"): "an agent meets definitions only through the facts that they are about",
    ("ABL", "preview"): "what its model is shown an agent's own text says",
    ("mashin", "set"): "a machine keeps texts in collections, and no facts",
    ("mashin", "read"): "a machine keeps texts in collections, and no facts",
    ("mashin", "change"): "a machine keeps texts in collections, and no facts",
    ("mashin", "write block"): "a machine keeps texts in collections, and no blocks",
    ("mashin", "recall lines"): "a machine keeps texts in collections, and no blocks",
    ("mashin", "find"): "a machine keeps texts in collections, which have no definitions",
    ("mashin", "define"): "a machine keeps texts in collections, which have no definitions",
    ("mashin", "preview"): "what its model is shown a machine's own text says",
    ("mashin", "go on"): "a machine has runs, whose end it is itself",
    ("workflow action", "change"): "a workflow replaces or merges records: a missing one is begun, and no mistake",
    ("workflow action", "remember"): "a workflow keeps records of definitions, and no texts",
    ("workflow action", "recall"): "a workflow keeps records of definitions, and no texts",
    ("workflow action", "write block"): "a workflow keeps records of definitions, and no blocks",
    ("workflow action", "recall lines"): "a workflow keeps records of definitions, and no blocks",
    ("workflow action", "define"): "a workflow uses definitions that others have made",
    ("workflow action", "preview"): "what its model is shown a workflow's own text says",
    ("workflow action", "go on"): "a workflow has runs, whose end it is itself",
    **{
        ("workflow tool", verb): "a model in a workflow can do one thing: update the records that are mounted"
        for verb in RIGHT
        if verb != "set"
    },
    **{
        ("chat tool", verb): "a model in a chat can do two things: write a block, and recall lines"
        for verb in RIGHT
        if verb not in ("write block", "recall lines")
    },
}
"""Why a door cannot do something at all."""

_GRAMMAR = "the name stands in the text of the program, and is refused when that is read, with its line"
_MOUNTED = "a model can name the mounted records only"
_JSON = "JSON has no such number, so this is no JSON, and nothing in it has a path"
_NULL = "its clients write null for such a number; one that sends it as it is, is told the same"
_INPUT = "what a run is given is looked at as a whole, before any step"
_TOKEN = "whose memory it is says the key, never the request"
_OPENED = "whose memory it is says whoever opens the door: a call chooses between the user's and the agent's"
_BELOW = "its scopes are named one by one, as user, project, thread or run"
_NO_EXPECT = "it writes what it has read in the same moment, so it expects nothing"
_OWN_TTL = "how long a record lives says its definition"
_CHOICE = "what can be chosen from is a part of the command, or of the address, and is named where it is refused"
_ROLE = "what a key may do says its role, which neither waits for anybody nor counts"


def _all(why: str, *doors: str) -> dict[str, str]:
    return dict.fromkeys(doors, why)


_OVER_HTTP = ("REST", "client")
_OF_WORKFLOWS = ("workflow action", "workflow tool")

# Not `actual`: a run is written under the same quota, together with its text where that is new.
QUOTA = ("limit", "retry_after")
NO_QUOTA = {
    **_all(_ROLE, *_OVER_HTTP),
    "command line": "quotas are given by programs, and none is kept in the database",
}
BLUE = {"value": {"colour": "blue", "lines": 3}}
INVISIBLE = "no\u200bra"

MISTAKES = (
    Mistake(
        "an empty part of a key",
        "set",
        "invalid_key",
        {"key": "kites..red"},
        otherwise={
            "ABL": ("source_error", _GRAMMAR),
            "workflow action": ("source_error", _GRAMMAR),
            "workflow tool": ("not_found", _MOUNTED),
        },
    ),
    Mistake(
        "an internal key",
        "set",
        "invalid_key",
        {"key": "blocks.core"},
        otherwise={"workflow action": ("source_error", _GRAMMAR), "workflow tool": ("not_found", _MOUNTED)},
    ),
    Mistake(
        "an unusable user",
        "set",
        "invalid_scope",
        {"user": INVISIBLE},
        details=("kind",),
        cannot=_all(_TOKEN, *_OVER_HTTP),
    ),
    Mistake(
        "an unknown kind of scope",
        "set",
        "invalid_scope",
        {"below": "robot:r2"},
        {"below": "agent:desk"},
        cannot=_all(_BELOW, "ABL", *_OF_WORKFLOWS),
        otherwise={"MCP": ("usage_error", _OPENED)},
    ),
    Mistake(
        "no duration",
        "set",
        "invalid_duration",
        {"ttl": "fortnight"},
        {"ttl": "14d"},
        cannot=_all(_OWN_TTL, *_OF_WORKFLOWS),
        otherwise={"ABL": ("source_error", _GRAMMAR)},
    ),
    Mistake(
        "no duration for a text",
        "remember",
        "invalid_duration",
        {"ttl": "fortnight"},
        {"ttl": "14d"},
        cannot={"ABL": "what its tool remembers is kept for good"},
    ),
    Mistake(
        "NaN",
        "set",
        "invalid_value",
        {"value": {"colour": "red", "lines": NAN}},
        details=("path",),
        cannot={"MCP": _NULL},
        otherwise={
            "command line": ("invalid_value", _JSON),
            "REST": ("usage_error", _JSON),
            "workflow action": ("invalid_value", _INPUT),
        },
    ),
    Mistake(
        "NaN in a text",
        "remember",
        "invalid_value",
        {"content": {"lines": NAN}},
        details=("path",),
        cannot={"MCP": _NULL},
        otherwise={
            "command line": ("invalid_value", _JSON),
            "REST": ("usage_error", _JSON),
            "mashin": ("invalid_value", _INPUT),
        },
    ),
    Mistake(
        "a value over the limit",
        "set",
        "limit_exceeded",
        {"value": {"colour": "r" * 1_050_000}},
        details=("limit", "actual"),
        otherwise={"workflow action": ("limit_exceeded", _INPUT)},
    ),
    Mistake(
        "a text over the limit",
        "remember",
        "limit_exceeded",
        {"content": "kite " * 14_000},
        details=("limit", "actual", "what"),
    ),
    Mistake("nothing to remember", "remember", "invalid_value", {"content": "  "}, details=("path",)),
    Mistake(
        "a name that filters have",
        "remember",
        "invalid_value",
        {"metadata": {"$kind": "kite"}},
        {"metadata": {"kind": "kite"}},
        details=("path",),
        cannot={"ABL": "what its tool remembers has no metadata"},
    ),
    Mistake("an unusable collection", "remember", "usage_error", {"collection": "kites\u200b"}),
    Mistake(
        "what a schema refuses",
        "set",
        "schema_violation",
        {"value": {"colour": "red", "lines": 0}},
        details=("path", "expected"),
    ),
    Mistake(
        "a stale version",
        "set",
        "conflict",
        {**BLUE, "expect": 7},
        {**BLUE, "expect": 1},
        details=("expected", "actual", "key", "current_updated_at"),
        standing=True,
        cannot=_all(_NO_EXPECT, "ABL", *_OF_WORKFLOWS),
    ),
    Mistake(
        "a fact that exists",
        "set",
        "conflict",
        {**BLUE, "expect": 0},
        {**BLUE, "expect": 1},
        details=("expected", "actual", "key", "current_updated_at"),
        standing=True,
        cannot=_all(_NO_EXPECT, "ABL", *_OF_WORKFLOWS),
    ),
    Mistake(
        "a value that was rejected",
        "set",
        "rejected",
        BLUE,
        {"value": {"colour": "red", "lines": 2}},
        details=("rejection", "reason"),
        rejected=True,
    ),
    Mistake(
        "one idempotency key for two",
        "set",
        "idempotency_mismatch",
        {**BLUE, "idempotency_key": "flown once"},
        {**BLUE, "idempotency_key": "flown twice"},
        standing=True,
        cannot=_all(
            "it is not asked over a network, so no answer is lost that it would ask for again",
            "MCP",
            "ABL",
            *_OF_WORKFLOWS,
        ),
    ),
    Mistake(
        "no moment",
        "read",
        "usage_error",
        {"as_of": "soon"},
        cannot=_all("it reads what stands while it runs", "ABL", "workflow action"),
    ),
    Mistake(
        "no such fact",
        "change",
        "not_found",
        otherwise={**dict.fromkeys(_OVER_HTTP, ("not_found", _TOKEN)), "MCP": ("not_found", _OPENED)},
    ),
    Mistake(
        "a stale block",
        "write block",
        "conflict",
        {"seen": "long ago", "content": "- Prefers blue kites"},
        {"content": "- Prefers blue kites"},
        details=("expected", "actual", "current_updated_at"),
        standing=True,
        otherwise={"chat tool": ("conflict", "a model knows no stamps: it is shown the text that stands instead")},
    ),
    Mistake(
        "too many characters",
        "write block",
        "limit_exceeded",
        {"content": "- " + "kite " * 800},
        details=("limit", "actual", "what"),
    ),
    Mistake(
        "too many entries",
        "write block",
        "limit_exceeded",
        {"content": "- kite\n" * 21},
        details=("limit", "actual", "what"),
    ),
    Mistake(
        "an unknown block",
        "write block",
        "usage_error",
        {"block": "diary", "seen": "never"},
        otherwise=dict.fromkeys(("command line", *_OVER_HTTP), ("usage_error", _CHOICE)),
    ),
    Mistake(
        "an unknown operator",
        "recall",
        "invalid_filter",
        {"filter": {"lines": {"$above": 1}}},
        {"filter": {"lines": {"$gt": 1}}},
        details=("path",),
        cannot={
            "ABL": "its tool has no filter",
            "mashin": "its filters compare values as they are: nothing that comes from outside becomes an operator",
        },
    ),
    Mistake(
        "a threshold above 1",
        "recall",
        "usage_error",
        {"threshold": 1.5},
        {"threshold": 0.5},
        details=("path",),
        cannot={"ABL": "its tool has no threshold"},
    ),
    Mistake(
        "an unknown mode",
        "recall",
        "usage_error",
        {"mode": "psychic"},
        {"mode": "keyword"},
        details=("path",),
        otherwise={"command line": ("usage_error", _CHOICE)},
        cannot=_all("how it searches is set where it is loaded", "ABL", "mashin"),
    ),
    Mistake("a negative limit", "recall", "usage_error", {"limit": -1}, details=("path",)),
    Mistake(
        "a limit that is too high",
        "recall",
        "limit_exceeded",
        {"limit": 1_001},
        {"limit": 1_000},
        details=("limit", "actual", "path"),
    ),
    Mistake(
        "too many lines",
        "recall lines",
        "limit_exceeded",
        {"limit": 101},
        {"limit": 100},
        details=("limit", "actual", "path"),
    ),
    Mistake(
        "a policy of too many lines",
        "preview",
        "limit_exceeded",
        {"lines": 101},
        {"lines": 100},
        details=("limit", "actual"),
    ),
    Mistake("no such definition", "find", "not_found", {"definition": "00000000-0000-4000-8000-000000000000"}),
    Mistake("an unusable slug", "define", "invalid_definition", {"slug": "Kite!"}, who="admin"),
    Mistake(
        "an unusable schema",
        "define",
        "invalid_definition",
        {"schema": {"type": "kite"}},
        who="admin",
        details=("path",),
    ),
    Mistake("a slug that is taken", "define", "already_exists", {"slug": "kite"}, who="admin"),
    Mistake("no grant", "set", "denied", who="reader", details=("capability",)),
    Mistake("no grant for a text", "remember", "denied", who="reader", details=("capability",)),
    Mistake("no grant for a block", "write block", "denied", who="reader", details=("capability",)),
    Mistake("no grant to read", "read", "denied", who="stranger", details=("capability",)),
    Mistake(
        "an approval that is needed",
        "set",
        "approval_required",
        who="watched",
        details=("capability", "approval"),
        cannot=_all(_ROLE, *_OVER_HTTP),
    ),
    Mistake("a quota that is used up", "set", "quota_exceeded", who="thrifty", details=QUOTA, cannot=NO_QUOTA),
    Mistake("a quota for texts", "remember", "quota_exceeded", who="thrifty", details=QUOTA, cannot=NO_QUOTA),
    Mistake(
        "an epoch that has passed",
        "set",
        "stale_epoch",
        {"epoch": 99_999},
        details=("expected", "actual"),
        cannot=_all("a program writes with the handle that it runs on", "ABL", *_OF_WORKFLOWS),
    ),
    Mistake(
        "a session that has ended",
        "go on",
        "scope_ended",
        {"ended": True},
    ),
    Mistake("a name without a provider", "ask", "model_unavailable", {"model": "parrot"}),
    Mistake("an unknown provider", "ask", "model_unavailable", {"model": "parrots:grey"}),
    Mistake("a model without its key", "ask", "model_unavailable", {"model": "openai:gpt-5.2"}),
)


def pairs() -> list[tuple[Mistake, Door]]:
    """Return every mistake with every door that can make it."""
    return [(mistake, door) for mistake in MISTAKES for door in DOORS if why_not(mistake, door) is None]


def why_not(mistake: Mistake, door: Door) -> str | None:
    """Return why a door cannot make a mistake, or None if it can; raise a KeyError if no reason is recorded."""
    if mistake.verb not in door.verbs:
        return ELSEWHERE[door.name, mistake.verb]
    return mistake.cannot.get(door.name)


def drawn(seen: set[tuple[str, str]]) -> list[str]:
    """Return the lines of the table of what each door reports about each mistake, from the tests that passed.

    `=` is the same code, sentence and details as in Python, `~` the same code in other words, `≠` another code, `·`
    that a door cannot make it, `?` that it was not tested. The reasons for all but the first are in the table.
    """
    wide = max(len(mistake.name) for mistake in MISTAKES)
    heads = [f"{'':{wide}}  {'│ ' * number}┌ {door.name}" for number, door in enumerate(DOORS)]
    rows = [
        f"{mistake.name:{wide}}  " + " ".join(_sign(mistake, door, seen) for door in DOORS) + f"  {mistake.code}"
        for mistake in MISTAKES
    ]
    signs = "=  as in Python    ~  in other words    ≠  by another code    ·  cannot be made there"
    return [*heads, *rows, signs]


def _sign(mistake: Mistake, door: Door, seen: set[tuple[str, str]]) -> str:
    if why_not(mistake, door) is not None:
        return "·"
    if (mistake.name, door.name) not in seen:
        return "?"
    if door.name not in mistake.otherwise:
        return "="
    return "~" if mistake.otherwise[door.name][0] == mistake.code else "≠"
