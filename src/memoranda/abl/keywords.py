"""The keyword tables of ABL: a table per place, a row per keyword.

Parser, formatter, documentation tests and spelling suggestions read these rows. A keyword that is not acted on belongs
to a part that is not run here (voice, rich content, NLU…): it is parsed and kept, and a warning says so.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import msgspec
from msgspec.structs import replace

Kind = Literal[
    "text",  # prose; quotes around it are taken off
    "template",  # prose with {{…}}
    "condition",  # an expression that is true or false; quotes around the whole of it are taken off
    "expression",  # an expression; quotes make it a string
    "name",  # a word: a variable, a tool, an agent, a step
    "path",  # a dotted path
    "names",  # several words or paths: [a, b], or a, b, or a list
    "texts",  # several texts: a list
    "integer",
    "boolean",
    "choice",  # one of `choices`
    "type",  # the type of a variable: one of `TYPES`, also with what it holds: object[], array<string>
    "mapping",  # name: expression, one per line or as {a: b}
    "target",  # a step, or COMPLETE, ESCALATE, HANDOFF Agent
    "block",  # lines of the level `below`
    "list",  # items of the level `below`
    "anything",  # kept as it is
]


class Keyword(msgspec.Struct, frozen=True):
    """A keyword at one place: the kind of its value, and its meaning."""

    name: str
    kind: Kind
    meaning: str
    required: bool = False
    repeatable: bool = False
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    below: str = ""
    acted_on: bool = True


class Level(msgspec.Struct, frozen=True, dict=True):
    """A place with its own keywords. In an open one, unknown keywords are kept with a warning."""

    name: str
    where: str
    keywords: tuple[Keyword, ...]
    open: bool = False

    @cached_property
    def _index(self) -> dict[str, Keyword]:
        return {
            spelling.casefold(): keyword for keyword in self.keywords for spelling in (keyword.name, *keyword.aliases)
        }

    def find(self, word: str) -> Keyword | None:
        """Return the keyword of a spelling, ignoring case, or None."""
        return self._index.get(word.casefold())

    @cached_property
    def names(self) -> list[str]:
        """The canonical spelling of every keyword."""
        return [keyword.name for keyword in self.keywords]


def _inert(*names: str, meaning: str) -> tuple[Keyword, ...]:
    return tuple(Keyword(name, "anything", meaning, acted_on=False) for name in names)


TYPES = ("string", "number", "boolean", "date", "array", "object", "datetime")
RESETS = ("per_session", "per_step", "never", "per_activation")
SCOPES = ("user", "project", "execution_tree")
ACCESSES = ("read", "write", "readwrite")
RECALL_ACTIONS = ("inject_context", "load_memory", "prompt_llm")
RULES = ("REQUIRE", "LIMIT", "RESTRICT", "WARN")
STRATEGIES = ("llm", "pattern", "hybrid", "auto", "ml")
BACKOFFS = ("fixed", "linear", "exponential")
PRIORITIES = ("low", "medium", "high", "critical")
DISPLAYS = ("redact", "mask", "replace")
PROCESSES = ("regex", "code", "llm")
RETURN_ACTIONS = ("continue", "resume_intent")
RETIRED_EVENTS = {
    "ON_START": "session:start",
    "ON_SESSION_START": "session:start",
    "SESSION_START": "session:start",
    "ON_SEARCH": "search:before",
}
"""Events of earlier versions of the language, written where `ON` is written now."""
MISPLACED = {
    ("persistent variable", "input"): "Persistent memory is written as facts, by those whose permissions allow it; "
    "declare what callers may set below `session`",
}
"""Hints for keywords that are often put at the wrong level, by level and keyword."""

_FORMS = (
    *("VOICE", "VOICE INSTRUCTIONS", "BARGE_IN", "STREAMING", "RICH_CONTENT", "FORMATS", "CAROUSEL", "QUICK_REPLIES"),
    "MESSAGE_KEY",
)
_CHANNEL = (
    Keyword("ACTIONS", "anything", "Choices that are shown below the message above", below="element"),
    *_inert(*_FORMS, meaning="a reply in another form"),
)
_PEOPLE = Keyword("DESCRIPTION", "text", "What it is, for people")
_SENSITIVE = (
    Keyword("SENSITIVE", "boolean", "Whether its value is hidden in traces, prompts and messages"),
    Keyword("SENSITIVE_DISPLAY", "choice", "What is shown of it, redact unless said", choices=DISPLAYS),
    Keyword("MASK_CONFIG", "mapping", "showFirst, showLast and char, for mask"),
)

_STATE = (
    Keyword("SET", "anything", "Assign expressions to variables", repeatable=True),
    Keyword("CLEAR", "names", "Make variables undefined", repeatable=True),
)
_CALL = (
    Keyword("CALL", "anything", "Call a tool", repeatable=True, below="call"),
    Keyword("WITH", "mapping", "Arguments of the call above by name", repeatable=True),
    Keyword("AS", "name", "Variable that gets the result of the call above", repeatable=True),
    Keyword("ON_SUCCESS", "anything", "What follows when the call returns", repeatable=True, below="branch"),
    Keyword(
        "ON_FAIL",
        "anything",
        "What follows when the call or the check fails",
        repeatable=True,
        aliases=("ON_FAILURE",),
        below="branch",
    ),
    Keyword("ON_RESULT", "list", "Choose by the result of the call, first match wins", repeatable=True, below="branch"),
)
_RESPOND = Keyword("RESPOND", "template", "Say something to the user", repeatable=True, below="reply")
_LOG = Keyword("LOG", "anything", "Text or names of variables for the trace", repeatable=True)
_THEN = Keyword("THEN", "target", "Where to go next")
_ACTIONS = (
    *_STATE,
    Keyword("TRANSFORM", "anything", "Filter, map, sort and limit an array", repeatable=True, below="transform"),
    *_CALL,
    Keyword("CHECK", "condition", "A condition that must hold for the step to go on", repeatable=True),
    _RESPOND,
    _LOG,
    Keyword("PRESENT", "template", "Shown before the question of GATHER"),
    Keyword("GATHER", "anything", "Collect values from the user", below="gather"),
    Keyword("COLLECT", "names", "Short for GATHER with these fields"),
    Keyword("PROMPT", "template", "Question for COLLECT"),
    Keyword("DELEGATE", "name", "Ask another agent"),
)

_REACH = (
    Keyword("headers", "mapping", "Headers of an http tool"),
    Keyword("auth", "text", "How an http tool proves who calls"),
    Keyword("auth_config", "mapping", "What `auth` needs"),
    Keyword("timeout", "integer", "Milliseconds until it failed"),
    Keyword("retry", "integer", "How often to try again"),
    Keyword("retry_delay", "integer", "Milliseconds between"),
)
"""Keywords of a tool that may also be written once, for all tools."""

_LEVELS = (
    Level(
        "document",
        "at the top of a file",
        (
            Keyword("AGENT", "name", "Name of the agent; makes the file an agent"),
            Keyword("SUPERVISOR", "name", "Name of the supervisor, an agent that routes"),
            Keyword("BEHAVIOR_PROFILE", "name", "Name of a behaviour profile"),
            Keyword("VERSION", "text", "Version of the document, 1.0.0 unless said"),
            Keyword("DESCRIPTION", "text", "What the agent is, for people"),
            Keyword("LANGUAGE", "text", "Language the agent speaks"),
            Keyword("GOAL", "template", "What the agent is to achieve"),
            Keyword("PERSONA", "template", "How the agent is to appear"),
            Keyword("LIMITATIONS", "texts", "What the agent cannot do"),
            Keyword("IDENTITY", "block", "Role, persona, expertise and limitations together", below="identity"),
            Keyword("INSTRUCTIONS", "template", "Instructions for the model"),
            Keyword("SYSTEM_PROMPT", "template", "The whole prompt for the model"),
            Keyword("MEMORY", "block", "Variables, remember triggers and recall instructions", below="memory"),
            Keyword("CONSTRAINTS", "block", "Business rules", below="rule"),
            Keyword("FLOW", "block", "Steps", below="flow"),
            Keyword("TOOLS", "block", "Signatures of tools and how they are reached", below="tools"),
            Keyword("GATHER", "anything", "Values to collect from the user", below="gather"),
            Keyword("HANDOFF", "list", "Other agents that take over", below="handoff"),
            Keyword("DELEGATE", "list", "Other agents that are asked", below="delegate"),
            Keyword("RETURN_HANDLERS", "block", "What follows when an agent gives control back", below="handler"),
            Keyword("ESCALATE", "block", "When a person is called", below="escalate"),
            Keyword("COMPLETE", "list", "When the agent is done", below="complete"),
            Keyword("ON_START", "block", "Once a session, before any input", below="handler"),
            Keyword("HOOKS", "block", "Actions around the agent and around each turn", below="handler"),
            Keyword("ON_ERROR", "anything", "What follows an error", below="error handler"),
            Keyword("MESSAGES", "mapping", "Messages of the runtime in other words"),
            Keyword("TEMPLATES", "block", "Templates by name", below="template"),
            *_inert(
                *("EXECUTION", "GUARDRAILS", "ACTION_HANDLERS", "NLU", "MULTI_INTENT", "INTENTS", "ENTITIES"),
                *("LOOKUP_TABLES", "ATTACHMENTS", "DESTINATIONS", "TRANSFER_FLOW_POLICIES", "CONVERSATION"),
                *("BEHAVIOR_PROFILES", "USE_BEHAVIOR_PROFILE", "VOICE", "AGENTS", "ROUTING", "STATE", "POLICIES"),
                *("COMMUNICATION", "BEHAVIOR", "DEFAULTS", "METADATA", "IMPORTS", "IMPORT"),
                *("USE BEHAVIOR_PROFILE", "HANDOFF_PROTOCOL", "RICH_CONTENT", "FORMATS", "ACTIONS"),
                meaning="a part that is not run here",
            ),
        ),
    ),
    Level(
        "identity",
        "below `IDENTITY`",
        (
            Keyword("role", "template", "What the agent is"),
            Keyword("persona", "template", "How it is to appear"),
            Keyword("expertise", "texts", "What it knows"),
            Keyword("limitations", "texts", "What it cannot do"),
        ),
    ),
    Level(
        "memory",
        "below `MEMORY`",
        (
            Keyword("session", "list", "Variables of one conversation", below="session variable"),
            Keyword("persistent", "list", "Facts that outlive it", below="persistent variable"),
            Keyword("remember", "list", "When to store what", below="remember"),
            Keyword("recall", "list", "What to load at which event", below="recall"),
            Keyword("READS", "names", "Persistent paths that are only read"),
            Keyword("WRITES", "names", "Persistent paths that are only written"),
        ),
    ),
    Level(
        "session variable",
        "below a variable of `session`",
        (
            Keyword("NAME", "name", "Its name, instead of the bare name"),
            Keyword("TYPE", "type", "Type of its value"),
            Keyword("DESCRIPTION", "text", "What it is for"),
            Keyword("INITIAL", "expression", "Value it begins with, null unless said", aliases=("DEFAULT",)),
            Keyword("RESET", "choice", "When it begins anew, per_session unless said", choices=RESETS),
            Keyword("INPUT", "boolean", "Whether callers may set it, false unless said"),
            *_inert("SOURCE", meaning="where a value comes from"),
        ),
    ),
    Level(
        "persistent variable",
        "below a path of `persistent`",
        (
            Keyword("PATH", "path", "Its path, instead of the bare path", aliases=("NAME",)),
            Keyword("SCOPE", "choice", "Whose fact it is; the path says it unless said", choices=SCOPES),
            Keyword("ACCESS", "choice", "What the agent may do with it", choices=ACCESSES),
            Keyword("TYPE", "type", "Type of its value"),
            Keyword("UNIT", "text", "Unit of its value, for people"),
            Keyword("DEFAULT", "expression", "Value while no fact exists", aliases=("DEFAULT_VALUE",)),
            Keyword("DESCRIPTION", "text", "What it is for"),
            *_SENSITIVE,
        ),
    ),
    Level(
        "remember",
        "in an item of `remember`",
        (
            Keyword("WHEN", "condition", "Condition, looked at after each turn", required=True),
            Keyword("STORE", "anything", "Expression -> path", required=True),
            Keyword("TTL", "text", "How long the fact lives: 90s, 15m, 24h, 30d"),
        ),
    ),
    Level(
        "recall",
        "in an item of `recall`",
        (
            Keyword("ON", "text", "Event", required=True),
            Keyword("ACTION", "choice", "What happens then", choices=RECALL_ACTIONS),
            Keyword("INSTRUCTION", "template", "What the model is told"),
            Keyword("PATHS", "names", "Paths to load", aliases=("RETRIEVE",)),
            Keyword("DOMAIN", "text", "Domain to load"),
        ),
    ),
    Level(
        "rule",
        "in a rule of `CONSTRAINTS`",
        (
            Keyword("REQUIRE", "condition", "Must be true"),
            Keyword("LIMIT", "condition", "A bound that must hold"),
            Keyword("RESTRICT", "condition", "Must not be true"),
            Keyword("WARN", "condition", "Should be true; only a warning"),
            Keyword("WHEN", "condition", "The rule applies only then"),
            Keyword("BEFORE", "text", "The checkpoint: calling a tool, or returning results"),
            Keyword("ON_FAIL", "anything", "What a broken rule does", below="failure"),
            Keyword("SEVERITY", "choice", "error unless said; or write WARN", choices=("error", "warning")),
            _PEOPLE,
            Keyword("NAME", "text", "Its name, for people"),
        ),
    ),
    Level(
        "failure",
        "below `ON_FAIL` of a rule",
        (
            Keyword("RESPOND", "template", "Message to the user"),
            Keyword("COLLECT", "names", "Values to collect before the rule is looked at again"),
            Keyword("GOTO", "name", "Step to go to"),
            Keyword("RETRY", "boolean", "Run the step again"),
            Keyword("THEN", "choice", "What follows the collecting", choices=("continue", "retry")),
            Keyword("HANDOFF", "name", "Agent that takes over"),
            Keyword("ESCALATE", "template", "Call a person, for this reason"),
        ),
    ),
    Level(
        "flow",
        "below `FLOW`",
        (
            Keyword("entry_point", "name", "Step to begin with"),
            Keyword("steps", "anything", "Names of the steps in order, or the steps themselves", below="step"),
            Keyword("global_digressions", "list", "Intents answered at every step", below="digression"),
        ),
    ),
    Level(
        "step",
        "in a step",
        (
            Keyword("REASONING", "boolean", "Whether the model drives the step", required=True),
            Keyword("WHEN", "condition", "The step is skipped unless this holds"),
            Keyword("MAX_ATTEMPTS", "integer", "How often the step may run"),
            Keyword("ON_EXHAUSTED", "target", "Where to go after that"),
            *_ACTIONS,
            Keyword("CORRECTIONS", "boolean", "Whether values given earlier may be corrected"),
            Keyword("COMPLETE_WHEN", "condition", "When the gathering is done"),
            Keyword("ON_INPUT", "list", "Choose by the user's words, first match wins", below="branch"),
            Keyword("SUB_INTENTS", "list", "Intents of this step, which stay in it", below="sub-intent"),
            Keyword("DIGRESSIONS", "list", "Intents that leave the step", below="digression"),
            Keyword("ON_ERROR", "anything", "What follows an error in this step", below="error handler"),
            Keyword("THEN", "anything", "Where to go next, or a list of IF and ELSE", below="branch"),
            Keyword("GOAL", "template", "What the model is to achieve in this step"),
            Keyword("AVAILABLE_TOOLS", "names", "Tools the model may use in this step"),
            Keyword("EXIT_WHEN", "condition", "When the model is done"),
            Keyword("MAX_TURNS", "integer", "Turns the model has, 10 unless said"),
            Keyword("STEP_CONSTRAINTS", "texts", "Rules for the model in this step"),
            Keyword("INSTRUCTIONS", "template", "Instructions for the model in this step", aliases=("BEHAVIOR",)),
            Keyword("ON_ACTION", "anything", "What follows a choice of ACTIONS", below="action handler"),
            *_CHANNEL,
            _PEOPLE,
            *_inert(
                *("ATTACHMENTS", "AWAIT_ATTACHMENT", "HUMAN_APPROVAL", "SECURE_INPUT", "RESOLVE_SIP_DESTINATION"),
                meaning="not run here",
            ),
        ),
    ),
    Level(
        "branch",
        "in a branch",
        (
            Keyword("IF", "condition", "The branch is taken when this holds", aliases=("CONDITION",)),
            Keyword("ELSE", "anything", "The branch is taken when no other was"),
            *_ACTIONS,
            Keyword("THEN", "target", "Where to go next", aliases=("GOTO",)),
            *_CHANNEL,
        ),
    ),
    Level("reply", "below `RESPOND`", _CHANNEL),
    Level(
        "element",
        "in an item of `ACTIONS`",
        (
            Keyword("id", "text", "Its name, for ON_ACTION"),
            Keyword("type", "text", "button, select or input"),
            Keyword("label", "text", "What is shown", aliases=("BUTTON", "SELECT", "INPUT", "title")),
            Keyword("value", "text", "What the choice means"),
            Keyword("description", "text", "What is shown with it"),
            Keyword("options", "list", "The choices of a select", below="element"),
            *_inert("inputType", "placeholder", "required", "url", meaning="how it is drawn"),
        ),
        open=True,
    ),
    Level(
        "call",
        "below `CALL`",
        (
            Keyword("TOOL", "name", "Tool to call, instead of its name after CALL"),
            Keyword("WITH", "mapping", "Arguments by name", aliases=("call_with",)),
            Keyword("AS", "name", "Variable that gets the result"),
            *(keyword for keyword in _CALL if keyword.name.startswith("ON_")),
        ),
    ),
    Level(
        "transform",
        "below `TRANSFORM`",
        (
            Keyword("SOURCE", "expression", "The array, or `path AS item`"),
            Keyword("AS", "name", "Name of one item"),
            Keyword("INTO", "name", "Variable that gets the new array"),
            Keyword("FILTER", "condition", "Items that stay"),
            Keyword("MAP", "mapping", "Fields of the new items"),
            Keyword("SORT_BY", "text", "Field, and asc or desc"),
            Keyword("LIMIT", "expression", "How many items stay"),
        ),
    ),
    Level(
        "gather",
        "below `GATHER`",
        (
            Keyword("fields", "anything", "The fields, next to other keywords of GATHER", below="field"),
            Keyword("strategy", "choice", "How values are found in the user's words", choices=STRATEGIES),
            *_inert("prompt", "message_key", meaning="not run here"),
            *_inert("validation_style", "confirmation", "field_overrides", meaning="a part of a behaviour profile"),
        ),
    ),
    Level(
        "field",
        "below a field of `GATHER`",
        (
            Keyword("name", "name", "Its name, instead of the bare name"),
            Keyword("required", "boolean", "Whether it must be collected, true unless said"),
            Keyword("prompt", "template", "Question to the user"),
            Keyword("type", "text", "Type of the value, string unless said"),
            Keyword("default", "expression", "Value when none is given"),
            Keyword("validation", "text", "Expression the value must fulfil"),
            Keyword("validate", "anything", "min, max, enum, email, pattern…"),
            Keyword("validation_process", "choice", "How `validation` is to be read", choices=PROCESSES),
            Keyword("retry_prompt", "template", "What is said about a value that is not valid"),
            Keyword("options", "names", "Values to choose from", aliases=("enum", "values")),
            Keyword("extraction_hints", "texts", "Hints for finding the value"),
            Keyword("depends_on", "names", "Fields that must be there before"),
            Keyword("activation", "anything", "required, optional, progressive, or when: condition"),
            Keyword("infer", "boolean", "Whether the model may infer the value"),
            Keyword("infer_confidence", "expression", "How sure it must be, 0.8 unless said", acted_on=False),
            Keyword(
                "infer_confirm", "boolean", "Whether an inferred value is confirmed, true unless said", acted_on=False
            ),
            Keyword("range", "boolean", "Whether it is a range"),
            Keyword("list", "boolean", "Whether there may be several"),
            Keyword("prompt_mode", "choice", "Whether to ask for it", choices=("ask", "extract_only")),
            *(replace(keyword, name=keyword.name.lower()) for keyword in _SENSITIVE),
            Keyword("description", "text", "What it is; the model is told"),
            *_inert(
                *("semantics", "voice", "rich_content", "lookup", "max_retries", "preferences", "transient"),
                *("extraction_pattern", "extraction_group", "entity_ref", "message_key", "satisfied_by", "pii_type"),
                *("category", "allowed_mime_types", "max_file_size", "processing", "strategy", "skip"),
                meaning="not run here",
            ),
        ),
        open=True,
    ),
    Level(
        "sub-intent",
        "in an item of `SUB_INTENTS`",
        (
            Keyword("INTENT", "text", "What the user wants", required=True),
            Keyword("KEYWORDS", "names", "Words that say so"),
            Keyword("CONDITION", "condition", "And only then"),
            _RESPOND,
            *_STATE,
            *_CALL,
            Keyword("RESUME", "boolean", "Stay in the step, true unless said"),
            *_CHANNEL,
        ),
    ),
    Level(
        "digression",
        "in an item of `DIGRESSIONS`",
        (
            Keyword("INTENT", "text", "What the user wants", required=True),
            Keyword("KEYWORDS", "names", "Words that say so"),
            Keyword("CONDITION", "condition", "And only then"),
            _RESPOND,
            *_STATE,
            *_CALL,
            Keyword("RESUME", "boolean", "Come back to the step, false unless said"),
            Keyword("GOTO", "target", "Step to go to", aliases=("THEN",)),
            Keyword("DELEGATE", "name", "Agent to ask"),
            Keyword("HANDOFF", "name", "Agent that takes over"),
            Keyword("DO", "list", "Actions in order", below="branch"),
            *_CHANNEL,
            *_inert("RETURN", "ON_RETURN", meaning="not run here"),
        ),
    ),
    Level(
        "action handler",
        "in an item of `ON_ACTION`",
        (
            Keyword("ACTION", "text", "Id of the choice", required=True, aliases=("ACTION_ID",)),
            Keyword("CONDITION", "condition", "And only then"),
            _RESPOND,
            *_STATE,
            *_CALL,
            Keyword("THEN", "target", "Where to go next", aliases=("GOTO", "TRANSITION")),
            Keyword("HANDOFF", "name", "Agent that takes over"),
            _LOG,
            *_CHANNEL,
            Keyword("DO", "list", "Actions in order", below="action handler"),
            Keyword("COMPLETE", "boolean", "End the agent"),
            *_inert("DELEGATE", meaning="not run here"),
        ),
    ),
    Level(
        "error handler",
        "below an error of `ON_ERROR`",
        (
            Keyword("TYPE", "text", "The error, where handlers are a list"),
            Keyword("SUBTYPES", "names", "Kinds of that error", aliases=("SUBTYPE",)),
            _RESPOND,
            _LOG,
            *_STATE,
            Keyword("RETRY", "integer", "How often to try again"),
            Keyword("RETRY_DELAY", "integer", "Milliseconds between"),
            Keyword("RETRY_BACKOFF", "choice", "How the delay grows", choices=BACKOFFS),
            Keyword("RETRY_MAX_DELAY", "integer", "Milliseconds at most"),
            _THEN,
            Keyword("HANDOFF_TARGET", "name", "Agent for THEN: HANDOFF"),
            Keyword("ESCALATE", "template", "Call a person, for this reason; short for THEN: ESCALATE"),
            Keyword("BACKTRACK_TO", "name", "Step for THEN: backtrack"),
            *_CHANNEL,
        ),
    ),
    Level(
        "handler",
        "in `ON_START` or a hook",
        (
            *_ACTIONS,
            Keyword("BRANCHES", "list", "Choose by IF and ELSE", below="branch"),
            _THEN,
            Keyword("critical", "boolean", "Whether a failure ends the turn"),
            Keyword("CONTINUE", "boolean", "In a return handler: wait for the next words of the user"),
            Keyword("RESUME_INTENT", "boolean", "In a return handler: take up the user's last words again"),
            *_CHANNEL,
            *_inert("SET_INTERACTION_LANGUAGE", "CLEAR_INTERACTION_LANGUAGE", meaning="not run here"),
        ),
    ),
    Level(
        "tools",
        "below `TOOLS`",
        (
            Keyword("base_url", "text", "What precedes the endpoints that begin with a slash"),
            *_REACH,
            *_inert("file", "HIDE", "ADD", meaning="tools of another file"),
            *_inert("rate_limit", meaning="not run here"),
        ),
        open=True,
    ),
    Level(
        "tool",
        "below a tool",
        (
            Keyword("name", "name", "Its name, instead of a signature"),
            Keyword("description", "text", "What it does"),
            Keyword("parameters", "anything", "Its parameters in detail", aliases=("params",)),
            Keyword("returns", "anything", "What it returns, instead of a signature"),
            Keyword("type", "text", "http, or how else it is reached"),
            Keyword("endpoint", "text", "Address of an http tool", aliases=("url",)),
            Keyword("method", "text", "Method of an http tool"),
            Keyword("query_params", "mapping", "Query of an http tool"),
            Keyword("body_template", "template", "Body of an http tool", aliases=("body",)),
            *_REACH,
            *_inert(
                *(
                    "hints",
                    "side_effects",
                    "confirm",
                    "auth_profile",
                    "retry_policy",
                    "body_type",
                    "body_mode",
                    "async",
                    "on_error",
                ),
                *("server_tool", "entrypoint", "memory_mb", "callback_url_field", "timeout_seconds", "context_access"),
                *("body_schema", "use_body_schema", "request_variants", "rate_limit", "circuit_breaker", "protocol"),
                *("server", "tool", "runtime", "code", "code_file", "memory", "function", "workflow", "index"),
                *("confirmation", "on_result", "store_result", "compact_result", "sensitive", "pii_access"),
                meaning="another way to reach or run a tool",
            ),
        ),
        open=True,
    ),
    Level(
        "handoff",
        "in an item of `HANDOFF`",
        (
            Keyword("TO", "name", "Agent that takes over", required=True),
            Keyword("WHEN", "condition", "When it does"),
            Keyword("PRIORITY", "integer", "Low ones are looked at first"),
            Keyword("CONTEXT", "block", "What it is told", below="context"),
            Keyword("RETURN", "boolean", "Whether control comes back", aliases=("EXPECT_RETURN", "RETURNS")),
            Keyword("ON_RETURN", "anything", "What follows then", below="on return"),
            Keyword("MAP", "mapping", "Values that come back, without ON_RETURN"),
            Keyword("ON_FAILURE", "text", "CONTINUE, ESCALATE or RESPOND when the agent cannot be reached"),
            Keyword("pass", "names", "Values that go along, without CONTEXT"),
            Keyword("summary", "template", "What happened so far, without CONTEXT"),
            Keyword("history", "anything", "How much of the conversation goes along, without CONTEXT"),
            *_inert(
                *("ASYNC", "ASYNC_TIMEOUT", "asyncTimeout", "TIMEOUT", "REMOTE", "LOCATION", "ENDPOINT", "PROTOCOL"),
                *("RESPOND", "FLAGS", "EXPERIENCE_MODE"),
                meaning="not run here",
            ),
            _PEOPLE,
        ),
        open=True,
    ),
    Level(
        "context",
        "below `CONTEXT`",
        (
            Keyword("pass", "names", "Values that go along"),
            Keyword("summary", "template", "What happened so far"),
            Keyword("history", "anything", "auto, none, summary_only, full, or mode: last_n and count"),
            Keyword("memory_grants", "list", "Paths the agent may use", below="grant", aliases=("grant_memory",)),
            Keyword("set", "mapping", "Variables assigned before the agent begins"),
        ),
        open=True,
    ),
    Level(
        "grant",
        "in an item of `memory_grants`",
        (
            Keyword("path", "path", "Path of the memory"),
            Keyword("access", "choice", "What may be done, read unless said", choices=ACCESSES),
        ),
    ),
    Level(
        "on return",
        "below `ON_RETURN`",
        (
            Keyword("action", "name", "How the agent goes on"),
            Keyword("handler", "name", "One of RETURN_HANDLERS"),
            Keyword("map", "mapping", "Values that come back"),
            Keyword("set", "mapping", "Variables assigned after that"),
            Keyword("resume_with", "text", "Which words of the user are taken up again", acted_on=False),
        ),
        open=True,
    ),
    Level(
        "delegate",
        "in an item of `DELEGATE`",
        (
            Keyword("AGENT", "name", "Agent that is asked", required=True, aliases=("TO",)),
            Keyword("WHEN", "condition", "When it is"),
            Keyword("PURPOSE", "template", "What for", aliases=("SUMMARY",)),
            Keyword("INPUT", "mapping", "What it gets", aliases=("PASS",)),
            Keyword("RETURNS", "mapping", "What it gives back"),
            Keyword("USE_RESULT", "template", "What the model is to do with that"),
            Keyword("TIMEOUT", "text", "How long it may take"),
            Keyword("ON_FAILURE", "anything", "respond, continue, escalate or retry", aliases=("ON_FAIL",)),
            Keyword("FAILURE_MESSAGE", "template", "What is said when it fails"),
            _PEOPLE,
            *_inert(
                *("ASYNC", "REMOTE", "LOCATION", "ENDPOINT", "PROTOCOL", "PRIORITY", "PARALLEL", "MEMORY_GRANTS"),
                "EXPERIENCE_MODE",
                meaning="not run here",
            ),
        ),
        open=True,
    ),
    Level(
        "escalate",
        "below `ESCALATE`",
        (
            Keyword("triggers", "list", "When a person is called", below="trigger"),
            Keyword("context_for_human", "anything", "What the person is shown"),
            *_inert(
                *("routing", "on_human_complete", "connector", "CONNECTOR_ACTION"), meaning="how people are reached"
            ),
        ),
        open=True,
    ),
    Level(
        "trigger",
        "in an item of `triggers`",
        (
            Keyword("WHEN", "condition", "When a person is called", required=True),
            Keyword("REASON", "template", "Why"),
            Keyword("PRIORITY", "choice", "How urgent", choices=PRIORITIES),
            Keyword("TAGS", "names", "Words about it"),
            *_inert("CONTEXT", "RESPOND", "SET", "GENESYS_SIP_HEADERS", meaning="how people are reached"),
        ),
    ),
    Level(
        "complete",
        "in an item of `COMPLETE`",
        (
            Keyword("WHEN", "condition", "When the agent is done", required=True),
            Keyword("RESPOND", "template", "What it says", below="reply"),
            Keyword("STORE", "anything", "A name, or expression -> path"),
            *_CHANNEL,
        ),
    ),
    Level(
        "template",
        "below a template of `TEMPLATES`",
        (
            Keyword("DEFAULT", "template", "Its text", aliases=("TEXT", "CONTENT", "RESPOND")),
            _PEOPLE,
            *_inert("MARKDOWN", "HTML", "SLACK", "ADAPTIVE_CARD", "AG_UI", "WHATSAPP", meaning="forms"),
            *_CHANNEL,
        ),
        open=True,
    ),
)

LEVELS: dict[str, Level] = {level.name: level for level in _LEVELS}


def places_of(word: str) -> list[str]:
    """Return the places where a keyword is valid, for a hint about wrong nesting."""
    return [level.where for level in _LEVELS if level.find(word)]


_SPELLINGS = {
    "string": "str text url uri id uuid enum",
    "number": "float double decimal currency money percent percentage",
    "integer": "int",
    "boolean": "bool",
    "date": "",
    "datetime": "timestamp date-time date_time",
    "time": "",
    "email": "",
    "phone": "tel telephone phone_number",
    "array": "list",
    "object": "dict map json record",
    "null": "none undefined",
    "any": "unknown void file union nullable",
}

TYPE_NAMES: dict[str, str] = {
    spelling: name for name, others in _SPELLINGS.items() for spelling in (name, *others.split())
}
"""Every word for a type, in lower case, with the canonical name of the type."""


def type_name(word: str) -> str | None:
    """Return the canonical name of a type, ignoring case; None for an unknown word.

    >>> type_name("Decimal"), type_name("timestamp"), type_name("Booking")
    ('number', 'datetime', None)
    """
    return TYPE_NAMES.get(word.casefold())


def variable_type(written: str) -> str | None:
    """Return the type of a variable for what was written, one of `TYPES`; None for an unknown one.

    >>> variable_type("object[]"), variable_type("array<string>"), variable_type("integer"), variable_type("strng")
    ('array', 'array', 'number', None)
    """
    text = written.strip()
    if text.endswith("[]"):
        return "array"
    head, _, inner = text.partition("<")
    if head.strip().casefold() == "nullable":
        return variable_type(inner.removesuffix(">"))
    name = type_name(head.strip())
    return _AS_VARIABLE.get(name, name) if name in (*TYPES, *_AS_VARIABLE) else None


_AS_VARIABLE = {"integer": "number", "email": "string", "phone": "string", "time": "string"}
"""Types of fields, with the types of the variables that hold them."""
