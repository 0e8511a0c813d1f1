"""The lines of `CONSTRAINTS` in, rules below their labels out."""

from __future__ import annotations

import re
from typing import Literal, cast

from memoranda.abl.document import Before, Failure, Phase, Rule
from memoranda.abl.forms import item_text
from memoranda.abl.keywords import RULES
from memoranda.abl.reader import Properties, Reader
from memoranda.abl.tree import Line, Raw
from memoranda.abl.values import outside, part, unquote, unquoted
from memoranda.lang.diagnostics import did_you_mean
from memoranda.lang.source import Span
from memoranda.model.text import quote

_WORD = re.compile(r"[A-Za-z_]+")
_BEFORE = re.compile(r"(?:BEFORE|before|Before)(?=\s|$)")
_CALLING = re.compile(r"calling\s+(\S+)$", re.IGNORECASE)
_RETURNING = re.compile(r"returning\s+results?$", re.IGNORECASE)
_ACTION = re.compile(r"(HANDOFF)\s+(\S+)$|(ESCALATE|BLOCK)$")


def read_constraints(reader: Reader, lines: tuple[Line, ...]) -> tuple[Phase, ...]:
    """Read the whole section: labels with rules below them, or rules without a label."""
    phases: list[Phase] = []
    loose = tuple(line for line in lines if line.dash)
    if loose:
        phases.append(_phase(reader, None, loose, loose[0].span))
    for line in lines:
        if line.dash:
            continue
        if line.key is None or line.value is not None:
            reader.said.error(
                "wrong_nesting",
                f"{quote(line.text, longest=40)} is neither a label nor a rule of `CONSTRAINTS`",
                line.span,
                hint="Write `label:` and the rules below it as `- REQUIRE condition`",
            )
            continue
        label = line.name
        phases.append(_phase(reader, label, tuple(reader.items(line.children, line.key)), line.span))
    reader.refuse_doubles(phase.label for phase in phases if phase.label)
    return tuple(phases)


def _phase(reader: Reader, label: Raw | None, lines: tuple[Line, ...], span: Span) -> Phase:
    rules: list[Rule] = []
    remarks: list[Raw] = []
    for line in lines:
        rule = _rule(reader, line)
        if isinstance(rule, Rule):
            rules.append(rule)
        elif rule is not None:
            remarks.append(rule)
    return Phase(label, tuple(rules), tuple(remarks), span=span)


def _rule(reader: Reader, line: Line) -> Rule | Raw | None:
    """Return a rule; the text of an item that is no rule; None where the rule cannot be understood."""
    if line.key is not None and line.key.upper() in (*RULES, "WHEN", "BEFORE", "ON_FAIL", "SEVERITY", "NAME"):
        return _rule_with_colon(reader, line)
    whole = item_text(line)
    word = _WORD.match(whole.text)
    keyword = word[0] if word else ""
    if keyword.upper() not in RULES:
        return _no_rule(reader, line, keyword)
    found = reader.properties(line.body, "rule", owner=line.span)
    if keyword != keyword.upper():
        message = f"the keyword {quote(keyword)} is usually written `{keyword.upper()}`"
        reader.said.warning("keyword_case", message, Span(whole.span.start, whole.span.start + len(keyword)))
    return _made(reader, line, keyword.upper(), part(whole, len(keyword), len(whole.text)), found)


def _no_rule(reader: Reader, line: Line, keyword: str) -> Raw | None:
    near = did_you_mean(keyword, RULES)
    if near and line.key is None and item_text(line).text == line.text:
        message = f"{quote(keyword)} is no keyword of a rule"
        reader.said.error("unknown_keyword", message, Span(line.span.start, line.span.start + len(keyword)), hint=near)
        return None
    reader.said.warning(
        "no_rule",
        f"{quote(line.text, longest=40)} is no rule and has no effect",
        line.span,
        hint=f"Begin a rule with {', '.join(RULES)}",
    )
    return item_text(line)


def _rule_with_colon(reader: Reader, line: Line) -> Rule | None:
    """Read a rule whose keyword is an entry: `- REQUIRE: condition`."""
    found = reader.properties(line.entries, "rule", owner=line.span)
    given = [name for name in RULES if found.line(name)]
    if len(given) != 1:
        message = "a rule needs exactly one of " + ", ".join(RULES)
        reader.said.error("missing", message, line.span, hint="Write `- REQUIRE condition`")
        return None
    condition = found.text(given[0])
    return _made(reader, line, given[0], condition, found) if condition else None


def _made(reader: Reader, line: Line, keyword: str, condition: Raw, found: Properties) -> Rule | None:
    condition, clause = _split_before(condition)
    if not condition.text:
        message = f"`{keyword}` has no condition"
        reader.said.error("wrong_value", message, line.span, hint=f"Write `{keyword} condition`")
        return None
    clause = found.text("BEFORE") or clause
    severity = found.choice("SEVERITY") or ("warning" if keyword == "WARN" else "error")
    failure = found.line("ON_FAIL")
    return Rule(
        keyword=keyword,
        condition=condition,
        severity=cast(Literal["error", "warning"], severity),
        before=_before(clause) if clause else None,
        when=found.text("WHEN"),
        on_fail=_failure(reader, failure) if failure else None,
        span=line.span,
    )


def _split_before(condition: Raw) -> tuple[Raw, Raw | None]:
    """Return a condition and the checkpoint at its end."""
    if "before" not in condition.text.casefold():
        return condition, None
    cuts = [
        offset
        for offset, _ in outside(condition.text)
        if _BEFORE.match(condition.text, offset) and (not offset or condition.text[offset - 1].isspace())
    ]
    if not cuts:
        return condition, None
    cut = cuts[-1]
    return part(condition, 0, cut), part(condition, cut + len("BEFORE"), len(condition.text))


def _before(clause: Raw) -> Before:
    calling = _CALLING.match(clause.text)
    if calling:
        return Before("calling", part(clause, *calling.span(1)), span=clause.span)
    kind = "returning" if _RETURNING.match(clause.text) else "other"
    return Before(kind, clause, span=clause.span)


def _failure(reader: Reader, line: Line) -> Failure | None:
    if line.value is None:
        found = reader.properties(line.children, "failure", owner=line.span)
        return Failure(
            "structured",
            respond=found.text("RESPOND"),
            handoff=found.text("HANDOFF"),
            collect=found.names("COLLECT"),
            goto=found.text("GOTO"),
            retry=found.flag("RETRY"),
            then=found.choice("THEN"),
            span=line.span,
        )
    reader.nothing_below(line, "ON_FAIL")
    text = unquoted(line.value)
    action = None if text.literal else _ACTION.match(text.text)
    if action and action[1]:
        return Failure("handoff", handoff=part(text, *action.span(2)), span=line.span)
    if action:
        return Failure("escalate" if action[3] == "ESCALATE" else "block", span=line.span)
    respond = text.text.startswith("RESPOND ") and not text.literal
    return Failure("respond", respond=unquote(part(text, 8, len(text.text))) if respond else text, span=line.span)
