"""The keywords of workflow files: one table for each place, one row for each keyword.

The parser, the checker, the documentation test and "did you mean" all use these tables. The inputs and settings of an
action are declared by the action itself.
"""

from __future__ import annotations

import re

from memoranda.lang.grammar import Keyword, Level, levels_in

FILE = Level.of(
    "workflow",
    "a workflow",
    Keyword("inputs", "the input of a run"),
    Keyword("context", "what `$context` holds when a run starts"),
    Keyword("defaults", "settings of all tasks"),
    Keyword("defs", "the tasks, models, tools and memories, by their names", required=True),
    Keyword("flow", "the steps, in their order", required=True),
    Keyword("outputs", "the output of a run, by name"),
)

INPUTS = Level.of("inputs", "`inputs`", Keyword("schema", "the JSON schema of `$input`", required=True))

DEFAULTS = Level.of("defaults", "`defaults`", Keyword("settings", "settings for tasks that do not set them"))

KINDS = Level.of(
    "kind",
    "the kinds of definitions",
    Keyword("task", "a step of the flow: an action and its inputs"),
    Keyword("model", "a language model"),
    Keyword("memory", "a memory definition, by its id, or a memory block of the owner"),
    Keyword("tools", "an action that a model may call"),
    Keyword("mcp", "a server whose tools a model may call"),
)

TASK = Level.of(
    "task",
    "a task",
    Keyword("kind", "`task`", required=True),
    Keyword("action", "the action that it runs", required=True),
    Keyword("description", "what it is for, in words"),
    Keyword("inputs", "the inputs of the action; text that begins with `=` is computed"),
    Keyword("bindings", "the models, tools and memories that the action uses"),
    Keyword("settings", "its timeout, its retries, and the settings of its action"),
)

RESOURCE = Level.of(
    "resource",
    "a definition that is not a task",
    Keyword("kind", "one of model, memory, tools and mcp", required=True),
    Keyword("settings", "its configuration", required=True),
    Keyword("action", "the action behind a tool"),
    Keyword("bindings", "other definitions that it uses"),
    Keyword("description", "what it is for, in words"),
)

BINDINGS = Level.of(
    "bindings",
    "`bindings`",
    Keyword("model", "the model that is asked: one name"),
    Keyword("memory", "the memories that a model sees and may change: a list of names", many=True),
    Keyword("tools", "the tools that a model may call: a list of names", many=True),
    Keyword("mcp", "the servers whose tools a model may call: a list of names", many=True),
)

SETTINGS = Level.of(
    "settings",
    "`settings`",
    Keyword("timeout_ms", "milliseconds that a task may take; 0 for no limit"),
    Keyword("retries", "how a failed task is retried"),
)
"""The settings of every task, in addition to those of its action."""

RETRIES = Level.of(
    "retries",
    "`retries`",
    Keyword("enabled", "whether a failed task is retried at all"),
    Keyword("max_attempts", "how often it is tried in total"),
    Keyword("backoff_ms", "milliseconds before the second attempt"),
    Keyword("max_delay_ms", "the longest delay"),
    Keyword("jitter", "the fraction by which a delay may vary, from 0 to 1"),
    Keyword("multiplier", "the factor by which each delay is longer than the one before"),
)

MEMORY_SETTINGS = Level.of(
    "memory settings",
    "the settings of a memory",
    Keyword("definition_id", "the id of the memory definition, a UUID"),
    Keyword("block", "instead of a definition: a memory block of the owner, `core` or `archival`"),
    Keyword("agent", "the agent whose block it is; by default the block that all agents of the owner share"),
    Keyword("writable", "whether the workflow may change the block; by default it only reads it"),
)

MODEL_SETTINGS = Level.of(
    "model settings",
    "the settings of a model",
    Keyword("provider", "who runs the model, such as `openai`"),
    Keyword("model_id", "which model it is"),
    Keyword("api_key", "the name of the credential, never the key itself"),
    Keyword("base_url", "another address to reach it at"),
    Keyword("organization", "the organization that is billed"),
)

