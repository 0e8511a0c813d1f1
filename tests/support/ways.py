"""Every way to write a memory and every way to read one: which places it can name, and how to call it.

There are four kinds of memory here. A `record` is a value under a name, an `entry` a text that is searched, `core` and
`archive` are the texts of the two memory blocks. A place is one of them in one scope; each test has its own user there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any, Literal, NamedTuple, cast

from typer.testing import CliRunner

import memoranda
from memoranda import errors
from memoranda.agent.models import Ask, Reply, ToolCall
from memoranda.api.memory import Memory
from memoranda.chat import Agent, chat, preview, read_conversation
from memoranda.cli.app import run
from memoranda.sleep import extract_by_model, extract_by_rules, run_sleep_time
from memoranda.testing.conformance.base import EMBEDDER
from memoranda.workflow.threads import add_message, messages, open_thread

Kind = Literal["record", "entry", "core", "archive"]
ScopeName = Literal["user", "agent", "workflow", "thread", "project", "shared"]

DESK = Agent(id="desk", instructions="You mend kites.")
FLOW = "kites"
KITE = {
    "type": "object",
    "properties": {"colour": {"type": "string"}, "lines": {"type": "integer", "minimum": 1}},
    "required": ["colour"],
}
SLUGS: dict[str, str] = {"user": "kite", "workflow": "flown_kite", "thread": "shown_kite"}
"""The definition of each scope that a definition can have."""
HOUR = 3600

GOOD: dict[Kind, Any] = {
    "record": {"colour": "red", "lines": 2},
    "entry": "The red kite has two lines",
    "core": "- Prefers red kites",
    "archive": "- Favourite kite: Ruby",
}
OTHER: dict[Kind, Any] = {
    "record": {"colour": "blue", "lines": 3},
    "entry": "The blue kite has three lines",
    "core": "- Prefers blue kites",
    "archive": "- Favourite kite: Sapphire",
}
BAD: dict[Kind, Any] = {
    "record": {"colour": "red", "lines": 0},
    "core": "\n".join(f"- Likes kite number {number}" for number in range(21)),
    "archive": "- " + "kite " * 1_600,
}
"""What the contract of a kind refuses: the schema of a definition, the limits of a block. Entries have none."""


class Place(NamedTuple):
    """One kind of memory in one scope of a user."""

    kind: Kind
    scope: ScopeName
    name: str
    """Of the user, or of the project: one for each test."""

    @property
    def ids(self) -> dict[str, str]:
        """The ids of the scope."""
        whole = {
            "user": {"user": self.name},
            "agent": {"user": self.name, "agent": DESK.id},
            "workflow": {"user": self.name, "workflow": FLOW},
            "thread": {"user": self.name, "thread": "t1"},
            "project": {"project": self.name},
            "shared": {},
        }
        return whole[self.scope]

    @property
    def key(self) -> str:
        """The key of the record, or the name of the block."""
        if self.kind == "record":
            return SLUGS.get(self.scope, f"kites.{self.name}")
        return f"collections.{self.collection}" if self.kind == "entry" else f"blocks.{self.block}"

    @property
    def block(self) -> Any:
        return "core" if self.kind == "core" else "archival"

    @property
    def collection(self) -> str:
        return f"kites_{self.name}"

    @property
    def flags(self) -> list[str]:
        """The scope as command-line options."""
        return [word for kind, id in self.ids.items() for word in (f"--{kind}", id)]

    @property
    def below(self) -> str | None:
        """The scope as REST parameters, below the user of the key."""
        return next((f"{kind}:{id}" for kind, id in self.ids.items() if kind != "user"), None)


class Scripted:
    """A model that gives scripted replies, and records its requests."""

    name = "made:up"

    def __init__(self, *replies: Reply | str) -> None:
        self.replies = list(replies)
        self.asked: list[Ask] = []

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        self.asked.append(ask)
        reply = self.replies.pop(0)
        return Reply(reply) if isinstance(reply, str) else reply


class House:
    """One memory and every access to it: commands, a server in another process, and programs in three languages."""

    def __init__(
        self,
        memory: Memory,
        folder: Path,
        *,
        cli: Callable[..., Any],
        client: Callable[[str], Any],
        mcp: Callable[[str], Any] | None = None,
    ) -> None:
        self.memory = memory
        self.folder = folder
        self.cli = cli
        """Calls a command; gives its JSON, None where it found nothing, and raises what it refused."""
        self.client = client
        """Gives the client of a user."""
        self.mcp = mcp
        """Gives an MCP client of a user."""
        self.definitions = {
            scope: memory.definitions.create(
                name=slug.replace("_", " ").title(),
                slug=slug,
                scope="global" if scope == "user" else scope,
                schema=KITE,
                ttl=HOUR,
            )
            for scope, slug in SLUGS.items()
        }
        self._count = 0

    def at(self, place: Place) -> Any:
        return self.memory.scope(**place.ids)

    def fresh(self) -> str:
        """Return an id that was not used before."""
        self._count += 1
        return f"n{self._count}"

    def workflow(self, text: str, **options: Any) -> Any:
        return memoranda.workflow.load(dedent(text), memory=self.memory, name=FLOW, **options)

    def agent(self, text: str) -> Any:
        return memoranda.abl.load(dedent(text), memory=self.memory)

    def machine(self, text: str) -> Any:
        return memoranda.mashin.load(dedent(text), memory=self.memory)


def command(*arguments: str) -> Any:
    """Run a command; return its JSON, and raise a refusal as the error that it names."""
    options = list(arguments)
    options.insert(options.index("--") if "--" in options else len(options), "--json")
    with CliRunner().isolation() as (stdout, stderr, _):
        code = run(options)
        printed, complained = stdout.getvalue(), stderr.getvalue()
    if code == 0:
        return json.loads(printed)
    # A run that failed is printed as it is, and says in it why.
    fault = json.loads(complained or printed)["error"]
    told = {
        "code": "",
        "hint": "",
        **fault["details"],
        **{name: fault[name] for name in ("code", "hint") if name in fault},
    }
    kind = next(one for one in vars(errors).values() if getattr(one, "code", None) == told["code"])
    raise kind(fault["message"], **{name: value for name, value in told.items() if name != "code"})


def found_by_command(*arguments: str) -> Any:
    """Run a command; return None if it found nothing."""
    with contextlib.suppress(memoranda.NotFound):
        return command(*arguments)


# writing


def by_python(house: House | _Elsewhere, place: Place, value: Any) -> None:
    handle = house.at(place)
    if place.kind == "record":
        handle.set(place.key, value, ttl=None if place.scope in SLUGS else HOUR)
    elif place.kind == "entry":
        handle.remember(value, collection=place.collection, ttl=HOUR)
    else:
        standing = handle.blocks.get(place.block)
        handle.blocks.update(place.block, value, expected_updated_at=standing and standing.updated_at)


def by_asyncio(house: House, place: Place, value: Any) -> None:
    async def write() -> None:
        handle = memoranda.AsyncMemory(house.memory).scope(**place.ids)
        if place.kind == "record":
            await handle.set(place.key, value, ttl=None if place.scope in SLUGS else HOUR)
        elif place.kind == "entry":
            await handle.remember(value, collection=place.collection, ttl=HOUR)
        else:
            standing = await handle.blocks.get(place.block)
            await handle.blocks.update(place.block, value, expected_updated_at=standing and standing.updated_at)

    asyncio.run(write())


def by_command(house: House, place: Place, value: Any) -> None:
    if place.kind == "record":
        ttl = [] if place.scope in SLUGS else ["--ttl", f"{HOUR}s"]
        house.cli("facts", "set", place.key, json.dumps(value), "--as-json", *ttl, *place.flags)
    elif place.kind == "entry":
        house.cli("remember", value, "--collection", place.collection, "--ttl", f"{HOUR}s", *place.flags)
    else:
        house.cli("blocks", "set", "--replace", *place.flags, "--", place.block, value)


def by_client(house: House, place: Place, value: Any) -> None:
    client = house.client(place.name)
    if place.kind == "record":
        ttl = None if place.scope in SLUGS else HOUR
        client.facts.set(place.key, value, ttl=ttl, scope=place.below)
    elif place.kind == "entry":
        client.collections.remember(value, collection=place.collection, ttl=HOUR, scope=place.below)
    else:
        named = {"scope": "agent", "agent_id": DESK.id} if place.scope == "agent" else {}
        standing = client.memory.get(place.block, **named)
        client.memory.update(place.block, value, expected_updated_at=standing and standing.updated_at, **named)


def by_mcp(house: House, place: Place, value: Any) -> None:
    assert house.mcp is not None
    door = house.mcp(place.name)
    if place.kind == "record":
        ttl = None if place.scope in SLUGS else HOUR
        door.call("set_fact", key=place.key, value=value, ttl=ttl, scope=place.scope)
    elif place.kind == "entry":
        door.call("remember", content=value, collection=place.collection, ttl=HOUR, scope=place.scope)
    else:
        named = {"block": place.block, "scope": place.scope}
        standing = _found(lambda: door.call("get_memory_block", **named))
        stamp = standing and standing["updated_at"]
        door.call("update_memory_block", content=value, expected_updated_at=stamp, **named)


def by_abl_set(house: House, place: Place, value: Any) -> None:
    path = f"{place.scope}.{place.key}"
    agent = house.agent(f"""
    AGENT: Flyer
    GOAL: "Fly kites"
    MEMORY:
      session:
        - given
          INPUT: true
      persistent:
        - {path}
          TYPE: object
    FLOW:
      field:
        REASONING: false
        SET:
          - {path} = given
        THEN: COMPLETE
    """)
    _start(agent, place, {"given": value})


def by_abl_fields(house: House, place: Place, value: Any) -> None:
    path = f"{place.scope}.{place.key}"
    agent = house.agent(f"""
    AGENT: Flyer
    GOAL: "Fly kites"
    MEMORY:
      session:
        - given
          INPUT: true
      persistent:
        - {path}.colour
        - {path}.lines
          TYPE: number
    FLOW:
      field:
        REASONING: false
        SET:
          - {path}.colour = given.colour
          - {path}.lines = given.lines
        THEN: COMPLETE
    """)
    _start(agent, place, {"given": value})


def by_abl_trigger(house: House, place: Place, value: Any) -> None:
    path = f"{place.scope}.{place.key}"
    agent = house.agent(f"""
    AGENT: Flyer
    GOAL: "Fly kites"
    MEMORY:
      session:
        - given
          INPUT: true
      persistent:
        - {path}
          TYPE: object
      remember:
        - WHEN: given IS SET
          STORE: given -> {path}
          TTL: 1h
    FLOW:
      field:
        REASONING: false
        RESPOND: "Up!"
        THEN: COMPLETE
    """)
    _start(agent, place, {"given": value})


def by_abl_tool(house: House, place: Place, value: Any) -> None:
    agent = house.agent(f"""
    AGENT: Flyer
    GOAL: "Fly kites"
    MEMORY:
      session:
        - given
          INPUT: true
    FLOW:
      field:
        REASONING: false
        CALL: memory.remember
          WITH:
            content: given
            collection: "{place.collection}"
        THEN: COMPLETE
    """)
    _start(agent, place, {"given": value})


def by_machine(house: House, place: Place, value: Any) -> None:
    machine = house.machine(f"""
    machine notes
      accepts
        words as text
      ensures
        allowed to memory
      implements
        remember keep
          content: input.words
          collection: "{place.collection}"
          ttl: "1h"
    """)
    machine.run({"words": value}, **place.ids).check()


def by_action(house: House, place: Place, value: Any) -> None:
    flow = house.workflow(f"""
    defs:
      {_mounted(house, place)}
      keep: {{kind: task, action: update_memory, inputs: {{memory: {{{_name(place)}: "=$input.kite"}}}}}}
    flow:
      - do: keep
    """)
    flow.run({"kite": value}, owner=place.name, thread="t1").check()


def by_workflow_tool(house: House, place: Place, value: Any) -> None:
    calls = Reply("", (ToolCall("c0", "update_memory", {"memory": {_name(place): value}}),))
    flow = house.workflow(
        f"""
        defs:
          {_mounted(house, place)}
          primary: {{kind: model, settings: {{provider: openai}}}}
          answer:
            kind: task
            action: ai_agent
            inputs: {{prompt: "Remember my kite."}}
            bindings: {{model: primary, memory: [mounted]}}
        flow:
          - do: answer
        """,
        model=Scripted(calls, "Noted."),
    )
    run = flow.run(owner=place.name, thread="t1").check()
    if run.outputs["answer"]["tool_calls"][0]["failed"]:
        raise memoranda.SchemaViolation("the model was told that the value does not fit")


def by_chat_tool(house: House, place: Place, value: Any) -> None:
    asked = {"block": place.block, "content": value, "scope": place.scope}
    # An archive is not shown before it is written: the first call shows its content, if it has any.
    calls = Reply("", (ToolCall("c0", "update_memory", asked),))
    again = Reply("", (ToolCall("c1", "update_memory", asked),))
    standing = house.at(place).blocks.get(place.block) is not None and place.kind == "archive"
    model = Scripted(calls, *([again] if standing else []), "Noted.")
    turn = chat(
        house.memory,
        DESK,
        "Remember that.",
        user=place.name,
        conversation_id=house.fresh(),
        message_id="m1",
        model=model,
    )
    results = [json.loads(part.text) for part in turn.parts if part.kind == "tool_response"]
    if "written" not in results[-1]:
        raise memoranda.LimitExceeded("the model was told that the text does not fit", limit=0, actual=0, what="block")


def by_sleep(house: House, place: Place, value: Any) -> None:
    said = {
        "- Prefers red kites": "I prefer red kites.",
        "- Prefers blue kites": "I prefer blue kites.",
        "- Favourite kite: Ruby": "My favourite kite is Ruby.",
        "- Favourite kite: Sapphire": "My favourite kite is Sapphire.",
    }
    conversation = house.fresh()
    chat(
        house.memory,
        DESK,
        said.get(value, "I like kites."),
        user=place.name,
        conversation_id=conversation,
        message_id="m1",
        model=Scripted("Noted."),
    )
    extractor = extract_by_rules
    if place.scope == "agent":
        standing = house.at(place).blocks.get(place.block)
        line = {"text": value[2:], "block": place.block, "scope": "agent", "messages": [0]}
        line["replaces"] = standing.content.split("\n") if standing else []
        extractor = extract_by_model(Scripted(*[Reply(value={"lines": [line]})] * 3))
    run_sleep_time(house.memory, conversation, user=place.name, extractor=extractor)


def by_import(house: House, place: Place, value: Any) -> None:
    """Write it to another memory, export it there, and import the file here."""
    file = house.folder / f"{house.fresh()}.jsonl"
    with memoranda.open(":memory:", clock=house.memory.clock, embedder=EMBEDDER) as elsewhere:
        by_python(_Elsewhere(elsewhere), place, value)
        if place.kind == "record" and place.scope in SLUGS:
            elsewhere.scope(**place.ids).set(place.key, value, ttl=HOUR)
        elsewhere.export(file)
    house.memory.import_file(file)


class _Elsewhere:
    """Another memory, without definitions."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def at(self, place: Place) -> Any:
        return self.memory.scope(**place.ids)


