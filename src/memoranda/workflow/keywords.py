"""The words of workflow files as tables: one table for each place, one row for each word. Nothing here reads a file.

Parser, checker, documentation test and "did you mean" all work from these rows. What an action takes, it says itself.
"""

from __future__ import annotations

import re

from memoranda.lang.keywords import Keyword, Level

FILE = Level(
    "workflow",
    "a workflow",
    (
        Keyword("inputs", "what a run is started with"),
        Keyword("context", "what `$context` holds when a run starts"),
        Keyword("defaults", "settings of all tasks"),
        Keyword("defs", "the tasks, models, tools and memories, by their names", required=True),
        Keyword("flow", "the steps, in their order", required=True),
        Keyword("outputs", "what a run gives, by name"),
    ),
)

INPUTS = Level("inputs", "`inputs`", (Keyword("schema", "the JSON schema of `$input`", required=True),))

DEFAULTS = Level("defaults", "`defaults`", (Keyword("settings", "settings that a task does not give itself"),))

KINDS = Level(
    "kind",
    "the kinds of definitions",
    (
        Keyword("task", "something that a flow does: an action and what it is given"),
        Keyword("model", "a language model"),
        Keyword("memory", "a memory definition, by its id"),
        Keyword("tools", "an action that a model may call"),
        Keyword("mcp", "a server whose tools a model may call"),
    ),
)

TASK = Level(
    "task",
    "a task",
    (
        Keyword("kind", "`task`", required=True),
        Keyword("action", "what is done", required=True),
        Keyword("description", "what it is for, in words"),
        Keyword("inputs", "what the action is given; text that begins with `=` is computed"),
        Keyword("bindings", "the models, tools and memories that the action uses"),
        Keyword("settings", "the time it may take, how it is retried, and what else the action is told"),
    ),
)

RESOURCE = Level(
    "resource",
    "a definition that is no task",
    (
        Keyword("kind", "one of model, memory, tools and mcp", required=True),
        Keyword("settings", "what it is made of", required=True),
        Keyword("action", "the action behind a tool"),
        Keyword("bindings", "other definitions that it uses"),
        Keyword("description", "what it is for, in words"),
    ),
)

BINDINGS = Level(
    "bindings",
    "`bindings`",
    (
        Keyword("model", "the model that is asked: one name"),
        Keyword("memory", "the memories that a model sees and may change: a list of names", many=True),
        Keyword("tools", "the tools that a model may call: a list of names", many=True),
        Keyword("mcp", "the servers whose tools a model may call: a list of names", many=True),
    ),
)

SETTINGS = Level(
    "settings",
    "`settings`",
    (
        Keyword("timeout_ms", "milliseconds that a task may take; 0 for no end"),
        Keyword("retries", "how often a task that failed is tried again"),
    ),
)
"""The settings of every task; an action has its own beside them."""

RETRIES = Level(
    "retries",
    "`retries`",
    (
        Keyword("enabled", "whether a task is tried again at all"),
        Keyword("max_attempts", "how often it is tried in all"),
        Keyword("backoff_ms", "milliseconds before the second time"),
        Keyword("max_delay_ms", "the longest delay"),
        Keyword("jitter", "by which part a delay may differ, from 0 to 1"),
        Keyword("multiplier", "by how much each delay is longer than the one before"),
    ),
)

MEMORY_SETTINGS = Level(
    "memory settings",
    "the settings of a memory",
    (Keyword("definition_id", "the id of the memory definition, a UUID", required=True),),
)

MODEL_SETTINGS = Level(
    "model settings",
    "the settings of a model",
    (
        Keyword("provider", "who runs the model, such as `openai`"),
        Keyword("model_id", "which model it is"),
        Keyword("api_key", "the name of the credential, never the key itself"),
        Keyword("base_url", "another address to ask it at"),
        Keyword("organization", "the organization that is billed"),
    ),
)

STEPS = Level(
    "flow",
    "a step of the flow",
    (
        Keyword("do", "a task"),
        Keyword("parallel", "several steps at the same time"),
        Keyword("conditional", "the first branch whose condition holds"),
        Keyword("loop", "steps again and again"),
    ),
)

