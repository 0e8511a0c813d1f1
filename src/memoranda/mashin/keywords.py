"""The keywords of mashin: a table for each place, a row for each word.

The parser, the checker, the test of the documentation and "did you mean" all use these rows. A word that is not acted
on belongs to a part of the language that does not run here: it is read, and a note says so.
"""

from __future__ import annotations

from memoranda.lang.grammar import Keyword, Level, levels_in

SECTIONS = Level.of(
    "machine",
    "in a machine",
    Keyword("has", "what the machine is made of", acted_on=False),
    Keyword("uses", "what the machine takes from elsewhere", acted_on=False),
    Keyword("accepts", "the fields of its input"),
    Keyword("responds with", "the fields of its output"),
    Keyword("provides", "an older spelling of accepts and responds with", acted_on=False),
    Keyword("achieves", "what it is for, in words"),
    Keyword("ensures", "what it may do, what it needs, and the guards around its steps"),
    Keyword("stores", "resources of its own", acted_on=False),
    Keyword("records", "what its ledger keeps", acted_on=False),
    Keyword("expresses", "the surfaces it shows", acted_on=False),
    Keyword("implements", "its steps"),
    Keyword("verifies", "its tests"),
)
"""The sections of a machine, in the order in which the formatter writes them."""

ENSURES = Level.of(
    "ensures",
    "in `ensures`",
    Keyword("permissions", "a block of permissions"),
    Keyword("allowed to", "capabilities that the machine has"),
    Keyword("not allowed to", "capabilities that it does not have, whatever else is said"),
    Keyword("requires approval for", "capabilities that a person has to approve each time"),
    Keyword("authority", "what authority it requires and delegates", acted_on=False),
    Keyword("guards", "named rules for the data of its steps"),
    Keyword("needs", "what has to be there before it can run"),
)

PERMISSIONS = Level(
    "permissions",
    "in `permissions`",
    tuple(keyword for keyword in ENSURES.keywords if keyword.name not in ("permissions", "guards", "needs")),
)

AUTHORITY = Level(
    "authority",
    "in `authority`",
    (Keyword("requires", "the authority that its caller needs"), Keyword("delegates", "the authority it passes on")),
)

GUARD = Level.of("guard", "in a guard", Keyword("on_violation", "what happens when the rule is broken"))

GUARDS = Level.of(
    "guards",
    "in `guards`",
    Keyword("no_secrets", "no keys, tokens or passwords"),
    Keyword("no_personal_data", "no e-mail addresses, telephone, account or card numbers"),
    Keyword("no_empty", "no empty data"),
    Keyword("no_instructions", "no text that seems to give orders to a model"),
)
"""The built-in guards; others are passed to `load`."""

ON_VIOLATION = Level.of(
    "on_violation",
    "as `on_violation`",
    Keyword("block", "the step fails; what came back is withheld"),
    Keyword("redact", "what was found is replaced; a guard that cannot say where it is blocks"),
    Keyword("warn", "it is noted, and the run goes on"),
)
"""What happens when a guard finds something; the default is `block`."""

STEPS = Level.of(
    "implements",
    "in `implements`",
    Keyword("compute", "a value by an expression"),
    Keyword("ask", "a model or another machine"),
    Keyword("decide", "one of several branches"),
    Keyword("remember", "content into a collection"),
    Keyword("recall", "entries of a collection by meaning"),
    Keyword("wait for", "an event from outside"),
    Keyword("retry", "steps again when they fail"),
    Keyword("run", "a flow, and come back"),
    Keyword("goto", "a flow, and do not come back"),
    Keyword("flows", "a block of flows"),
    Keyword("flow", "steps under a name"),
    Keyword("on failure", "steps that run when one before them failed"),
)

DECIDE = Level.of(
    "decide",
    "in `decide`",
    Keyword("when", "a branch and its condition", aliases=("if", "else if")),
    Keyword("otherwise", "the branch when no condition holds", aliases=("else",)),
)

ASK = Level.of(
    "ask",
    "in `ask`",
    Keyword("using", "the model, as `provider:model`"),
    Keyword("from", "the machine that is called"),
    Keyword("of", "the machine that is called, another spelling"),
    Keyword("to", "what the machine is to do"),
    Keyword("with role", "who the model is to be"),
    Keyword("with task", "what it is to do"),
    Keyword("with memory", "what is remembered that it is told, by a query or by its task"),
    Keyword("with tools", "the tools it may use"),
    Keyword("with temperature", "how freely it answers"),
    Keyword("with max_tokens", "how long its answer may be"),
    Keyword("returns", "the fields of its answer"),
    Keyword("assuming", "its answer in tests"),
    Keyword("retry", "how often it is asked again"),
)