# reading


def read_by_python(house: House, place: Place) -> Any:
    handle = house.at(place)
    if place.kind == "record":
        return handle.value(place.key)
    if place.kind == "entry":
        return _first(match.content for match in handle.recall("kite", collection=place.collection).results)
    block = handle.blocks.get(place.block)
    return block and block.content


def read_by_command(house: House, place: Place) -> Any:
    if place.kind == "record":
        found = house.cli("facts", "get", place.key, *place.flags)
        return found and found["value"]
    if place.kind == "entry":
        found = house.cli("recall", "kite", "--collection", place.collection, *place.flags)
        return _first(match["content"] for match in found["results"]) if found else None
    found = house.cli("blocks", "show", place.block, *place.flags)
    return found and found["content"]


def read_by_rest(house: House, place: Place) -> Any:
    client = house.client(place.name)
    if place.kind == "record":
        return client.facts.value(place.key, scope=place.below)
    if place.kind == "entry":
        found = client.collections.recall("kite", collection=place.collection, scope=place.below)
        return _first(match.content for match in found.results)
    if place.kind == "archive":
        agent = DESK.id if place.scope == "agent" else None
        return _first(match.content for match in client.memory.recall("kite", agent_id=agent))
    named = {"scope": "agent", "agent_id": DESK.id} if place.scope == "agent" else {}
    block = client.memory.get(place.block, **named)
    return block and block.content


