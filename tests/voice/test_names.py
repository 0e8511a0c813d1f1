"""Names, defaults and units agree between Python, asyncio, the client, REST and the command line.

The table "What is passed" of `docs/glossary.md` is the only source: what a thing is called at each door, its unit, and
its default. Every parameter, field, header and flag that a caller can pass is a row of it, or
is `PARTICULAR` to its door with the reason; whatever is new fails here until it has its place. `CALLS` says which calls
are the same call at several doors: what one takes the others take, with the same default, or `APART` says why not.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from typer.main import get_command

import memoranda
from memoranda import mashin
from memoranda.api.aio import AsyncHandle
from memoranda.cli.app import app
from memoranda.mashin import keywords
from memoranda.model.block import MOST_MATCHES
from memoranda.model.clock import parse_duration
from memoranda.model.limits import Limits
from memoranda.server.requests import LARGEST_PAGE
from memoranda.server.settings import Settings

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs/glossary.md"
DOORS = ("Python", "client", "REST", "command line")
LANGUAGES = ("abl", "mashin", "workflow", "chat", "sleep")
REQUIRED = "required"
OTHER = "…"
"""A default that is not a plain value: a sentinel, a function, a set of choices."""


class Parameter(NamedTuple):
    """What holds unless said, and the type as it is written at its door."""

    default: Any
    kind: str


Calls = dict[str, dict[str, Parameter]]


# what can be passed at each door


def _signature(call: Any) -> dict[str, Parameter]:
    found: dict[str, Parameter] = {}
    for one in inspect.signature(call).parameters.values():
        if one.name not in ("self", "cls"):
            several = one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
            default = OTHER if several else REQUIRED if one.default is one.empty else one.default
            found[one.name] = Parameter(default, str(one.annotation))
    return found


def _methods(place: str, kind: type) -> Iterator[tuple[str, dict[str, Parameter]]]:
    ours = [vars(one) for one in reversed(kind.__mro__) if one.__module__.startswith("memoranda.")]
    for name, member in {name: member for members in ours for name, member in members.items()}.items():
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, classmethod | staticmethod)):
            yield f"{place}.{name}", _signature(getattr(kind, name))


def _desks(owner: type, place: str) -> Iterator[tuple[str, type]]:
    """Yield the handles that a handle has as properties, by how they are reached."""
    for name, member in vars(owner).items():
        if isinstance(member, property) and member.fget is not None:
            kind = member.fget.__globals__.get(member.fget.__annotations__.get("return", ""))
            if inspect.isclass(kind) and kind.__module__.startswith("memoranda.api"):
                yield f"{place}.{name}", kind


def _python() -> Calls:
    handles = [("memory", memoranda.Memory), ("scoped", memoranda.ScopedMemory), ("batch", memoranda.Batch)]
    handles += [*_desks(memoranda.Memory, "memory"), *_desks(memoranda.ScopedMemory, "scoped")]
    found: Calls = {"open": _signature(memoranda.open)}
    for place, kind in handles:
        found |= dict(_methods(place, kind))
    for language in LANGUAGES:
        module = importlib.import_module(f"memoranda.{language}")
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing):
                found[f"{language}.{name}"] = _signature(thing)
            elif inspect.isclass(thing) and not issubclass(thing, Exception):
                found |= dict(_methods(f"{language}.{name}", thing))
    return found


def _client() -> Calls:
    found: Calls = {"Client": _signature(memoranda.Client)}
    with memoranda.Client("http://127.0.0.1:1", "mk_none") as client:
        found |= dict(_methods("client", type(client)))
        for name, part in vars(client).items():
            if hasattr(part, "_connection") and not name.startswith("_"):
                found |= dict(_methods(f"client.{name}", type(part)))
    return found


def _rest() -> Calls:
    document = json.loads((ROOT / "docs/openapi.json").read_text(encoding="utf-8"))
    shapes: dict[str, Any] = document["components"]["schemas"]
    found: Calls = {}
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            taken: dict[str, Parameter] = {}
            for named in operation.get("parameters", ()):
                shared = named.get("$ref", "").rpartition("/")[2]
                one = document["components"]["parameters"][shared] if shared else named
                taken[one["name"]] = _field(one["schema"], required=one.get("required", False))
            for content in operation.get("requestBody", {}).get("content", {}).values():
                shape = shapes.get(content["schema"].get("$ref", "").rpartition("/")[2], {})
                for name, field in shape.get("properties", {}).items():
                    taken[name] = _field(field, required=name in shape.get("required", ()))
            found[f"{verb.upper()} {path.removeprefix('/api/v1')}"] = taken
    return found


def _field(schema: dict[str, Any], *, required: bool) -> Parameter:
    kinds = [kind.get("type", "any") for kind in schema.get("oneOf", [schema])]
    return Parameter(REQUIRED if required else schema.get("default"), " ".join(map(str, kinds)))


def _command_line() -> Calls:
    found: Calls = {}

    def walk(command: Any, name: str) -> None:
        if hasattr(command, "list_commands"):
            context = click.Context(command)
            for below in command.list_commands(context):
                walk(command.get_command(context, below), f"{name} {below}".strip())
            return
        found[name] = {}
        for one in command.params:
            flag = one.param_type_name == "option"
            shown = max(one.opts, key=len) if flag else (one.metavar or one.name).strip("[].").upper()
            found[name][shown] = Parameter(REQUIRED if one.required else one.default, str(one.type))

    walk(get_command(app), "")
    return found


@cache
def calls() -> dict[str, Calls]:
    return dict(zip(DOORS, (_python(), _client(), _rest(), _command_line()), strict=True))


# the table


class Row(NamedTuple):
    """A thing that is passed: in which unit, what holds unless said, and its names at each door where it is passed."""

    unit: str
    defaults: frozenset[str]
    names: dict[str, tuple[str, ...]]


@cache
def rows() -> dict[str, Row]:
    _, _, rest = GLOSSARY.read_text(encoding="utf-8").partition("<!-- what is passed -->")
    found: dict[str, Row] = {}
    for line in rest.partition("\n\n")[0].strip().splitlines()[2:]:
        name, _, unit, unless_said, where = (cell.strip() for cell in line.strip("|").split(" | "))
        defaults = frozenset(re.findall(r"`([^`]*)`", unless_said)) | (
            {REQUIRED} if REQUIRED in unless_said else frozenset()
        )
        found[name] = Row(unit, defaults, {door: _names(name, door, where) for door in DOORS if door in where})
    return found


def _names(name: str, door: str, where: str) -> tuple[str, ...]:
    """Return what a thing is called at a door: as in the table, unless the door's own names are in parentheses."""
    own = re.search(rf"{door} \(([^)]*)\)", where)
    if own is not None:
        return tuple(re.findall(r"`([^`]*)`", own[1]))
    return (f"--{name.replace('_', '-')}" if door == "command line" else name,)


