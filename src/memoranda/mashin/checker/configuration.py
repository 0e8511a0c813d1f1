"""The configuration of steps in; unknown and missing keys, and values that can never be right, out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.durations import refuse_duration
from memoranda.lang.expression.literals import UNKNOWN, literal
from memoranda.lang.tree import Raw
from memoranda.mashin.checker.outline import Outline
from memoranda.mashin.document import Ask, Config, Recall, Remember, WaitFor, value_of
from memoranda.mashin.expression.semantics import is_number, is_whole
from memoranda.mashin.keywords import BACKOFFS, OLDER_FORM, RECALL, REMEMBER, RETRY, WAIT_FOR, Level
from memoranda.model.text import quote

_Rule: TypeAlias = tuple[Callable[[Any], bool], str, str | Callable[[Any], str]]
"""Whether a value fits, what is needed, and what to write instead."""


def check_configuration(whole: Outline, said: Diagnostics) -> None:
    """Check the keys and the written values of every step."""
    for part in whole.parts:
        if isinstance(part, Remember):
            _keys(whole, said, part.config, REMEMBER)
            _missing(whole, said, part, REMEMBER)
        elif isinstance(part, Recall):
            _keys(whole, said, part.config, RECALL)
            _missing(whole, said, part, RECALL)
        elif isinstance(part, WaitFor):
            _keys(whole, said, part.config, WAIT_FOR)
            _awaited(said, part)
        elif isinstance(part, Ask):
            _asked(whole, said, part)
    for retry in whole.retries:
        _keys(whole, said, retry.config, RETRY)


def _keys(whole: Outline, said: Diagnostics, configs: tuple[Config, ...], level: Level) -> None:
    for config in configs:
        key = config.key.text
        if level.find(key) is None:
            # The parser has said what to write instead.
            if key in OLDER_FORM and level in (REMEMBER, RECALL):
                continue
            listed = f"Known {level.where}: {', '.join(level.names)}"
            hint = whole.hints.meant(key, level.names, otherwise=listed)
            said.error("unknown_key", f"`{key}` is no configuration {level.where}", config.key.span, hint=hint)
            continue
        rule = _RULES.get(key)
        if rule is not None:
            _value(whole, said, config.value, key, rule)


def _value(whole: Outline, said: Diagnostics, raw: Raw, key: str, rule: _Rule) -> None:
    value = literal(whole.programs.node(raw))
    fits, what, hint = rule
    if value is not UNKNOWN and not fits(value):
        message = f"`{key}` needs {what}, not {quote(raw.text, longest=40)}"
        said.error("wrong_value", message, raw.span, hint=hint if isinstance(hint, str) else hint(value))


def _missing(whole: Outline, said: Diagnostics, part: Remember | Recall, level: Level) -> None:
    others = [config.key.text for config in part.config if level.find(config.key.text) is None]
    for keyword in level.required:
        misspelt = any(other in OLDER_FORM or whole.hints.nearest(other, (keyword.name,)) for other in others)
        if value_of(part.config, keyword.name) is None and not misspelt:
            message = f"`{keyword.name}` is missing in `{level.name} {part.name.text}`"
            said.error("missing", message, part.name.span, hint=f"{keyword.meaning}: add `{keyword.name}: …`")


def _awaited(said: Diagnostics, part: WaitFor) -> None:
    if value_of(part.config, "event") is None and value_of(part.config, "callback") is None:
        message = f"`wait for {part.name.text}` does not say what it waits for"
        said.error("missing", message, part.name.span, hint='Add `event: "…"`, or `callback: true`')


def _asked(whole: Outline, said: Diagnostics, part: Ask) -> None:
    """Check an ask: a model needs a task, and only a machine takes inputs by name."""
    if part.machine is None:
        if part.task is None:
            message = f"`ask {part.name.text}` gives the model no task"
            said.error("missing", message, part.name.span, hint='Add `with task "…"`')
        known = ("with role", "with task", "with tools", "with temperature", "with max_tokens", "returns", "assuming")
        for config in part.inputs:
            key = config.key.text
            hint = whole.hints.meant(f"with {key}", known, otherwise="Only `ask … from` has inputs")
            said.error("unknown_key", f"`{key}` is no configuration of an `ask` to a model", config.key.span, hint=hint)
    for key, raw in (("temperature", part.temperature), ("max_tokens", part.max_tokens)):
        if raw is not None:
            _value(whole, said, raw, key, _RULES[key])
    returned = [field.name.text for field in part.returns]
    for config in part.assuming if returned else ():
        if config.key.text not in returned:
            hint = whole.hints.meant(config.key.text, returned, otherwise=f"It returns {', '.join(returned)}")
            message = f"`{config.key.text}` is assumed, but `ask {part.name.text}` does not return it"
            said.warning("unknown_output", message, config.key.span, hint=hint)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_duration(value: Any) -> bool:
    return isinstance(value, str) and refuse_duration(value) is None


def _write_duration(value: Any) -> str:
    return refuse_duration(value if isinstance(value, str) else "") or ""


def _is_map(value: Any) -> bool:
    return isinstance(value, dict)


_RULES: dict[str, _Rule] = {
    "content": (lambda value: value is not None, "something to remember", "null is nothing that can be found again"),
    "query": (lambda value: value is not None and value != "", "something to look for", "Such as `input.question`"),
    "collection": (_is_name, "the name of a collection", 'Such as `"knowledge_base"`'),
    "namespace": (_is_name, "the name of a namespace", "Leave it out for none"),
    "metadata": (_is_map, "a map", "Write it as `{ name: value }`"),
    "filter": (_is_map, "a map", "Write it as `{ name: value }`"),
    "ttl": (_is_duration, "a duration", _write_duration),
    "timeout": (_is_duration, "a duration", _write_duration),
    "limit": (lambda value: is_whole(value, least=1), "a whole number from 1 on", "Leave it out for 5"),
    "threshold": (
        lambda value: is_number(value) and 0 <= value <= 1,
        "a number from 0 to 1",
        "Scores lie between 0 and 1; leave it out to keep every result",
    ),
    "event": (_is_name, "the name of an event", 'Such as `"order.shipped"`'),
    "callback": (lambda value: isinstance(value, bool), "true or false", "`callback: true`"),
    "temperature": (lambda value: is_number(value) and value >= 0, "a number from 0 on", "Such as 0.2"),
    "max_tokens": (lambda value: is_whole(value, least=1), "a whole number from 1 on", "Such as 1000"),
    "max": (lambda value: is_whole(value, least=1), "a whole number from 1 on", "Such as 3"),
    "delay": (lambda value: is_whole(value, least=0), "milliseconds as a whole number", "Such as 1000"),
    "backoff": (lambda value: value in BACKOFFS, f"one of {', '.join(BACKOFFS)}", '`backoff: "exponential"`'),
}