def read_by_mcp(house: House, place: Place) -> Any:
    assert house.mcp is not None
    door = house.mcp(place.name)
    if place.kind == "record":
        fact = _found(lambda: door.call("get_fact", key=place.key, scope=place.scope))
        return fact and fact["value"]
    if place.kind == "entry":
        found = door.call("recall", query="kite", collection=place.collection, scope=place.scope)
        return _first(match["content"] for match in found["results"])
    if place.kind == "archive":
        return _first(match["content"] for match in door.call("recall_blocks", query="kite")["memories"])
    block = _found(lambda: door.call("get_memory_block", block=place.block, scope=place.scope))
    return block and block["content"]


def read_by_abl_expression(house: House, place: Place) -> Any:
    path = f"{place.scope}.{place.key}"
    if place.kind != "record":
        agent = house.agent(f"""
        AGENT: Flyer
        GOAL: "Fly kites"
        MEMORY:
          persistent:
            - {path}
              ACCESS: read
        FLOW:
          field:
            REASONING: false
            RESPOND: "{{{{COALESCE({path}, 'none')}}}}"
            THEN: COMPLETE
        """)
        [said] = _start(agent, place).opening.messages
        return None if said == "none" else said
    agent = house.agent(f"""
    AGENT: Flyer
    GOAL: "Fly kites"
    MEMORY:
      persistent:
        - {path}
          TYPE: object
    FLOW:
      field:
        REASONING: false
        RESPOND: "{{{{COALESCE({path}.colour, 'none')}}}}|{{{{COALESCE({path}.lines, '')}}}}"
        THEN: COMPLETE
    """)
    return _kite_in(_start(agent, place).opening.messages[0])