def _known(door: str) -> set[str]:
    return {name for row in rows().values() for name in row.names.get(door, ())}


PARTICULAR: dict[str, dict[str, str]] = {
    "Python": {
        **dict.fromkeys(("arguments", "function"), "a tool of a chat agent is a Python function"),
        "assuming": "what a run in a test is given in place of effects; elsewhere it stands in the file",
        "batch": "how many entries are embedded at a time; nobody needs to choose it from afar",
        **dict.fromkeys(
            (
                *("begun", "by", "entry", "given", "inputs", "kit", "setting", "spending"),
                *("stop", "stored", "verified"),
            ),
            "between the runtime and its programs: nobody else has such values",
        ),
        "behaviour": "choices that a language leaves open; a server and the command line take those that ship",
        "below": "a scope as a value; from elsewhere it is that of the token",
        "bindings": "what a decorated action uses",
        "take": "a function that is given the lines of an export",
        "busy_timeout": "opens a file, in seconds; a server has it as a setting",
        "clock": "for tests",
        "context": "values that a program hands to a machine",
        "count_tokens": "a Python function",
        **dict.fromkeys(("credentials", "guards", "servers", "settings"), "objects of the program that loads"),
        "door": "who calls; each door says its own",
        **dict.fromkeys(
            ("cache", "durability", "ledger", "ledger_text", "limits", "pool", "read_from", "statement_timeout"),
            "opens a memory; a server has it as a setting",
        ),
        "effect": "a request as a value, which the doors make",
        "extractor": "a Python function that reads conversations",
        "file": "the name of the text that a program is compiled from, for messages",
        "fragment": "a part of a document, for those who write tools",
        "ids": "the kinds of a scope as keywords, each of which is a row; of `open`, a source of ids for tests",
        "kept_text": "whether the text that a store keeps may run; a server never runs it",
        "known": "statements that an extractor may replace, as values",
        "line": "a line of a block as it is written",
        "memory": "the handle itself; elsewhere it is the address or the file",
        **dict.fromkeys(
            ("before", "max_bytes", "offset"), "how the server makes pages; other doors go on with `after`"
        ),
        "most_attempts": "of the worker that sleeps; a server has it as a setting",
        "observe": "a Python function that is told of each call of a handle",
        "on_event": "a Python function; over HTTP they are events of a stream",
        "owner": "the user of a run, who is elsewhere that of the token or `--user`; of `runs`, a scope as a value",
        "place": "the scoped handle; the client's batch takes `scope`",
        "policy": "a value of Python; elsewhere it follows from the token",
        "progress": "a Python function; the command line draws a bar",
        **dict.fromkeys(("provenance", "refs"), "where values come from, as the programs that make prompts know"),
        "spending": "goes on with a budget as a value",
        "told": "how far that is trusted which a model was told, as the doors to models know",
        "variables": "what an expression sees",
        "worker": "the name of the process in the queue",
    },
    "client": {
        **dict.fromkeys(("api_key", "base_url", "retries", "transport"), "how a server is reached"),
        "ids": "the kinds of a scope as keywords, each of which is a row",
    },
    "REST": {
        "stream": "whether the answer comes as events; the client has `stream` and `chat`",
        "writes": "what the client's batch has collected",
    },
    "command line": {
        **dict.fromkeys(("--json", "--trace", "--why", "--junit", "--out", "--steps"), "what is printed, and where"),
        **dict.fromkeys(("--yes", "--strict"), "what a person at a terminal wants to be asked"),
        **dict.fromkeys(("--all", "--left-out"), "more than is shown unless said"),
        **dict.fromkeys(
            ("--exclusive", "--restart", "SOURCE", "TARGET"),
            "a move is no call of a memory: `memoranda.migrate` takes the same",
        ),
        "--all-tenants": "the ledgers of a whole file",
        "--as-json": "an argument of a shell is text; this reads it as JSON",
        "--format": "what a file holds that its ending does not tell",
        **dict.fromkeys(
            ("--config", "--host", "--port", "--reload", "--sleep", "--workers"),
            "how a server is started: its settings",
        ),
        "--give-up": "`give_up_reembedding` in Python",
        "--refuse": "`refuse` in Python, REST and the client",
        "--replace": "says in one word what others say by reading the block first",
        "--read-only": "what a model may do over MCP",
        "--scrub": "`memory.scrub()` in Python",
        "--finish": "`memory.finish_migration()` in Python",
        "--url": "a server in place of a database, as `base_url` of the client",
        "BUNDLE": "a file",
        "POSITION|RUN": "the events at a position, or of a run",
    },
}
"""Names that exist at one door only, and why."""