STEPS = Level.of(
    "flow",
    "a step of the flow",
    Keyword("do", "a task"),
    Keyword("parallel", "several steps at the same time"),
    Keyword("conditional", "the first branch with a true condition"),
    Keyword("loop", "steps that are repeated"),
)

PARALLEL = Level.of(
    "parallel",
    "`parallel`",
    Keyword("strategy", "which branches to wait for"),
    Keyword("steps", "the branches, one step each", required=True),
)

STRATEGIES = Level.of(
    "strategy",
    "the strategies",
    Keyword("wait_all", "all branches; the first that fails stops the others"),
    Keyword("wait_any", "the first branch that succeeds; the others are dropped"),
)

CONDITIONAL = Level.of(
    "conditional",
    "`conditional`",
    Keyword("when", "the branches, in the order in which they are tested", required=True),
    Keyword("else", "the steps if no condition is true"),
)

BRANCH = Level.of(
    "branch",
    "a branch",
    Keyword("condition", "an expression; without it the branch is always taken"),
    Keyword("else", "marks the branch that is taken if no condition is true"),
    Keyword("steps", "its steps"),
)

LOOP = Level.of(
    "loop",
    "`loop`",
    Keyword("type", "`for_each` or `while`", required=True),
    Keyword("name", "the name of the loop in `$output`"),
    Keyword("for_each", "what to iterate over"),
    Keyword("while", "an expression that is evaluated before each pass"),
    Keyword("until", "an expression that is evaluated after each pass; the loop ends when it is true"),
    Keyword("max_concurrency", "how many passes may run at the same time"),
    Keyword("accumulate", "a value that is carried from pass to pass"),
    Keyword("steps", "the steps of each pass", required=True),
)

LOOP_TYPES = Level.of(
    "loop type",
    "the types of loops",
    Keyword("for_each", "one pass for each item of a list"),
    Keyword("while", "passes as long as an expression is true"),
)

FOR_EACH = Level.of(
    "for_each",
    "`for_each`",
    Keyword("item", "a name for an item, for readers; expressions use `$iteration.item`"),
    Keyword("in", "the list, or an expression that gives it", required=True),
)

ACCUMULATE = Level.of(
    "accumulate",
    "`accumulate`",
    Keyword("as", "the name of the value in the loop's output", required=True),
    Keyword("initial", "the value before the first pass"),
    Keyword("merge", "an expression that gives the value after each pass", required=True),
)

VARIABLES = Level.of(
    "variables",
    "the variables",
    Keyword("input", "the input of the run"),
    Keyword("context", "the context of the run, with its memory by slug, or name of a block, in `$context.memory`"),
    Keyword("output", "the outputs of tasks and named loops, by name"),
    Keyword("iteration", "in a loop: `item` and `index`"),
    Keyword("accumulator", "in a loop that accumulates: the value so far"),
    Keyword("result", "the output of the task before"),
)
"""The variables of expressions, without their dollar sign."""

LEVELS = levels_in(globals())

RESERVED_CONTEXT = "memory"
"""The part of `$context` that shows the memory records and cannot be set."""

LEGACY_SETTINGS = {"memory_enabled": "List the memories under `bindings: memory:` instead"}
"""Settings of older file versions, and what replaces them."""
ONLY_HISTORY = frozenset({"messages_limit"})
"""Inputs of actions that have an effect only with `input_mode: history`."""


_NAME = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*")


def is_name(text: str) -> bool:
    """Return whether a text is a valid name: lower-case words joined by single underscores."""
    return _NAME.fullmatch(text) is not None


def homes(word: str) -> list[str]:
    """Return the places that a keyword belongs to, as messages call them."""
    return [level.where for level in LEVELS.values() if level.find(word)]