def read_by_abl_fields(house: House, place: Place) -> Any:
    path = f"{place.scope}.{place.key}"
    agent = house.agent(f"""
    AGENT: Flyer
    GOAL: "Fly kites"
    MEMORY:
      persistent:
        - {path}.colour
        - {path}.lines
    FLOW:
      field:
        REASONING: false
        RESPOND: "{{{{COALESCE({path}.colour, 'none')}}}}|{{{{COALESCE({path}.lines, '')}}}}"
        THEN: COMPLETE
    """)
    return _kite_in(_start(agent, place).opening.messages[0])


def read_by_abl_recall(house: House, place: Place) -> Any:
    if place.kind == "entry":
        agent = house.agent(f"""
        AGENT: Flyer
        GOAL: "Fly kites"
        MEMORY:
          recall:
            - ON: session:start
              ACTION: load_memory
              DOMAIN: "{place.collection}"
        FLOW:
          field:
            REASONING: false
            RESPOND: "{{{{COALESCE(recalled.{place.collection}[0], 'none')}}}}"
            THEN: COMPLETE
        """)
        [said] = _start(agent, place).opening.messages
        return None if said == "none" else said
    path = f"{place.scope}.{place.key}"
    agent = house.agent(f"""
    AGENT: Flyer
    GOAL: "Fly kites"
    MEMORY:
      persistent:
        - {path}
          TYPE: object
      recall:
        - ON: session:start
          ACTION: inject_context
          PATHS: [{path}]
    FLOW:
      field:
        REASONING: false
        RESPOND: "{{{{COALESCE({path}.colour, 'none')}}}}|{{{{COALESCE({path}.lines, '')}}}}"
        THEN: COMPLETE
    """)
    return _kite_in(_start(agent, place).opening.messages[0])


def read_by_machine(house: House, place: Place) -> Any:
    machine = house.machine(f"""
    machine finds
      ensures
        allowed to memory
      implements
        recall found
          query: "kite"
          collection: "{place.collection}"
    """)
    run = machine.run({}, **place.ids).check()
    return _first(match["content"] for match in run.output["results"])


def read_by_context(house: House, place: Place) -> Any:
    flow = house.workflow(f"""
    defs:
      {_mounted(house, place)}
      nothing: {{kind: task, action: set_context, inputs: {{values: {{}}}}}}
    flow:
      - do: nothing
    outputs: {{kite: "=$context.memory.{_name(place)}"}}
    """)
    return flow.run(owner=place.name, thread="t1").check().output.get("kite")


def read_by_prompt(house: House, place: Place) -> Any:
    model = Scripted("That one.")
    flow = house.workflow(
        f"""
        defs:
          {_mounted(house, place)}
          primary: {{kind: model, settings: {{provider: openai}}}}
          answer:
            kind: task
            action: ai_generate_text
            inputs: {{prompt: "Which kite?", system: "Look."}}
            bindings: {{model: primary, memory: [mounted]}}
        flow:
          - do: answer
        """,
        model=model,
    )
    flow.run(owner=place.name, thread="t1").check()
    lines = [line for line in model.asked[0].instructions.splitlines() if line[:2] == "- "]
    if place.kind != "record":
        return _first(iter(lines))
    shown = dict(line[2:].split(": ", 1) for line in lines)
    return {"colour": shown["Colour"], "lines": int(shown["Lines"])} if shown else None


def read_by_user_memory(house: House, place: Place) -> Any:
    shown = preview(house.memory, DESK, "Hello", user=place.name).system
    _, _, inside = shown.partition("<user_memory>")
    return _first(line for line in inside.splitlines() if line.startswith("- "))


def read_by_reminders(house: House, place: Place) -> Any:
    policy = {"archival_mode": "auto"}
    shown = preview(house.memory, DESK, "Which kite?", user=place.name, memory_policy=policy).reminders
    # A reminder says whose archive the line is from, and then the line.
    return _first(line[line.index("- Fav") :] for line in shown.splitlines() if "- Fav" in line)


def read_by_export(house: House, place: Place) -> Any:
    file = house.folder / f"{house.fresh()}.jsonl"
    scope = house.at(place).scope
    house.memory.export(file, scope=scope)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    facts = [line["fact"] for line in lines if "fact" in line]
    entries = [line["entry"] for line in lines if "entry" in line]
    if place.kind == "entry":
        found = [one for one in entries if one["collection"] == place.collection]
    else:
        found = [one for one in facts if one["key"] == place.key]
    return _first(one["payload"] for one in found if one["scope"] == scope.path)


# the table


class Way(NamedTuple):
    """One way to write or to read: the places it reaches, and how to call it."""

    name: str
    door: str
    """What the history and the ledger call it."""
    reach: dict[Kind, tuple[ScopeName, ...]]
    """The scopes it can name, by kind of memory."""
    go: Callable[..., Any]
    spelling: dict[Kind, str]
    """How it is written there, for `docs/what-crosses.md`."""


EVERYWHERE: tuple[ScopeName, ...] = ("user", "agent", "workflow", "thread", "project", "shared")
OF_A_USER: tuple[ScopeName, ...] = ("user", "agent", "workflow", "thread")
OF_A_BLOCK: tuple[ScopeName, ...] = ("user", "agent")
OF_A_DEFINITION: tuple[ScopeName, ...] = ("user", "workflow", "thread")
OF_AN_AGENT: tuple[ScopeName, ...] = ("user", "project")

_ALL: dict[Kind, tuple[ScopeName, ...]] = {
    "record": EVERYWHERE,
    "entry": EVERYWHERE,
    "core": OF_A_BLOCK,
    "archive": OF_A_BLOCK,
}
_OWN: dict[Kind, tuple[ScopeName, ...]] = {**_ALL, "record": OF_A_USER, "entry": OF_A_USER}
_HERE: dict[Kind, tuple[ScopeName, ...]] = {**_ALL, "record": OF_A_BLOCK, "entry": OF_A_BLOCK}