@pytest.mark.parametrize("door", DOORS)
def test_whatever_can_be_passed_has_its_place(door: str) -> None:
    passed = {name for taken in calls()[door].values() for name in taken}
    assert len(passed) > 40
    assert passed - _known(door) - set(PARTICULAR[door]) == set(), "put these into the table of docs/glossary.md"
    assert _known(door) - passed == set(), "the table has names that nobody can pass"
    assert set(PARTICULAR[door]) - passed == set(), "no longer passed"
    assert set(PARTICULAR[door]) & _known(door) == set(), "in the table as well"


def test_what_stands_at_two_doors_is_a_row() -> None:
    plain = {door: {name.strip("-").replace("-", "_").lower() for name in PARTICULAR[door]} for door in DOORS}
    assert plain["Python"] & plain["client"] == {"ids"}
    assert [name for name in plain["REST"] if name in plain["Python"] | plain["client"] | plain["command line"]] == []
    assert plain["command line"] & (plain["Python"] | plain["client"]) == set()


def test_the_table_says_what_holds_unless_said() -> None:
    wrong: dict[str, tuple[set[str], set[str]]] = {}
    for name, row in rows().items():
        found: set[str] = set()
        for door, names in row.names.items():
            taken = [ones[own] for ones in calls()[door].values() for own in names if own in ones]
            found |= {one.default if one.default == REQUIRED else repr(one.default) for one in taken if _is_plain(one)}
        if found != row.defaults:
            wrong[name] = (found - row.defaults, set(row.defaults - found))
    assert wrong == {}
    assert rows()["limit"].defaults == {"5", "10", "12", "20", "100", "1000", "None"}


def _is_plain(one: Parameter) -> bool:
    # Several choices that are named one by one are every choice.
    return one.default == () or (one.default != OTHER and isinstance(one.default, str | int | float | bool | None))


UNITS = {
    # unit: what Python and the client write, what REST writes, what the command line reads
    "duration": ("Duration", "string integer", "STRING"),
    "moment": ("datetime | str", "string", "STRING"),
    "count": ("int", "integer", "INT"),
    "version": ("int", "integer", "INT"),
    "position": ("int", "integer", "INT"),
    "characters": ("int", "integer", "INT"),
    "tokens": ("int", "integer", "INT"),
    "score": ("float", "number", "FLOAT"),
    "number": ("float", "number", "FLOAT"),
    "seconds": ("float", "number", "FLOAT"),
    "flag": ("bool", "boolean", "BOOL"),
}
HEADERS = ("If-Match", "If-None-Match")
"""Tags: a version or a stamp in quotes."""


def test_a_unit_is_one_type_at_every_door() -> None:
    wrong: list[str] = []
    for row in rows().values():
        if row.unit not in UNITS:
            continue
        python, rest, flag = UNITS[row.unit]
        for door, names in row.names.items():
            want = {"REST": rest, "command line": flag}.get(door, python)
            for call, taken in calls()[door].items():
                for own in set(names) & set(taken) - set(HEADERS):
                    if not _has(taken[own].kind, want):
                        wrong.append(f"{door} {call} {own}: {taken[own].kind}")
    assert wrong == []
    assert sum(row.unit in UNITS for row in rows().values()) >= 20


def _has(kind: str, want: str) -> bool:
    if want == "INT":
        return kind == "INT" or kind.startswith("<IntRange")
    return all(word in kind for word in ([want] if "|" in want else want.split()))


# the same call at several doors


class Same(NamedTuple):
    """One thing to ask for, as each door calls it; empty where it cannot."""

    python: str
    client: str = ""
    rest: str = ""
    command: str = ""