PARALLEL = Level(
    "parallel",
    "`parallel`",
    (
        Keyword("strategy", "what is waited for"),
        Keyword("steps", "the branches, one step each", required=True),
    ),
)

STRATEGIES = Level(
    "strategy",
    "the strategies",
    (
        Keyword("wait_all", "all branches; the first that fails stops the others"),
        Keyword("wait_any", "the first branch that succeeds; the others are dropped"),
    ),
)

CONDITIONAL = Level(
    "conditional",
    "`conditional`",
    (
        Keyword("when", "the branches, in the order in which they are asked", required=True),
        Keyword("else", "what is done when no condition holds"),
    ),
)

BRANCH = Level(
    "branch",
    "a branch",
    (
        Keyword("condition", "an expression; without it the branch is always taken"),
        Keyword("else", "marks the branch that is taken when no condition holds"),
        Keyword("steps", "what is done"),
    ),
)

LOOP = Level(
    "loop",
    "`loop`",
    (
        Keyword("type", "`for_each` or `while`", required=True),
        Keyword("name", "the name of the loop in `$output`"),
        Keyword("for_each", "what is gone through"),
        Keyword("while", "an expression that is asked before each pass"),
        Keyword("until", "an expression that is asked after each pass; when it holds, the loop ends"),
        Keyword("max_concurrency", "how many passes may run at the same time"),
        Keyword("accumulate", "a value that goes from pass to pass"),
        Keyword("steps", "what is done in each pass", required=True),
    ),
)

LOOP_TYPES = Level(
    "loop type",
    "the types of loops",
    (
        Keyword("for_each", "one pass for each item of a list"),
        Keyword("while", "passes as long as an expression holds"),
    ),
)

FOR_EACH = Level(
    "for_each",
    "`for_each`",
    (
        Keyword("item", "what an item is called, for readers; expressions see `$iteration.item`"),
        Keyword("in", "the list, or an expression that gives it", required=True),
    ),
)

ACCUMULATE = Level(
    "accumulate",
    "`accumulate`",
    (
        Keyword("as", "the name of the value in the loop's output", required=True),
        Keyword("initial", "the value before the first pass"),
        Keyword("merge", "an expression that gives the value after each pass", required=True),
    ),
)

VARIABLES = Level(
    "variables",
    "the variables",
    (
        Keyword("input", "what the run was started with"),
        Keyword("context", "what the run knows; `$context.memory` by slug"),
        Keyword("output", "what tasks and named loops gave, by their names"),
        Keyword("iteration", "in a loop: `item` and `index`"),
        Keyword("accumulator", "in a loop that accumulates: the value so far"),
        Keyword("result", "in a task's own expressions: what its action gave"),
    ),
)
"""What an expression can read, each after a dollar sign."""

LEVELS: dict[str, Level] = {
    level.name: level
    for level in (
        FILE,
        INPUTS,
        DEFAULTS,
        KINDS,
        TASK,
        RESOURCE,
        BINDINGS,
        SETTINGS,
        RETRIES,
        MEMORY_SETTINGS,
        MODEL_SETTINGS,
        STEPS,
        PARALLEL,
        STRATEGIES,
        CONDITIONAL,
        BRANCH,
        LOOP,
        LOOP_TYPES,
        FOR_EACH,
        ACCUMULATE,
        VARIABLES,
    )
}

UPDATE_MEMORY = "update_memory"
"""The action that writes records, and the tool that a model is given with a memory: no other may be called so then."""
RESERVED_CONTEXT = "memory"
"""The part of `$context` that only memory itself writes."""

LEGACY_SETTINGS = {"memory_enabled": "List the memories under `bindings: memory:` instead"}
"""Settings that files of older versions have, and what stands for them now."""
ONLY_HISTORY = frozenset({"messages_limit"})
"""Inputs of actions that mean something only with `input_mode: history`."""


_NAME = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*")


def is_name(text: str) -> bool:
    """Say whether a definition, a loop or an action can be called so: lower-case words joined by single underscores."""
    return _NAME.fullmatch(text) is not None


def homes(word: str) -> list[str]:
    """Return the places where a word does stand, as they are called in messages."""
    return [level.where for level in LEVELS.values() if level.find(word)]