_RECORDS: dict[Kind, tuple[ScopeName, ...]] = {"record": OF_AN_AGENT}
_BLOCKS: dict[Kind, tuple[ScopeName, ...]] = {"core": OF_A_BLOCK, "archive": OF_A_BLOCK}
_MOUNTED: dict[Kind, tuple[ScopeName, ...]] = {"record": OF_A_DEFINITION, **_BLOCKS}


def _blocks(spelling: str) -> dict[Kind, str]:
    """Return how both blocks are written; `{}` is replaced with the type of the block."""
    return {"core": spelling.format("core"), "archive": spelling.format("archival")}


# One line for each way: its name, its door, what it can name, how it is done, and how it is written in the
# documentation. A new way needs nothing else: the tests and the tables of `docs/what-crosses.md` are made from these.
WRITERS = (
    Way(
        "Python",
        "python",
        _ALL,
        by_python,
        {
            "record": '`ada.set("kite", value)`',
            "entry": '`ada.remember(text, collection="kites")`',
            **_blocks('`ada.blocks.update("{}", text, expected_updated_at=…)`'),
        },
    ),
    Way(
        "asyncio",
        "python",
        _ALL,
        by_asyncio,
        {
            "record": '`await ada.set("kite", value)`',
            "entry": '`await ada.remember(text, collection="kites")`',
            **_blocks('`await ada.blocks.update("{}", text, expected_updated_at=…)`'),
        },
    ),
    Way(
        "command line",
        "cli",
        _ALL,
        by_command,
        {
            "record": "`memoranda facts set kite JSON --as-json`",
            "entry": "`memoranda remember TEXT --collection kites`",
            **_blocks("`memoranda blocks set {} TEXT`"),
        },
    ),
    Way(
        "REST client",
        "rest",
        _OWN,
        by_client,
        {
            "record": '`client.facts.set("kite", value)`',
            "entry": '`client.collections.remember(text, collection="kites")`',
            **_blocks('`client.memory.update("{}", text, expected_updated_at=…)`'),
        },
    ),
    Way(
        "MCP tool",
        "mcp",
        _HERE,
        by_mcp,
        {"record": "`set_fact`", "entry": "`remember`", **_blocks("`update_memory_block` with `block: {}`")},
    ),
    Way("ABL SET", "abl", _RECORDS, by_abl_set, {"record": "`SET: user.kite = value`"}),
    Way(
        "ABL SET of fields",
        "abl",
        {"record": ("user",)},
        by_abl_fields,
        {"record": "`SET: user.kite.colour = value`, with a definition or a record `kite`"},
    ),
    Way("ABL remember", "abl", _RECORDS, by_abl_trigger, {"record": "`STORE: value -> user.kite`"}),
    Way(
        "ABL memory.remember",
        "abl",
        {"entry": OF_AN_AGENT},
        by_abl_tool,
        {"entry": "`CALL: memory.remember` with `content` and `collection`"},
    ),
    Way(
        "mashin remember",
        "mashin",
        {"entry": ("user", "shared")},
        by_machine,
        {"entry": '`remember` with `content` and `collection: "kites"`'},
    ),
    Way(
        "workflow action",
        "workflow",
        _MOUNTED,
        by_action,
        {
            "record": "`update_memory` with `memory: {kite: …}`",
            **_blocks("`update_memory` with `memory: {{about: …}}`, of a memory `about` with `block: {}`, `writable`"),
        },
    ),
    Way(
        "workflow tool",
        "workflow",
        _MOUNTED,
        by_workflow_tool,
        {
            "record": "the model's `update_memory`, with the memory bound",
            **_blocks("the same, with a memory bound that has `block: {}`, `writable`"),
        },
    ),
    Way("chat tool", "chat", _BLOCKS, by_chat_tool, _blocks("the model's `update_memory` with `block: {}`")),
    Way("sleep-time job", "sleep", _BLOCKS, by_sleep, _blocks("from what was said in chats")),
    Way(
        "import",
        "python",
        _ALL,
        by_import,
        dict.fromkeys(("record", "entry", "core", "archive"), "`memory.import_file(path)`"),
    ),
)

READERS = (
    Way(
        "Python",
        "python",
        _ALL,
        read_by_python,
        {
            "record": '`ada.value("kite")`',
            "entry": '`ada.recall(query, collection="kites")`',
            **_blocks('`ada.blocks.get("{}")`'),
        },
    ),
    Way(
        "command line",
        "cli",
        _ALL,
        read_by_command,
        {
            "record": "`memoranda facts get kite`",
            "entry": "`memoranda recall QUERY --collection kites`",
            **_blocks("`memoranda blocks show {}`"),
        },
    ),
    Way(
        "REST",
        "rest",
        _OWN,
        read_by_rest,
        {
            "record": '`client.facts.value("kite")`',
            "entry": '`client.collections.recall(query, collection="kites")`',
            "core": '`client.memory.get("core")`',
            "archive": "`client.memory.recall(query)`",
        },
    ),
    Way(
        "MCP",
        "mcp",
        _HERE,
        read_by_mcp,
        {"record": "`get_fact`", "entry": "`recall`", "core": "`get_memory_block`", "archive": "`recall_blocks`"},
    ),
    Way(
        "ABL expression",
        "abl",
        {"record": OF_AN_AGENT, "core": ("user",), "archive": ("user",)},
        read_by_abl_expression,
        {"record": "`user.kite`, `{{user.kite.colour}}`", **_blocks("`user.blocks.{}`")},
    ),
    Way("ABL field", "abl", _RECORDS, read_by_abl_fields, {"record": "`user.kite.colour`, declared by itself"}),
    Way(
        "ABL recall",
        "abl",
        {"record": OF_AN_AGENT, "entry": OF_AN_AGENT},
        read_by_abl_recall,
        {"record": "`PATHS: [user.kite]`", "entry": '`DOMAIN: "kites"`, then `recalled.kites`'},
    ),
    Way(
        "mashin recall",
        "mashin",
        {"entry": ("user", "shared")},
        read_by_machine,
        {"entry": '`recall` with `query` and `collection: "kites"`'},
    ),
    Way(
        "$context.memory",
        "workflow",
        _MOUNTED,
        read_by_context,
        {"record": "`$context.memory.kite`", **_blocks("`$context.memory.about`, of a memory with `block: {}`")},
    ),
    Way(
        "working memory",
        "workflow",
        _MOUNTED,
        read_by_prompt,
        {"record": "`bindings: {memory: [kite]}`", **_blocks("`bindings: {{memory: [about]}}`, with `block: {}`")},
    ),
    Way("user_memory", "python", {"core": OF_A_BLOCK}, read_by_user_memory, {"core": "every prompt of a chat"}),
    Way(
        "reminders",
        "python",
        {"archive": OF_A_BLOCK},
        read_by_reminders,
        {"archive": "a chat, by its message, with `archival_mode: auto`"},
    ),
    Way(
        "export",
        "python",
        _ALL,
        read_by_export,
        dict.fromkeys(("record", "entry", "core", "archive"), "`memory.export(path)`"),
    ),
)