FACT = "/memory/facts/{key}"
BLOCK = "/memory/blocks/{block_type}"
COLLECTION = "/collections/{collection}"
DEFINITION = "/memory/definitions/{definition}"
CALLS = [
    Same("scoped.set", "client.facts.set", f"PUT {FACT}", "facts set"),
    Same("scoped.get", "client.facts.get", f"GET {FACT}", "facts get"),
    Same("scoped.value", "client.facts.value"),
    Same("scoped.create", "client.facts.create"),
    Same("scoped.update", "client.facts.update"),
    Same("scoped.delete", "client.facts.delete", f"DELETE {FACT}", "facts delete"),
    Same("scoped.list", "client.facts.list", "GET /memory/facts", "facts list"),
    Same("scoped.history", "client.facts.history", f"GET {FACT}/history", "facts history"),
    Same("memory.batch", "client.batch", "POST /memory/facts"),
    Same("scoped.remember", "client.collections.remember", "POST /remember", "remember"),
    Same("scoped.remember_many", "client.collections.remember_many", f"POST {COLLECTION}/entries"),
    Same("scoped.remember_text", "client.collections.remember_text", f"POST {COLLECTION}/texts", "ingest"),
    Same("scoped.recall", "client.collections.recall", "POST /recall", "recall"),
    Same("scoped.entries", "client.collections.entries", f"GET {COLLECTION}/entries", "entries"),
    Same("scoped.entry", "client.collections.entry", "GET /entries/{entry}"),
    Same("scoped.entry_history", "client.collections.entry_history", "GET /entries/{entry}/history"),
    Same("scoped.namespaces", "client.collections.namespaces", "GET /namespaces"),
    Same("scoped.supersede", "client.collections.supersede", "POST /entries/{entry}/supersede", "supersede"),
    Same("scoped.forget", "client.collections.forget", "POST /memory/forget", "forget"),
    Same("scoped.reject", "client.collections.reject", "POST /rejections", "reject"),
    Same("scoped.withdraw", "client.collections.withdraw", "DELETE /rejections/{rejection}", "withdraw"),
    Same("scoped.rejections", "client.collections.rejections", "GET /rejections", "rejections"),
    Same("scoped.lineage", "client.collections.lineage", "GET /memory/lineage", "lineage"),
    Same("scoped.copy", "client.collections.copy", "POST /memory/copy", "copy"),
    Same("scoped.validate", "client.collections.validate", "POST /memory/validate", "validate"),
    Same("scoped.leak_probes", "client.collections.leak_probes", "POST /memory/probe", "probe"),
    Same("scoped.undo", "client.collections.undo", "POST /memory/undo", "undo"),
    Same("memory.scopes", "client.scopes", "GET /scopes"),
    Same("memory.collections.list", "client.collections.list", "GET /collections", "collections list"),
    Same("memory.collections.delete", "client.collections.delete", f"DELETE {COLLECTION}", "collections delete"),
    Same("memory.collections.compare", command="collections compare"),
    Same("memory.collections.reembed", command="collections reembed"),
    Same("scoped.blocks.list", "client.memory.list", "GET /memory/blocks", "blocks list"),
    Same("scoped.blocks.get", "client.memory.get", f"GET {BLOCK}", "blocks show"),
    Same("scoped.blocks.update", "client.memory.update", f"PUT {BLOCK}", "blocks set"),
    Same("scoped.blocks.delete", "client.memory.delete", f"DELETE {BLOCK}", "blocks delete"),
    Same("scoped.blocks.history", "client.memory.history", f"GET {BLOCK}/history", "blocks history"),
    Same("scoped.blocks.undo", "client.memory.undo", f"POST {BLOCK}/undo", "blocks undo"),
    Same("scoped.blocks.recall", "client.memory.recall", "POST /memory/recall", "blocks recall"),
    Same("memory.definitions.create", "client.definitions.create", "POST /memory/definitions", "definitions create"),
    Same("memory.definitions.list", "client.definitions.list", "GET /memory/definitions", "definitions list"),
    Same("memory.definitions.get", "client.definitions.get", f"GET {DEFINITION}", "definitions show"),
    Same("memory.definitions.update", "client.definitions.update", f"PATCH {DEFINITION}", "definitions update"),
    Same("memory.definitions.delete", "client.definitions.delete", f"DELETE {DEFINITION}", "definitions delete"),
    Same(
        "memory.definitions.records", "client.definitions.records", f"GET {DEFINITION}/records", "definitions records"
    ),
    Same("memory.ledger.events", "client.ledger.list", "GET /ledger"),
    Same("memory.ledger.tail", "client.ledger.tail", "GET /ledger/tail", "ledger tail"),
    Same("memory.ledger.verify", "client.ledger.verify", "GET /ledger/verify", "ledger verify"),
    Same("memory.permissions.list", "client.permissions.list", "GET /permissions", "permissions list"),
    Same("memory.permissions.grant", "client.permissions.grant", "POST /permissions", "permissions grant"),
    Same("memory.permissions.revoke", "client.permissions.revoke", "DELETE /permissions/{grant}", "permissions revoke"),
    Same("memory.approvals.list", "client.approvals.list", "GET /approvals", "approvals list"),
    Same("memory.approvals.get", "client.approvals.get", "GET /approvals/{approval}", "approvals show"),
    Same(
        "memory.approvals.approve",
        "client.approvals.approve",
        "POST /approvals/{approval}/approve",
        "approvals approve",
    ),
    Same("memory.approvals.refuse", "client.approvals.refuse", "POST /approvals/{approval}/refuse", "approvals refuse"),
    Same("memory.conflicts", "client.conflicts.list", "GET /conflicts", "conflicts list"),
    Same("memory.resolve", "client.conflicts.resolve", "POST /conflicts/{conflict}", "conflicts resolve"),
    Same("memory.taint", "client.ledger.taint", "POST /taint", "taint"),
    Same("memory.undo", "client.ledger.undo", "POST /taint/undo"),
    Same("memory.ledger.deletions", "client.ledger.deletions", "GET /ledger/deletions", "ledger deletions"),
    Same("memory.ledger.rollbacks", "client.ledger.rollbacks", "GET /ledger/rollbacks", "ledger rollbacks"),
    Same("memory.permissions.epoch", "client.permissions.epoch", "GET /permissions/epoch", "permissions epoch"),
    Same("memory.at_epoch", "client.at_epoch"),
    Same("memory.guard.set", "client.guard.set", "PUT /guard", "guard set"),
    Same("memory.guard.reset", "client.guard.reset", "DELETE /guard", "guard reset"),
    Same("memory.guard.list", "client.guard.list", "GET /guard", "guard list"),
    Same("memory.guard.check", "client.guard.check", "POST /guard/check", "guard check"),
    Same("memory.quarantine.list", "client.quarantine.list", "GET /quarantine", "quarantine list"),
    Same(
        "memory.quarantine.release",
        "client.quarantine.release",
        "POST /quarantine/{held}/release",
        "quarantine release",
    ),
    Same(
        "memory.quarantine.discard",
        "client.quarantine.discard",
        "POST /quarantine/{held}/discard",
        "quarantine discard",
    ),
    Same("memory.runs.list", "client.runs.list", "GET /runs", "runs list"),
    Same("memory.runs.get", "client.runs.get", "GET /runs/{run}", "runs show"),
    Same("memory.runs.events", "client.runs.events", "GET /runs/{run}/events"),
    Same("memory.runs.verify", "client.runs.verify", "GET /runs/{run}/verify"),
    Same("mashin.Run.cancel", "client.runs.cancel", "POST /runs/{run}/cancel", "cancel"),
    Same("mashin.Run.approve", "client.runs.approve", "POST /runs/{run}/approve", "approve"),
    Same("mashin.Run.deliver", "client.runs.deliver", "POST /runs/{run}/deliver", "resume"),
    Same("mashin.Machine.run", "client.machines.run", "POST /machines/{machine}/runs"),
    Same("workflow.Workflow.run", "client.workflows.run", "POST /workflows/{workflow}/runs"),
    Same("abl.Agent.start", "client.agents.start", "POST /agents/{agent}/sessions"),
    Same("abl.Session.say", "client.sessions.say", "POST /sessions/{session}/messages"),
    Same("chat.chat", "client.chat", "POST /agent/{agent}/chat"),
    Same("chat.preview", "client.preview", "POST /agent/{agent}/prompts/preview"),
    Same("chat.read_conversation", "client.conversations.get", "GET /conversations/{conversation}"),
    Same("sleep.sleep_jobs", "client.sleep.list", "GET /sleep/jobs", "sleep list"),
    Same("sleep.undo", "client.sleep.undo", "POST /sleep/jobs/{conversation}/undo", "sleep undo"),
    Same("sleep.forget_conversation", "client.sleep.forget", "POST /sleep/jobs/{conversation}/forget", "sleep forget"),
    Same("memory.export", "client.export", "GET /export", "export"),
    Same("memory.import_file", "client.import_file", "", "import"),
    Same("memory.sweep", "client.sweep", "POST /sweep", "sweep"),
]