REMEMBER = Level.of(
    "remember",
    "in `remember`",
    Keyword("content", "what is remembered, text or data", required=True),
    Keyword("collection", "where it is kept", required=True),
    Keyword("metadata", "a map that `filter` can ask for"),
    Keyword("namespace", "a part of the collection"),
    Keyword("scope", "`shared` or a project, instead of the memory of the run"),
    Keyword("ttl", "how long it is kept, such as `30d`"),
    Keyword("chunk", "store a long text in parts: true, or the most characters of a part"),
)

RECALL = Level.of(
    "recall",
    "in `recall`",
    Keyword("query", "what is looked for", required=True),
    Keyword("collection", "where it is looked for", required=True),
    Keyword("limit", "the maximum number of results"),
    Keyword("threshold", "the lowest score of a result, from 0 to 1"),
    Keyword("filter", "a map that the metadata has to match"),
    Keyword("namespace", "the part that is searched"),
    Keyword("scope", "`shared` or a project, instead of the memory of the run"),
)

WAIT_FOR = Level.of(
    "wait for",
    "in `wait for`",
    Keyword("event", "the name of the event"),
    Keyword("callback", "whether it waits for a callback"),
    Keyword("timeout", "the maximum waiting time, such as `24h`"),
    Keyword("on_timeout", "the flow that runs after a timeout"),
    Keyword("channel", "where the event comes from"),
    Keyword("schema", "the fields that the event has"),
)

RETRY = Level.of(
    "retry",
    "in `retry`",
    Keyword("max", "the maximum number of attempts"),
    Keyword("backoff", "how the delay grows: exponential, linear or fixed"),
    Keyword("delay", "milliseconds before the second attempt"),
)

TEST = Level.of(
    "test",
    "in a test",
    Keyword("given", "the input", required=True),
    Keyword("assuming", "what a step gives instead of running"),
    Keyword("expect", "a part of the output", required=True),
)

TYPES = Level.of(
    "type",
    "as a type",
    Keyword("text", "text", aliases=("string",)),
    Keyword("number", "a number"),
    Keyword("integer", "a whole number"),
    Keyword("decimal", "a number with an exact fraction"),
    Keyword("boolean", "true or false"),
    Keyword("uuid", "an identifier"),
    Keyword("date", "a day"),
    Keyword("datetime", "a moment"),
    Keyword("list", "a list; `list of T` and `list(T)` say of what"),
    Keyword("map", "names and values", aliases=("object",)),
    Keyword("enum", "one of several texts"),
    Keyword("any", "anything"),
    Keyword("file", "a file"),
)

MODIFIERS = Level.of(
    "field",
    "after a field",
    Keyword("is required", "the field has to be there", aliases=("required",)),
    Keyword("default", "the value when there is none"),
    Keyword("description", "what it means"),
    Keyword("label", "how it is shown"),
    Keyword("min", "the least number"),
    Keyword("max", "the greatest number"),
    Keyword("min_length", "the least length"),
    Keyword("max_length", "the greatest length"),
    Keyword("format", "a named format of text"),
    Keyword("pattern", "a regular expression that is found somewhere in the text"),
    Keyword("choices", "the values it may have"),
    Keyword("range", "the least and the greatest number"),
    Keyword("subset", "the items it may have"),
    Keyword("from", "the step that an output comes from"),
)

CAPABILITIES = Level.of(
    "capability",
    "as a capability",
    Keyword("llm_call", "ask a model", aliases=("reason", "compute.llm.reason", "compute.llm_reason")),
    Keyword("memory", "remember and recall"),
    Keyword("memory.read", "recall"),
    Keyword("memory.write", "remember"),
    Keyword("machine.call", "ask another machine"),
    Keyword("http", "call a web address", aliases=("http_request", "net.http")),
    Keyword("execute_shell_commands", "run a command"),
    Keyword("db_read", "read a database"),
    Keyword("db_write", "write a database"),
)

LEVELS = levels_in(globals())

BACKOFFS = ("exponential", "linear", "fixed")
"""How the delay before another attempt grows; the first is the default."""

OLDER_FORM = ("key", "value")
"""Keys of an older form of memory that some texts about mashin show; it cannot be searched, and is refused."""

COVERS: dict[str, tuple[str, ...]] = {"memory": ("memory.read", "memory.write")}
"""Capabilities that include others."""

STRUCTURE: tuple[str, ...] = tuple(
    sorted({"machine", "test", "when", "otherwise", *(word for level in (SECTIONS, STEPS) for word in level.names)})
)
"""Words that begin a line of structure; inside an open bracket they show that its end is missing."""


def capability(name: str) -> str | None:
    """Return the canonical name of a capability, or None for an unknown one."""
    found = CAPABILITIES.find(name)
    return found.name if found else None


def homes(word: str) -> list[str]:
    """Return the places where a word is valid, as messages call them."""
    return [level.where for level in LEVELS.values() if level.find(word)]