APART: dict[tuple[Kind, Kind], str] = {
    ("record", "entry"): "a record is a value under a name; a collection has texts that are searched",
    ("record", "core"): "a record is a value with a contract; a block is a text that a person can edit",
    ("record", "archive"): "a record is a value with a contract; a block is a text that a person can edit",
    ("entry", "core"): "an entry is found when it is asked for; a core block is always shown",
    ("entry", "archive"): "entries are any number of texts in a collection; an archive is one text of lines",
    ("core", "archive"): "a core block is always shown and never searched; an archive is the other way round",
}
"""Why what is of one kind is not read as another."""


def cases() -> Iterator[tuple[Way, Kind, ScopeName]]:
    """Return everything that can be written, by every way."""
    for writer in WRITERS:
        for kind, scopes in writer.reach.items():
            for scope in scopes:
                yield writer, kind, scope


def readers_of(kind: Kind, scope: ScopeName) -> list[Way]:
    return [reader for reader in READERS if scope in reader.reach.get(kind, ())]


def shared_by(writer: Way, reader: Way) -> list[tuple[Kind, ScopeName]]:
    """Return the places that both can name."""
    return [
        (kind, scope)
        for kind, scopes in writer.reach.items()
        for scope in scopes
        if scope in reader.reach.get(kind, ())
    ]


def why_nothing(writer: Way, reader: Way) -> list[str]:
    """Return why a writer and a reader share no place; raise a KeyError if no reason is recorded."""
    pairs: list[tuple[Kind, Kind]] = [(one, other) for one in writer.reach for other in reader.reach]
    return list(dict.fromkeys(APART.get((one, other)) or APART[other, one] for one, other in pairs))


def _name(place: Place) -> str:
    """Return the name of a memory in a workflow: the slug of a record, or the binding of a block."""
    return place.key if place.kind == "record" else "mounted"


def _mounted(house: House, place: Place) -> str:
    if place.kind != "record":
        agent = f", agent: {DESK.id}" if place.scope == "agent" else ""
        return f"mounted: {{kind: memory, settings: {{block: {place.block}{agent}, writable: true}}}}"
    return f"mounted: {{kind: memory, settings: {{definition_id: {house.definitions[place.scope].id}}}}}"


def _start(agent: Any, place: Place, given: dict[str, Any] | None = None) -> Any:
    return agent.start(**place.ids, vars=given or {})


def _kite_in(said: str) -> Any:
    colour, lines = said.split("|")
    return None if colour == "none" else {"colour": colour, "lines": int(lines)}


def _found(read: Callable[[], Any]) -> Any:
    with contextlib.suppress(memoranda.NotFound):
        return read()


def _first(found: Iterator[Any]) -> Any:
    return next(iter(found), None)


def refused(write: Callable[[], None]) -> bool:
    """Return whether a write was refused with an error of ours."""
    with contextlib.suppress(memoranda.MemorandaError):
        write()
        return False
    return True


def drawn(seen: set[tuple[str, str, str]]) -> list[str]:
    """Return the lines of the matrix of which readers see which writes, from the tests that passed.

    A number says in how many places it was seen to hold; `?` that not all of them were, a letter why there is none.
    """
    letters = {reason: letter for reason, letter in zip(dict.fromkeys(APART.values()), "abcdef", strict=False)}
    rows: list[list[str]] = []
    for writer in WRITERS:
        row = [writer.name]
        for reader in READERS:
            wanted = shared_by(writer, reader)
            held = sum((writer.name, reader.name, f"{kind} of {scope}") in seen for kind, scope in wanted)
            if not wanted:
                row.append("".join(letters[reason] for reason in why_nothing(writer, reader)))
            else:
                row.append(f"{held}" if held == len(wanted) else f"{held}?")
        rows.append(row)
    # The names of readers are in lines above their columns, so that the matrix fits a terminal.
    wide = max(len(row[0]) for row in rows)
    heads = [f"{'':{wide}}  {'│   ' * number}┌ {reader.name}" for number, reader in enumerate(READERS)]
    body = [f"{row[0]:{wide}}  " + "".join(f"{cell:<4}" for cell in row[1:]) for row in rows]
    return [*heads, *body, *(f"{letter}  {reason}" for reason, letter in letters.items())]


# what is learned, and what is found among everything


class Door(NamedTuple):
    """One door: how it learns, recalls over everything, and builds a context for an agent."""

    name: str
    door: str
    """What the ledger calls it."""
    scopes: tuple[ScopeName, ...]
    """The scopes in which it recalls and tells."""
    learn: Callable[[House, str, str, str], None]
    """`learn(house, user, conversation, text)`: learn from one message of a user."""
    recall: Callable[[House, Place, str], str] | None
    """What it recalls of a place for a query, as text; None if it only learns."""
    context: Callable[[House, Place, str], str] | None
    spelling: tuple[str, str, str]
    """How each is written there, for `docs/what-crosses.md`."""


def learn_by_python(house: House, user: str, conversation: str, text: str) -> None:
    house.memory.scope(user=user).learn(text, conversation=conversation)