def _concepts(door: str, call: str, wanted: set[str]) -> dict[str, Parameter]:
    """Return what a call takes by the names of the table; where a name could be several things, the one wanted."""
    found: dict[str, Parameter] = {}
    for own, one in calls()[door][call].items():
        may_be = [name for name, row in rows().items() if own in row.names.get(door, ())]
        name = next((name for name in may_be if name in wanted), (may_be or [own])[0])
        found.setdefault(name, one)
    return found


HANDLES = frozenset({"run", "machine", "workflow", "session"})
"""What is a handle in Python, and elsewhere named."""
ELSEWHERE: dict[str, frozenset[str]] = {
    "client": frozenset({"scope", "agent", "timeout", "limit"}) | HANDLES,
    "REST": frozenset({"scope", "agent", "limit", "after", "expect", "origin", "epoch"}) | HANDLES,
    "command line": frozenset(
        {"scope", "user", "agent", "project", "tree", "thread", "tenant", "actor", "url", "embedder", "dry_run"}
        | {"origin", "epoch"}
    )
    | HANDLES
    | set(PARTICULAR["command line"]),
}
"""What a door may take besides: in place of a handle, for pages, for a wait, as a tag, to open a memory."""
TOKEN = "the token says who it is"
PAGES = "pages follow each other by themselves"
TERMINAL = "a list in a terminal begins at its beginning"
WHOLE = "as much as fits into a page: before there were pages, it came whole"
OLDEST = "a history is told from its beginning"
BY_ITSELF = "a run on a server has the limits of the server, and is the caller's"
CLASS = {"model": "a class of Python, whose schema is sent"}
WITHOUT_CLASS = CLASS | dict.fromkeys(("name", "slug", "schema"), "required where no class gives them")
APART: dict[tuple[str, str], dict[str, str]] = {
    ("memory.guard.reset", "client"): {"origins": "one kind at a time, or all", "origin": "the kind"},
    ("memory.guard.reset", "REST"): {"origins": "one kind at a time, or all"},
    ("memory.guard.reset", "command line"): {"origins": "all kinds at once"},
    ("scoped.list", "client"): {"after": PAGES},
    ("scoped.list", "command line"): {"after": TERMINAL},
    ("scoped.history", "client"): {"after": PAGES, "newest": OLDEST},
    ("scoped.history", "REST"): {"limit": WHOLE, "newest": OLDEST},
    ("scoped.history", "command line"): {"after": TERMINAL, "limit": TERMINAL, "newest": OLDEST},
    ("scoped.blocks.history", "client"): {"after": PAGES, "newest": OLDEST},
    ("scoped.blocks.history", "REST"): {"limit": WHOLE, "newest": OLDEST},
    ("scoped.blocks.history", "command line"): {"after": TERMINAL, "limit": TERMINAL, "newest": OLDEST},
    ("memory.definitions.records", "client"): {"after": PAGES},
    ("memory.definitions.records", "command line"): {"after": TERMINAL},
    ("memory.approvals.list", "client"): {"after": PAGES},
    ("memory.approvals.list", "command line"): {"after": TERMINAL, "limit": TERMINAL},
    ("memory.runs.events", "client"): {"after": PAGES},
    ("memory.runs.events", "REST"): {"limit": WHOLE},
    ("scoped.entries", "client"): {"after": PAGES},
    ("memory.runs.list", "client"): {"after": PAGES},
    ("memory.runs.list", "command line"): {
        "after": TERMINAL,
        "limit": "runs only grow in number: a screen of them is shown",
    },
    ("memory.batch", "REST"): {"writes": "what the client's batch has collected"},
    ("scoped.recall", "command line"): dict.fromkeys(("collections", "scopes"), "a person names one, or none"),
    ("scoped.remember_many", "REST"): {"collection": "stands in the address"},
    ("scoped.remember_text", "REST"): {"collection": "stands in the address"},
    ("scoped.remember_text", "command line"): {
        "text": "comes from files",
        "source": "is the name of the file",
        "derived_from": "of all that is in the files, as `remember_many` takes it",
    },
    ("scoped.remember", "REST"): {
        "replaces": "POST /entries/{entry}/supersede, which needs no collection",
        "collection": "stands in the address",
    },
    ("scoped.entries", "REST"): {
        "collection": "stands in the address; GET /entries lists all",
        "key": "an entry by its key is a list of one",
    },
    ("scoped.entry", "REST"): {
        "ref": "stands in the address",
        "id": "is the address",
        **dict.fromkeys(("collection", "key", "namespace"), "GET /collections/{collection}/entries?key=… finds it"),
    },
    ("scoped.entry_history", "REST"): {"ref": "stands in the address", "id": "is the address"},
    ("scoped.supersede", "REST"): {
        "ref": "stands in the address",
        "id": "is the address",
        "content": "has no default: there is no other way to say it",
        **dict.fromkeys(("about", "collection"), "POST /memory/supersede"),
    },
    ("scoped.supersede", "command line"): {"ref": "comes first, and with --about it is the content"},
    ("memory.scopes", "client"): {"after": PAGES},
    ("memory.collections.reembed", "command line"): {"embedder": "is not needed to give up"},
    ("scoped.blocks.update", "REST"): {"expected_updated_at": "may be a tag in If-Match or If-None-Match instead"},
    ("scoped.blocks.undo", "REST"): {"expected_updated_at": "may be a tag in If-Match instead"},
    ("scoped.blocks.update", "command line"): {"expected_updated_at": "without it the block must not exist"},
    ("scoped.blocks.undo", "command line"): {"expected_updated_at": "a person undoes what is there"},
    ("memory.definitions.create", "REST"): WITHOUT_CLASS,
    ("memory.definitions.create", "command line"): WITHOUT_CLASS,
    ("memory.definitions.update", "REST"): {**CLASS, "clear_ttl": 'is `"ttl": null` in JSON'},
    ("memory.definitions.update", "command line"): CLASS,
    ("memory.definitions.delete", "client"): {"definition": "one address, one definition"},
    ("memory.definitions.delete", "REST"): {"definition": "one address, one definition"},
    ("memory.definitions.delete", "command line"): {"definition": "one is asked about at a time"},
    ("mashin.Run.approve", "client"): {"step": "which of several waits, where a handle knows"},
    ("mashin.Run.approve", "REST"): {"step": "which of several waits, where a handle knows"},
    ("mashin.Run.approve", "command line"): {
        "step": "which of several waits, where a handle knows",
        **dict.fromkeys(("machines", "model"), "what the run goes on with"),
    },
    ("mashin.Run.deliver", "command line"): {
        "message": "a text as payload, without quotes",
        **dict.fromkeys(("machines", "model", "tools", "workflows"), "what the run goes on with"),
    },
    ("mashin.Machine.run", "client"): {"user": TOKEN, "scope": TOKEN, "budget": BY_ITSELF},
    ("mashin.Machine.run", "REST"): {
        "user": TOKEN,
        "budget": BY_ITSELF,
        "scope": TOKEN,
        "thread": "one body for both languages; it is for workflows",
    },
    ("workflow.Workflow.run", "REST"): {"mode": "one body for both languages; it is for machines"},
    ("abl.Agent.start", "client"): {"user": TOKEN, "id": "the server gives it", "tree": "the server gives it"},
    ("abl.Agent.start", "REST"): {"user": TOKEN, "id": "the server gives it", "tree": "the server gives it"},
    ("chat.chat", "client"): {
        "user": TOKEN,
        "after": "a stream that broke off goes on by itself",
        **dict.fromkeys(("max_tokens", "temperature"), "in Python they are the agent's, which one makes oneself"),
    },
    ("chat.chat", "REST"): {
        "user": TOKEN,
        **dict.fromkeys(("conversation", "message_id"), "a request that is sent again has to say which it is"),
        "stream": "whether the answer comes as events",
        **dict.fromkeys(("max_tokens", "temperature"), "in Python they are the agent's, which one makes oneself"),
    },
    ("chat.preview", "client"): {"user": TOKEN},
    ("chat.preview", "REST"): {"user": TOKEN},
    ("chat.read_conversation", "client"): {"user": TOKEN},
    ("chat.read_conversation", "REST"): {"user": TOKEN},
    ("sleep.sleep_jobs", "client"): {"everybody": "without a user it is the caller, in Python everybody"},
    ("sleep.sleep_jobs", "REST"): {"everybody": "without a user it is the caller, in Python everybody"},
    **{
        (call, door): {"user": "without it, the caller"}
        for call in ("sleep.undo", "sleep.forget_conversation")
        for door in ("client", "REST")
    },
    ("memory.export", "REST"): {"path": "the answer is the file", "scope": "an empty one is none"},
}
"""What a call at one door lacks, has besides, or takes otherwise than Python, and why."""
DOOR_OF = {"client": "client", "rest": "REST", "command": "command line"}
PAIRS = [
    (same.python, DOOR_OF[field], call)
    for same in CALLS
    for field, call in same._asdict().items()
    if field != "python" and call
]


