"""Read the actions, branches and transitions of steps and handlers, and the fields of `GATHER`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from memoranda.abl.document import (
    Action,
    Argument,
    Assignment,
    Branch,
    Call,
    Check,
    Choice,
    Clear,
    Consult,
    Field,
    Gather,
    Log,
    Present,
    Respond,
    Set,
    Target,
    TargetKind,
    Transform,
)
from memoranda.abl.keywords import LEVELS
from memoranda.abl.lines import (
    Line,
    list_elements,
    object_fields,
    part,
    split,
    split_arrow,
    split_assignment,
    split_pair,
    unquote,
)
from memoranda.abl.reader import Entry, Properties, Reader, elements, expand_item, item_text, mapping, text_of
from memoranda.lang.diagnostics import did_you_mean
from memoranda.lang.document import Raw
from memoranda.lang.source import Span
from memoranda.model.text import quote


def read_gather(reader: Reader, line: Line) -> Gather | None:
    """Read fields in every form: items, named blocks, `FIELDS` below, or `a, b` on the same line."""
    if line.value is not None:
        reader.refuse_nested(line, "GATHER")
        names = [reader.name(name, "a field") for name in list_elements(line.value.raw)]
        return _build_gather(reader, line, [Field(name, span=name.span) for name in names], [])
    table = LEVELS["gather"]
    own = [
        child for child in line.children if child.key and not child.dash and table.find(child.key) and _is_own(child)
    ]
    found = reader.properties(own, "gather", owner=line.span)
    lines = [child for child in line.children if child not in own]
    inner = found.line("fields")
    if inner is not None:
        lines.extend(inner.children)
        lines.extend(_inline_fields(inner))
    return _build_gather(reader, line, [_field(reader, child) for child in lines], [found])


def _inline_fields(inner: Line) -> list[Line]:
    """Return a line for each name of `FIELDS: [a, b]`."""
    if inner.value is None:
        return []
    return [Line(name.text, key_span=name.span, span=name.span) for name in list_elements(inner.value.raw)]


def _is_own(line: Line) -> bool:
    """Return whether a line is a keyword of GATHER itself, not a field of that name."""
    return (line.key or "").upper() != "FIELDS" or bool(line.children or line.value)


def _build_gather(
    reader: Reader, line: Line, fields: list[Field | None] | list[Field], found: list[Properties]
) -> Gather:
    given = [field for field in fields if field is not None]
    if not given:
        reader.error("wrong_value", "`GATHER` collects nothing", line.key_span, hint="Name a field: `- name: required`")
    reader.note_duplicates(field.name for field in given)
    return Gather(
        tuple(given),
        strategy=found[0].choice("strategy") if found else None,
        kept=found[0].kept if found else (),
        span=line.span,
    )


def _field(reader: Reader, line: Line) -> Field | None:
    required: bool | None = None
    if line.key is None:
        name, lines = line.raw, line.body
    elif line.key.casefold() == "name" and line.dash and line.value is not None and not _says_required(line):
        name, lines = line.value.unquoted, line.body
    else:
        name = line.name
        lines = line.body
        required = _is_required(reader, line)
    found = reader.properties(lines, "field", owner=line.span)
    default = True if required is None else required
    return Field(
        name=reader.name(name, "a field"),
        required=found.flag("required", default=default),
        prompt=found.text("prompt"),
        type=found.text("type"),
        default=found.expression("default"),
        **_validation(reader, found),
        retry_prompt=found.text("retry_prompt"),
        sensitive=found.flag("sensitive"),
        display=found.choice("sensitive_display"),
        mask=found.mapping("mask_config"),
        description=found.text("description"),
        options=found.names("options"),
        hints=found.texts("extraction_hints"),
        depends_on=found.names("depends_on"),
        activation=_activation(found),
        active_when=_active_when(found.line("activation")),
        infer=found.flag("infer"),
        infer_confidence=found.expression("infer_confidence"),
        infer_confirm=found.flag("infer_confirm", default=True),
        range=found.flag("range"),
        list=found.flag("list"),
        prompt_mode=found.choice("prompt_mode") or "ask",
        kept=found.kept,
        span=line.span,
    )


def _says_required(line: Line) -> bool:
    return line.value is not None and line.value.unquoted.text.casefold() in ("required", "optional", "true", "false")


def _is_required(reader: Reader, line: Line) -> bool | None:
    """Return what `field: required` or `field: optional` says; None when nothing follows the colon."""
    if line.value is None:
        return None
    word = line.value.unquoted.text.casefold()
    if not _says_required(line):
        reader.error(
            "wrong_value",
            f"a field is `required` or `optional`, not {quote(line.value.text, longest=40)}",
            line.value.span,
            hint="Write other properties on lines below the field",
        )
    return word in ("required", "true")


def _validation(reader: Reader, found: Properties) -> dict[str, Any]:
    """Return the rules for the value of a field: a condition or sentence, a pattern, and named rules."""
    process, condition = found.choice("validation_process"), found.text("validation")
    pattern: Raw | None = None
    rules: list[Argument] = []
    line = found.line("validate")
    if line is not None and line.value is not None and not line.value.text.startswith("{"):
        text = line.value.unquoted
        called = _RULE.fullmatch(text.text)
        if called and called["name"].casefold() in VALIDATE:
            rules.append(Argument(part(text, *called.span("name")), part(text, *called.span("rest")), span=line.span))
        elif called and called["rest"] is None:
            # A single word would be a variable that is never true.
            rules.append(Argument(text, text, span=line.span))
        elif condition is None:
            condition = text
        else:
            reader.note_duplicate(line, "validation")
    elif line is not None:
        condition, rules = _rules_below(reader, line, condition)
    if condition is not None and (process == "regex" or _is_pattern(condition)):
        condition, pattern = None, condition
    for rule in rules:
        if rule.name.text.casefold() not in (*VALIDATE, "message"):
            message = f"{quote(rule.name.text)} is not a rule of `validate`"
            hint = did_you_mean(rule.name.text, VALIDATE, otherwise=f"One of {', '.join(VALIDATE)}, or a condition")
            reader.error("wrong_value", message, rule.name.span, hint=hint)
    return {"validation": condition, "pattern": pattern, "validate": tuple(rules)}


VALIDATE = (
    *("min", "minimum", "min_value", "max", "maximum", "max_value", "range", "enum", "options", "values", "one_of"),
    *("pattern", "regex", "email", "phone", "url", "number", "integer", "whole", "positive"),
    *("min_length", "minlength", "min_items", "max_length", "maxlength", "max_items"),
    *("future", "future_date", "in_future", "past", "past_date", "in_past"),
)
"""The rules that `validate` knows by name."""
RANGE = re.compile(r"(?<![\d.])(-?\d++(?:\.\d++)?+)\s*+(?:,|\.\.|-|to)\s*+(-?\d++(?:\.\d++)?+)")
_RULE = re.compile(r"(?P<name>[^\W\d]\w*+)\s*+(?:\((?P<rest>.*)\))?", re.DOTALL)


def _is_pattern(condition: Raw) -> bool:
    return condition.text.startswith("^") or (condition.text.endswith("$") and " " not in condition.text)


def _rules_below(reader: Reader, line: Line, condition: Raw | None) -> tuple[Raw | None, list[Argument]]:
    """Return the condition and the rules of a block: `min: 1`, or `type: pattern` with `rule` and `error`."""
    given = {argument.name.text.casefold(): argument for argument in mapping(line)}
    kind, rule = given.pop("type", None), given.pop("rule", None)
    given.pop("max_retries", None)
    message = given.pop("error", None) or given.pop("message", None)
    rules = list(given.values())
    if kind is not None and rule is not None:
        word = unquote(kind.value).text.casefold()
        if word in ("custom", "llm"):
            condition = unquote(rule.value)
        else:
            rules.append(Argument(unquote(kind.value), rule.value, span=line.span))
    elif kind is not None or rule is not None:
        wrong = "`validate` needs both `type` and `rule`"
        reader.error("missing", wrong, line.key_span, hint='type: enum, rule: "a, b"')
    if message is not None:
        rules.append(Argument(Raw("message", span=message.name.span), message.value, span=message.span))
    return condition, rules


def _activation(found: Properties) -> Raw | None:
    line = found.line("activation")
    if line is None or line.value is None or line.value.text.startswith("{"):
        return None
    return line.value.unquoted


def _active_when(line: Line | None) -> Raw | None:
    if line is None:
        return None
    for argument in mapping(line):
        if argument.name.text.casefold() == "when":
            return unquote(argument.value)
    return None


_TEMPLATE = re.compile(r"TEMPLATE\(([^()]+)\)")
_CALLED = re.compile(r"([^\W\d][\w.\-]*)\s*\((.*)\)", re.DOTALL)
_HEADER = re.compile(
    r"(?P<source>.+?)(?:(?<!\s)\s++AS\s++(?P<item>\S+))?(?:(?<!\s)\s++INTO\s++(?P<into>\S+))?", re.IGNORECASE
)
_STEP = re.compile(r"[^\W\d][\w\-]*")
_SORT = re.compile(r"(\S+)(?:\s+(asc|desc|ascending|descending))?", re.IGNORECASE)
_REASON = re.compile(r"ESCALATE\s+with\s+REASON\s*+:?\s*+(.+)", re.IGNORECASE)
_WORDS: dict[str, TargetKind] = {
    "COMPLETE": "complete",
    "ESCALATE": "escalate",
    "HANDOFF": "handoff",
    "CONTINUE": "continue",
    "RETRY": "retry",
    "RETRY_STEP": "retry",
    "BACKTRACK": "backtrack",
}

_Maker = Callable[[Reader, Line], Action | None]


def read_actions(reader: Reader, found: Properties) -> tuple[Action, ...]:
    """Return the actions of a level; outcome blocks are attached to their call."""
    actions: list[Action] = []
    waiting: list[Entry] = []
    for entry in found.entries:
        name = entry.keyword.name
        maker = _MAKERS.get(name)
        if maker:
            action = maker(reader, entry.line)
            if action is not None:
                actions.append(action)
        elif name in _OUTCOMES and not _attach(reader, actions, entry):
            waiting.append(entry)
        elif name in ("ACTIONS", "PROMPT"):
            _complete(reader, actions, entry)
    for entry in waiting:
        # An outcome above all calls belongs to the first call below it.
        if not _attach(reader, actions, entry, first=True):
            reader.error(
                "wrong_nesting",
                f"`{entry.keyword.name}` has no `CALL`" + (" or `CHECK`" if entry.keyword.name == "ON_FAIL" else ""),
                entry.line.key_span,
                hint="Put it below the call that it is about",
            )
    return tuple(actions)


def _complete(reader: Reader, actions: list[Action], entry: Entry) -> None:
    """Add the choices to the message above, or the question to the fields above."""
    wanted = Respond if entry.keyword.name == "ACTIONS" else Gather
    place = next((at for at in range(len(actions) - 1, -1, -1) if isinstance(actions[at], wanted)), None)
    owner = actions[place] if place is not None else None
    if isinstance(owner, Respond) and place is not None:
        actions[place] = msgspec.structs.replace(owner, choices=(*owner.choices, *read_choices(reader, entry.line)))
    elif isinstance(owner, Gather) and place is not None and owner.fields:
        first = msgspec.structs.replace(owner.fields[0], prompt=owner.fields[0].prompt or text_of(entry.line))
        actions[place] = msgspec.structs.replace(owner, fields=(first, *owner.fields[1:]))
    elif entry.keyword.name == "ACTIONS":
        text = Raw("", runs=((0, entry.line.span.start),), span=entry.line.key_span)
        actions.append(Respond(text, choices=read_choices(reader, entry.line), span=entry.line.span))
    else:
        message = "`PROMPT` has no `COLLECT`"
        reader.error("wrong_nesting", message, entry.line.key_span, hint="Put it below the fields that it asks for")


_OUTCOMES = {"WITH", "AS", "ON_SUCCESS", "ON_FAIL", "ON_RESULT"}


def _attach(reader: Reader, actions: list[Action], entry: Entry, *, first: bool = False) -> bool:
    """Attach an outcome to its call and its checks; return whether there is one."""
    calls = [index for index, action in enumerate(actions) if isinstance(action, Call)]
    checks = [index for index, action in enumerate(actions) if isinstance(action, Check)]
    name, line = entry.keyword.name, entry.line
    if name == "ON_FAIL" and checks and (line.value is not None or not calls):
        branches = read_outcome(reader, line)
        for index in checks:
            check = actions[index]
            if isinstance(check, Check) and not check.on_fail:
                actions[index] = msgspec.structs.replace(check, on_fail=branches)
        if not calls:
            return True
    if not calls:
        return False
    at = calls[0] if first else calls[-1]
    call = actions[at]
    assert isinstance(call, Call)
    actions[at] = _with_outcome(reader, call, name, line)
    return True


def _with_outcome(reader: Reader, call: Call, name: str, line: Line) -> Call:
    field = {"WITH": "named", "AS": "result"}.get(name, name.lower())
    if getattr(call, field):
        reader.note_duplicate(line, name)
        return call
    if name == "WITH":
        return msgspec.structs.replace(call, named=tuple(mapping(line)))
    if name == "AS":
        return msgspec.structs.replace(call, result=reader.target(line.value.unquoted) if line.value else None)
    return msgspec.structs.replace(call, **{field: read_outcome(reader, line)})


# --- branches ---------------------------------------------------------------------------------------------------


def read_outcome(reader: Reader, line: Line) -> tuple[Branch, ...]:
    """Return the branches of an outcome: a list of IF and ELSE, one block, a target, or a message."""
    if line.value is not None:
        reader.refuse_nested(line, line.key or "")
        text = line.value.unquoted
        if text.literal and not _STEP.fullmatch(text.text) and (line.key or "").upper() != "THEN":
            return (Branch(body=(Respond(text, span=text.span),), span=line.span),)
        return (Branch(then=read_target(text), span=line.span),)
    if any(child.dash for child in line.children):
        return read_branches(reader, line.children, line.key or "")
    found = reader.properties(line.children, "branch", owner=line.span)
    return (_branch(reader, found, None, line.span),)


def read_branches(reader: Reader, lines: Iterable[Line], name: str) -> tuple[Branch, ...]:
    """Return the branches of a list of IF and ELSE."""
    branches: list[Branch] = []
    for line in reader.items(lines, name):
        found = reader.properties(_branch_entries(line), "branch", owner=line.span)
        if found.line("IF") is None and _is_if(line):
            # The condition had an error; without one the branch would always be taken.
            continue
        branches.append(_branch(reader, found, found.text("IF"), line.span))
    return tuple(branches)


def _is_if(line: Line) -> bool:
    return line.key is not None and line.key.upper() in ("IF", "CONDITION")


def _branch_entries(line: Line) -> tuple[Line, ...]:
    """Return the entries of a branch, including those indented deeper than IF or ELSE."""
    if line.key is None and line.text.upper() == "ELSE":
        line = msgspec.structs.replace(line, key=line.text)
    head, *rest = line.entries
    return (msgspec.structs.replace(head, children=()), *head.children, *rest)


def _branch(reader: Reader, found: Properties, condition: Raw | None, span: Span) -> Branch:
    then = found.text("THEN")
    return Branch(condition, read_actions(reader, found), read_target(then) if then else None, span=span)


def read_target(raw: Raw) -> Target:
    """Return a transition: a step, or a word such as COMPLETE, ESCALATE or HANDOFF."""
    reason = _REASON.fullmatch(raw.text)
    if reason:
        word = part(raw, 0, len("ESCALATE"))
        return Target("escalate", word, unquote(part(raw, *reason.span(1))), span=raw.span)
    first, _, rest = raw.text.partition(" ")
    kind = _WORDS.get(first.upper())
    if kind == "handoff" and rest.strip():
        return Target("handoff", part(raw, len(first), len(raw.text)), span=raw.span)
    if kind is not None and not rest:
        return Target(kind, raw, span=raw.span)
    if first.upper() in ("GOTO", "STEP", "->") and rest.strip():
        return Target("step", part(raw, len(first), len(raw.text)), span=raw.span)
    return Target("step", raw, span=raw.span)


# --- single actions ---------------------------------------------------------------------------------------------


def read_set(reader: Reader, line: Line) -> Set | None:
    """Return assignments: on the same line, one per line with or without dashes, or as `name: expression`."""
    found: list[Assignment] = []
    if line.value is not None:
        whole = line.value.raw
        for name, value in object_fields(whole) or ():
            found.append(Assignment(name, value, span=name.span.to(value.span)))
        for piece in [] if found else split(whole, "\n") if line.value.style == "block" else [whole]:
            _assign(reader, piece, found)
    for child in line.children:
        if child.key is not None and child.value is not None and split_assignment(_before_colon(child)) is None:
            target = child.name
            found.append(Assignment(target, child.value.raw, span=child.span))
        else:
            _assign(reader, item_text(child), found)
            for below in child.body:
                message = "nothing can be nested below an assignment"
                reader.error("wrong_nesting", message, below.span, hint="Put it on a line of its own")
    if not found and not line.children and line.value is None:
        reader.error("wrong_value", "`SET` assigns nothing", line.key_span, hint="SET: name = expression")
        return None
    for one in found:
        reader.target(one.target)
    return Set(tuple(found), span=line.span)


def _before_colon(line: Line) -> Raw:
    return Raw(line.key or "", span=line.key_span)


def _assign(reader: Reader, raw: Raw, found: list[Assignment]) -> None:
    sides = split_assignment(raw)
    if sides is None or not sides[0].text or not sides[1].text:
        message = f"{quote(raw.text, longest=40)} is not an assignment"
        reader.error("wrong_value", message, raw.span, hint="Write it as `name = expression`")
        return
    found.append(Assignment(*sides, span=raw.span))


def _clear(reader: Reader, line: Line) -> Clear | None:
    names = tuple(reader.target(name) for name in elements(line))
    if not names:
        reader.error("wrong_value", "`CLEAR` names nothing", line.key_span, hint="CLEAR: [name, name]")
        return None
    return Clear(names, span=line.span)


def _transform(reader: Reader, line: Line) -> Transform | None:
    found = reader.properties(line.children, "transform", owner=line.span)
    header = line.value.raw if line.value is not None else found.expression("SOURCE")
    source: Raw | None = None
    item, into = found.text("AS"), found.text("INTO")
    if header is not None:
        parts = _HEADER.fullmatch(header.text)
        assert parts is not None
        source = part(header, *parts.span("source"))
        item = item or (part(header, *parts.span("item")) if parts["item"] else None)
        into = into or (part(header, *parts.span("into")) if parts["into"] else None)
    missing = [name for name, given in (("SOURCE", source), ("AS", item), ("INTO", into)) if given is None]
    if source is None or item is None or into is None:
        message = f"`TRANSFORM` needs {' and '.join(f'`{name}`' for name in missing)}"
        reader.error("missing", message, line.key_span, hint="SOURCE: array AS item, INTO: name")
        return None
    order = found.text("SORT_BY")
    sort = _SORT.fullmatch(order.text) if order else None
    if order and not sort:
        message = f"`SORT_BY` cannot be {quote(order.text)}"
        reader.error("wrong_value", message, order.span, hint="A field, then asc or desc")
    return Transform(
        source=source,
        item=reader.name(item, "an item"),
        into=reader.target(into),
        filter=found.text("FILTER"),
        map=found.mapping("MAP"),
        sort_by=part(order, *sort.span(1)) if order and sort else None,
        descending=bool(sort and sort[2] and sort[2].casefold().startswith("desc")),
        limit=found.expression("LIMIT"),
        span=line.span,
    )


def _call(reader: Reader, line: Line) -> Call | None:
    found = reader.properties(line.children, "call", owner=line.span)
    written = line.value.unquoted if line.value is not None else found.text("TOOL")
    if written is None:
        reader.error("wrong_value", "`CALL` names no tool", line.key_span, hint="CALL: tool(argument, …)")
        return None
    called = _CALLED.fullmatch(written.text)
    tool = part(written, *called.span(1)) if called else written
    positional: list[Raw] = []
    named: list[Argument] = list(found.mapping("WITH"))
    for argument in split(part(written, *called.span(2)), ",") if called else []:
        sides = split_assignment(argument) or _name_and_value(argument)
        if sides:
            named.append(Argument(*sides, span=argument.span))
        elif argument.text:
            positional.append(argument)
    result = found.text("AS")
    result = reader.target(result) if result is not None else None
    call = Call(reader.path(tool, "a tool"), tuple(positional), tuple(named), result=result, span=line.span)
    for entry in found.entries:
        if entry.keyword.name.startswith("ON_"):
            call = _with_outcome(reader, call, entry.keyword.name, entry.line)
    return call


def _name_and_value(argument: Raw) -> tuple[Raw, Raw] | None:
    """Return name and value of an argument that is written as `name: value`."""
    sides = split_pair(argument)
    return sides if sides and _STEP.fullmatch(sides[0].text) and sides[1].text else None


def _check(reader: Reader, line: Line) -> Check | None:
    return Check(line.value.unquoted, span=line.span) if line.value else None


def _respond(reader: Reader, line: Line) -> Respond | None:
    text = text_of(line)
    if text is None:
        return None
    choices = read_reply(reader, line)
    named = None if text.literal else _TEMPLATE.fullmatch(text.text)
    if named:
        return Respond(unquote(part(text, *named.span(1))), named=True, choices=choices, span=line.span)
    return Respond(text, choices=choices, span=line.span)


def read_reply(reader: Reader, line: Line) -> tuple[Choice, ...]:
    """Return the choices that are nested below a message, among other forms of it."""
    if line.value is None or not line.children:
        return ()
    found = reader.properties(line.children, "reply", owner=line.span)
    actions = found.line("ACTIONS")
    return read_choices(reader, actions) if actions else ()


def read_choices(reader: Reader, line: Line) -> tuple[Choice, ...]:
    """Return the buttons and options of `ACTIONS`."""
    choices: list[Choice] = []
    for item in line.children:
        if not item.dash:
            message = f"{quote(item.key or item.text)} has no effect: how a form is drawn"
            reader.warning("not_acted_on", message, item.key_span)
            continue
        found = reader.properties(expand_item(item).entries, "element", owner=item.span)
        options = found.line("options")
        label = found.text("label") or found.text("value") or found.text("id")
        if options is not None:
            choices.extend(read_choices(reader, options))
        elif label is not None:
            # `- BUTTON: "Label" -> id`
            line_of_label = found.line("label")
            value = line_of_label.value if line_of_label else None
            sides = split_arrow(value.raw) if value is not None and value.style == "plain" else None
            label, id = (unquote(sides[0]), sides[1]) if sides else (label, found.text("id"))
            choices.append(Choice(label, id, found.text("value"), span=item.span))
    return tuple(choices)


def _log(reader: Reader, line: Line) -> Log | None:
    if line.value is None:
        given = {(child.key or "").casefold(): child for child in line.children}
        message = given.get("message")
        return Log(text_of(message), span=line.span) if message else None
    fields = object_fields(line.value.raw)
    if fields is not None:
        return Log(names=tuple(name for name, _ in fields), span=line.span)
    return Log(line.value.unquoted, span=line.span)


def _collect(reader: Reader, line: Line) -> Gather:
    names = [reader.name(name, "a field") for name in elements(line)]
    return _build_gather(reader, line, [Field(name, span=name.span) for name in names], [])


def _present(reader: Reader, line: Line) -> Present | None:
    text = text_of(line)
    return Present(text, span=line.span) if text else None


def _consult(reader: Reader, line: Line) -> Consult | None:
    return Consult(line.value.unquoted, span=line.span) if line.value else None


_MAKERS: dict[str, _Maker] = {
    "SET": read_set,
    "CLEAR": _clear,
    "TRANSFORM": _transform,
    "CALL": _call,
    "CHECK": _check,
    "RESPOND": _respond,
    "LOG": _log,
    "COLLECT": _collect,
    "PRESENT": _present,
    "GATHER": read_gather,
    "DELEGATE": _consult,
}