def learn_by_asyncio(house: House, user: str, conversation: str, text: str) -> None:
    async def learn() -> None:
        await memoranda.AsyncMemory(house.memory).scope(user=user).learn(text, conversation=conversation)

    asyncio.run(learn())


def learn_by_command(house: House, user: str, conversation: str, text: str) -> None:
    file = house.folder / f"{house.fresh()}.jsonl"
    file.write_text(json.dumps({"role": "user", "content": text}), encoding="utf-8")
    house.cli("learn", str(file), "--conversation", conversation, "--user", user)


def learn_by_client(house: House, user: str, conversation: str, text: str) -> None:
    house.client(user).learn([{"role": "user", "content": text}], conversation=conversation)


def learn_by_mcp(house: House, user: str, conversation: str, text: str) -> None:
    assert house.mcp is not None
    house.mcp(user).call("learn", messages=[{"role": "user", "content": text}], conversation=conversation)


def learn_by_sleep(house: House, user: str, conversation: str, text: str) -> None:
    say_in_chat(house, user, conversation, text)
    run_sleep_time(house.memory, conversation, user=user)


def _contents(matches: Iterable[Any]) -> str:
    return "\n".join(str(one["content"] if isinstance(one, dict) else one.content) for one in matches)


def recall_by_asyncio(house: House, place: Place, query: str) -> str:
    return _contents(asyncio.run(memoranda.AsyncMemory(house.memory).scope(**place.ids).recall(query, limit=20)))


def context_by_asyncio(house: House, place: Place, query: str) -> str:
    return asyncio.run(memoranda.AsyncMemory(house.memory).scope(**place.ids).context(query)).text


def recall_by_command(house: House, place: Place, query: str) -> str:
    return _contents(house.cli("recall", query, "--limit", "20", *place.flags)["results"])


def recall_by_mcp(house: House, place: Place, query: str) -> str:
    assert house.mcp is not None
    return _contents(house.mcp(place.name).call("recall", query=query, limit=20, scope=place.scope)["results"])


def context_by_mcp(house: House, place: Place, query: str) -> str:
    assert house.mcp is not None
    return house.mcp(place.name).call("context", query=query)["text"]


DOORS = (
    Door(
        "Python",
        "python",
        EVERYWHERE,
        learn_by_python,
        lambda house, place, query: _contents(house.at(place).recall(query, limit=20)),
        lambda house, place, query: house.at(place).context(query).text,
        ("`ada.learn(messages)`", "`ada.recall(query)`", "`ada.context(query)`"),
    ),
    Door(
        "asyncio",
        "python",
        EVERYWHERE,
        learn_by_asyncio,
        recall_by_asyncio,
        context_by_asyncio,
        ("`await ada.learn(messages)`", "`await ada.recall(query)`", "`await ada.context(query)`"),
    ),
    Door(
        "command line",
        "cli",
        EVERYWHERE,
        learn_by_command,
        recall_by_command,
        lambda house, place, query: house.cli("context", query, *place.flags)["text"],
        ("`memoranda learn FILE`", "`memoranda recall QUERY`", "`memoranda context QUERY`"),
    ),
    Door(
        "REST client",
        "rest",
        OF_A_USER,
        learn_by_client,
        lambda house, place, query: _contents(
            house.client(place.name).collections.recall(query, limit=20, scope=place.below).results
        ),
        lambda house, place, query: house.client(place.name).context(query, scope=place.below).text,
        ("`client.learn(messages)`", "`client.collections.recall(query)`", "`client.context(query)`"),
    ),
    Door(
        "MCP tool",
        "mcp",
        OF_A_BLOCK,
        learn_by_mcp,
        recall_by_mcp,
        context_by_mcp,
        ("`learn`", "`recall` without a collection", "`context`"),
    ),
    Door("sleep-time job", "sleep", (), learn_by_sleep, None, None, ("from what was said in chats", "–", "–")),
)
SIGNS: dict[Kind, str] = {
    "record": "red",
    "entry": GOOD["entry"],
    "core": "Prefers red kites",
    "archive": "Favourite kite: Ruby",
}
"""What a text contains if it has what is good of a kind."""


def doors_that_find(house: House, place: Place, query: str, sign: str) -> dict[str, bool]:
    """Return which of the doors that can name a scope find something there, by recall and in a context."""
    found: dict[str, bool] = {}
    for door in DOORS:
        for name, look in (("recall", door.recall), ("context", door.context)):
            if look is not None and place.scope in door.scopes:
                found[f"{door.name}: {name}"] = sign in look(house, place, query)
    return found


# conversations


TalkKind = Literal["conversation", "thread", "session"]


class Talk(NamedTuple):
    """One way to send a message in a conversation, or to read its messages."""

    name: str
    kind: TalkKind
    go: Callable[..., Any]
    spelling: str


def say_in_chat(house: House, user: str, id: str, text: str) -> None:
    chat(house.memory, DESK, text, user=user, conversation_id=id, message_id="m1", model=Scripted("Noted."))


def say_in_thread(house: House, user: str, id: str, text: str) -> None:
    add_message(house.memory, open_thread(house.memory, owner=user, id=id), text, sender=user, by_owner=True)


def say_by_workflow(house: House, user: str, id: str, text: str) -> None:
    flow = house.workflow("""
    defs:
      say: {kind: task, action: send_text_message, inputs: {text: "=$input.words"}}
    flow:
      - do: say
    """)
    flow.run({"words": text}, owner=user, thread=id).check()


def say_in_session(house: House, user: str, id: str, text: str) -> None:
    _listener(house).start(user=user, id=id).say(text)


def read_as(kind: Literal["chat", "workflow"]) -> Callable[[House, str, str], list[str]]:
    def read(house: House, user: str, id: str) -> list[str]:
        found = _found(lambda: read_conversation(house.memory, user, id, kind=kind))
        return [part.text for part in found.parts] if found else []

    return read


def read_by_client_as(kind: Literal["chat", "workflow"]) -> Callable[[House, str, str], list[str]]:
    def read(house: House, user: str, id: str) -> list[str]:
        found = _found(lambda: house.client(user).conversations.get(id, kind=kind))
        return [part.text for part in found.parts] if found else []

    return read