@pytest.mark.parametrize(("python", "door", "call"), PAIRS, ids=[f"{door}: {call}" for _, door, call in PAIRS])
def test_the_same_call_takes_the_same_at_every_door(python: str, door: str, call: str) -> None:
    wanted = {name: one for name, one in _concepts("Python", python, set()).items() if name not in PARTICULAR["Python"]}
    taken = _concepts(door, call, set(wanted))
    apart = APART.get((python, door), {})
    different = {name for name in set(wanted) & set(taken) if not _alike(name, door, wanted[name], taken[name])}
    lacking = set(wanted) - set(taken)
    besides = set(taken) - set(wanted) - ELSEWHERE[door]
    assert different | lacking | besides == set(apart), {"different": different, "lacks": lacking, "has": besides}


def _alike(name: str, door: str, one: Parameter, other: Parameter) -> bool:
    first, second = one.default, other.default
    if isinstance(first, int) and isinstance(second, str) and "Duration" in one.kind:
        second = parse_duration(second)
    if door == "REST" and name in ("limit", "after") and first in (None, "", 0):
        # A list comes in pages: a hundred, from the beginning on.
        return second in (None, first, 100)
    # A sentinel says that nothing was passed, and the command line has no empty list.
    return first == second or (first == () and second is None) or not (_is_plain(one) or _is_plain(other))


def test_nothing_is_apart_that_is_no_call() -> None:
    pairs = {(python, door) for python, door, _ in PAIRS}
    assert set(APART) <= pairs
    assert {same.python for same in CALLS} <= set(calls()["Python"])


def test_asyncio_takes_what_python_takes() -> None:
    with memoranda.open(":memory:") as memory:
        compared = 0
        ada = memory.scope(user="ada")
        for handle in (memory, ada, memory.batch(), ada.blocks, memory.definitions, memory.ledger, memory.runs):
            for name in dir(handle):
                if not name.startswith("_") and inspect.ismethod(getattr(handle, name)):
                    wrapped = getattr(AsyncHandle(handle), name)
                    assert inspect.signature(wrapped) == inspect.signature(getattr(handle, name))
                    compared += 1
    assert compared > 50


def test_the_client_of_asyncio_takes_what_the_other_takes() -> None:
    from memoranda.client.aio.client import AsyncClient
    from memoranda.client.sync.client import Client

    plain = {name: _signature(member) for name, member in vars(Client).items() if inspect.isfunction(member)}
    awaited = {name: _signature(member) for name, member in vars(AsyncClient).items() if inspect.isfunction(member)}
    for name in ("chat", "stream", "preview", "erase", "export", "import_file", "batch"):
        assert {one: said.default for one, said in plain[name].items()} == {
            one: said.default for one, said in awaited[name].items()
        }