def hear_in_chat(house: House, user: str, id: str) -> list[str]:
    return [said.text for said in preview(house.memory, DESK, "And?", user=user, conversation_id=id).messages]


def read_thread(house: House, user: str, id: str) -> list[str]:
    return [one.text for one in messages(house.memory, open_thread(house.memory, owner=user, id=id), 10)]


def hear_in_workflow(house: House, user: str, id: str) -> list[str]:
    model = Scripted("Yes.")
    flow = house.workflow(
        """
        defs:
          primary: {kind: model, settings: {provider: openai}}
          answer:
            kind: task
            action: ai_generate_reply
            inputs: {input_mode: history}
            bindings: {model: primary}
        flow:
          - do: answer
        """,
        model=model,
    )
    flow.run(owner=user, thread=id)
    return [said.text for ask in model.asked for said in ask.messages]


def read_session(house: House, user: str, id: str) -> list[str]:
    session = _found(lambda: memoranda.abl.resume(house.memory, id, agent=_listener(house)))
    return [turn.input for turn in session.turns() if turn.input] if session else []


def hear_in_session(house: House, user: str, id: str) -> list[str]:
    session = _found(lambda: memoranda.abl.resume(house.memory, id, agent=_listener(house)))
    return session.say("And?").messages if session else []


def _listener(house: House) -> Any:
    return house.agent("""
    AGENT: Listener
    GOAL: "Listen"
    FLOW:
      hear:
        REASONING: false
        RESPOND: "{{last_input}}"
        THEN: hear
    """)


SPEAKERS = (
    Talk("chat", "conversation", say_in_chat, "`chat(memory, agent, text, user=…, conversation_id=…, message_id=…)`"),
    Talk("Python", "thread", say_in_thread, "`add_message(memory, thread, text, …)`"),
    Talk("workflow", "thread", say_by_workflow, "`send_text_message`, in a run with `thread=…`"),
    Talk("ABL", "session", say_in_session, "`session.say(text)`"),
)
LISTENERS = (
    Talk("Python", "conversation", read_as("chat"), '`read_conversation(memory, user, id, kind="chat")`'),
    Talk("REST", "conversation", read_by_client_as("chat"), '`client.conversations.get(id, kind="chat")`'),
    Talk("chat", "conversation", hear_in_chat, "the next message with the same `conversation_id`"),
    Talk("Python", "thread", read_thread, "`messages(memory, thread, limit)`"),
    Talk("Python", "thread", read_as("workflow"), '`read_conversation(memory, user, id, kind="workflow")`'),
    Talk("REST", "thread", read_by_client_as("workflow"), '`client.conversations.get(id, kind="workflow")`'),
    Talk("workflow", "thread", hear_in_workflow, "`input_mode: history`, in a run with `thread=…`"),
    Talk("Python", "session", read_session, "`session.turns()`"),
    Talk("ABL", "session", hear_in_session, "`memoranda.abl.resume(memory, id)`, then `last_input`"),
)
TALKS_APART: dict[tuple[TalkKind, TalkKind], str] = {
    ("conversation", "thread"): "a chat belongs to one agent and has its tool calls and summaries; a thread has what "
    "several workflows and their owner said",
    ("conversation", "session"): "a session is the state of an agent's flow after each turn; a chat has no flow",
    ("thread", "session"): "a session is the state of an agent's flow after each turn; a thread has no flow",
}
"""Why what was said in one kind of conversation is not read as another."""


# the tables of the documentation


_TITLES: dict[Kind, str] = {"record": "record", "entry": "entry", "core": "core block", "archive": "archival block"}
_LETTERS: dict[Kind, str] = {"record": "R", "entry": "E", "core": "C", "archive": "A"}


def page_tables() -> dict[str, list[str]]:
    """Return the tables of `docs/what-crosses.md` by the names of their markers, line by line."""
    letters = {reason: letter for reason, letter in zip(dict.fromkeys(APART.values()), "abcdef", strict=False)}
    crossings = [(writer.name, *(_crossing(writer, reader, letters) for reader in READERS)) for writer in WRITERS]
    talks = [
        (kind, *(", ".join(f"{one.name}: {one.spelling}" for one in ways if one.kind == kind) for ways in TALKS))
        for kind in ("conversation", "thread", "session")
    ]
    return {
        "writers": _table(("writer", *_TITLES.values(), "scopes"), map(_spelled, WRITERS)),
        "readers": _table(("reader", *_TITLES.values(), "scopes"), map(_spelled, READERS)),
        "crossings": _table(("", *(reader.name for reader in READERS)), crossings),
        "learned": _table(("door", "learn", "recall", "context"), [(one.name, *one.spelling) for one in DOORS]),
        "apart": _table(("", "why"), [(letter, reason) for reason, letter in letters.items()]),
        "conversations": _table(("what", "said by", "read by"), talks),
        "conversations apart": _table(
            ("", "", "why"), [(one, other, reason) for (one, other), reason in TALKS_APART.items()]
        ),
    }


TALKS = (SPEAKERS, LISTENERS)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = ["".join(("|", *(f" {cell} |" if cell else " |" for cell in row))) for row in (head, *rows)]
    return [lines[0], "|---" * len(head) + "|", *lines[1:]]


def _spelled(way: Way) -> tuple[str, ...]:
    kinds: dict[tuple[ScopeName, ...], list[str]] = {}
    for kind, scopes in way.reach.items():
        kinds.setdefault(scopes, []).append(_TITLES[kind])
    named = {scopes: "all" if scopes == EVERYWHERE else ", ".join(scopes) for scopes in kinds}
    scopes = [named[one] if len(kinds) == 1 else f"{', '.join(kinds[one])}: {named[one]}" for one in kinds]
    return (way.name, *(way.spelling.get(kind, "–") for kind in _TITLES), "; ".join(scopes))


def _crossing(writer: Way, reader: Way, letters: dict[str, str]) -> str:
    kinds = dict.fromkeys(kind for kind, _ in shared_by(writer, reader))
    if kinds:
        return " ".join(_LETTERS[cast("Kind", kind)] for kind in kinds)
    return " ".join(letters[reason] for reason in why_nothing(writer, reader))