def test_machines_remember_and_recall_in_the_words_of_python() -> None:
    python = calls()["Python"]
    # In Python the handle has the scope.
    assert set(keywords.REMEMBER.names) - {"scope"} <= set(python["scoped.remember"])
    assert set(keywords.RECALL.names) - {"scope"} <= set(python["scoped.recall"])
    assert {"limit", "threshold", "namespace", "filter"} <= set(keywords.RECALL.names)
    assert set(python["mashin.Machine.run"]) >= {"input", "mode", "budget"} and mashin.Budget(tokens=1).tokens == 1


def test_a_server_opens_what_python_opens_unless_said() -> None:
    python = {name: one.default for name, one in calls()["Python"]["open"].items()}
    served = {name: one.default for name, one in Settings.__dataclass_fields__.items()}
    assert served["db"] == python["url"]
    for name in ("embedder", "durability", "ledger", "busy_timeout", "read_from"):
        assert served[name] == python[name]
    client = calls()["client"]["Client"]["base_url"].default
    assert client == f"http://{served['host']}:{served['port']}"
    assert {served["sleep_delay"]} == {
        calls()["Python"][call]["delay"].default for call in ("sleep.settle", "sleep.run_due")
    }
    assert parse_duration(calls()["command line"]["sleep run"]["--delay"].default) == served["sleep_delay"]


def test_the_largest_limits_are_those_of_the_glossary() -> None:
    assert (Limits().recall, MOST_MATCHES, LARGEST_PAGE) == (1_000, 100, 1_000)
    said = " ".join(GLOSSARY.read_text(encoding="utf-8").split())
    assert "of a recall goes up to 1,000, of lines of a block up to 100, of a page in REST up to 1,000" in said
    with memoranda.open(":memory:", embedder="hashing:8") as memory:
        ada = memory.scope(user="ada")
        ada.remember("The tuner comes in May", collection="notes")
        assert ada.recall("tuner", collection="notes", limit=1_000).count == 1
        assert ada.blocks.recall("tuner", limit=100) == []
        for asked in (
            lambda: ada.recall("tuner", collection="notes", limit=1_001),
            lambda: ada.blocks.recall("tuner", limit=101),
        ):
            with pytest.raises(memoranda.MemorandaError, match="above the maximum"):
                asked()


# the words of the glossary


def _terms() -> list[str]:
    """Return every word that the glossary explains, without what it is a word of."""
    text, _, _ = GLOSSARY.read_text(encoding="utf-8").partition("## Words that are left out")
    head, _, rest = text.partition("<!-- what is passed -->")
    _, _, tail = rest.partition("\n\n")
    cells = re.findall(r"^\| ([^|]+?) \| ", head + tail, re.MULTILINE)
    terms = (
        re.sub(r"\(.*?\)", "", part).strip() for cell in cells for part in re.sub(r"\(.*?\)", "", cell).split(", ")
    )
    return [term for term in terms if term and term != "name"]


@cache
def _written() -> str:
    """Return what the pages and the code say, but for the glossary itself."""
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page != GLOSSARY]
    code = (ROOT / "src").rglob("*.py")
    return "\n".join(path.read_text(encoding="utf-8") for path in (*pages, *code))


def test_every_word_of_the_glossary_is_used_as_it_is_written() -> None:
    terms = _terms()
    assert len(terms) > 150
    said = _written().casefold()
    assert [term for term in terms if not re.search(rf"\b{re.escape(term.casefold())}", said)] == []
    assert re.search(r"\bcompare-and-set", said) and not re.search(r"\bcompare-and-swap", said)


def _left_out() -> list[str]:
    _, _, rest = GLOSSARY.read_text(encoding="utf-8").partition("<!-- left out -->")
    cells = re.findall(r"^\| ([^|]+?) \| ", rest, re.MULTILINE)[1:]
    return [word.casefold() for cell in cells for word in cell.split(", ")]


THEIR_WORDS = ("comparison.md", "glossary.md", "benchmarks", "decisions")
"""Pages about other products, which are described in their own words, and about why a word was chosen."""


def _pages() -> Iterator[tuple[str, str]]:
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        if not set(THEIR_WORDS) & set(page.relative_to(ROOT).parts):
            prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
            yield str(page.relative_to(ROOT)), prose


def _help() -> Iterator[tuple[str, str]]:
    def walk(command: Any, name: str) -> Iterator[tuple[str, str]]:
        yield name, " ".join([command.help or "", *(str(getattr(one, "help", "")) for one in command.params)])
        if hasattr(command, "list_commands"):
            context = click.Context(command)
            for below in command.list_commands(context):
                yield from walk(command.get_command(context, below), f"{name} {below}")

    yield from walk(get_command(app), "memoranda")


def _found(text: str, words: list[str]) -> set[str]:
    one_of_them = re.compile(rf"\b({'|'.join(map(re.escape, words))})s?\b")
    return {found[1] for found in one_of_them.finditer(" ".join(text.split()).casefold())}


def test_other_words_for_the_same_stand_neither_on_pages_nor_in_help() -> None:
    words = _left_out()
    assert {"purge", "audit log", "similarity"} <= set(words) and len(words) > 30
    places = [*_pages(), *_help()]
    assert len(places) > 80
    assert {place: found for place, text in places if (found := _found(text, words))} == {}
    assert _found("We wipe the\naudit log.", words) == {"wipe", "audit log"}
