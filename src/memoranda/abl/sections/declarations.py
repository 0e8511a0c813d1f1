"""Read what an agent declares: `MEMORY`, `CONSTRAINTS` and `TOOLS`."""

from __future__ import annotations

import re
from typing import Literal, cast

from msgspec.structs import replace

from memoranda.abl.document import (
    Access,
    Argument,
    Before,
    Memory,
    MemoryScope,
    OnFail,
    PersistentVariable,
    Phase,
    Recall,
    Remember,
    Rule,
    SessionVariable,
    Tool,
    ToolParameter,
)
from memoranda.abl.keywords import LEVELS, RETIRED_EVENTS, RULES
from memoranda.abl.lines import (
    CLOSERS,
    OPENERS,
    Line,
    part,
    split,
    split_arrow,
    split_assignment,
    split_pair,
    top_level_characters,
    unquote,
)
from memoranda.abl.reader import Properties, Reader, item_text, mapping, text_of
from memoranda.lang.diagnostics import did_you_mean
from memoranda.lang.document import Raw
from memoranda.lang.source import Span
from memoranda.model.text import quote


def read_memory(reader: Reader, lines: tuple[Line, ...], span: Span) -> Memory:
    """Read the whole section."""
    table = LEVELS["memory"]
    # People also declare session variables directly below the section, as `name:` with properties.
    named = [line for line in lines if line.key and not table.find(line.key) and _has_properties(line)]
    found = reader.properties((line for line in lines if line not in named), "memory", owner=span)
    declared = [_persistent(reader, line) for line in reader.items(found.below("persistent"), "persistent")]
    short = _short_declarations(reader, found)
    items = (*named, *reader.items(found.below("session"), "session"))
    session = [_session(reader, line) for line in items]
    reader.note_duplicates(variable.name for variable in session)
    reader.note_duplicates(variable.path for variable in declared)
    return Memory(
        session=tuple(session),
        persistent=(*declared, *short),
        remember=tuple(
            filter(None, [_remember(reader, line) for line in reader.items(found.below("remember"), "remember")])
        ),
        recall=tuple(filter(None, [_recall(reader, line) for line in reader.items(found.below("recall"), "recall")])),
        span=span,
    )


def _has_properties(line: Line) -> bool:
    table = LEVELS["session variable"]
    return bool(line.children) and all(child.key and table.find(child.key) for child in line.children)


def _name_and_properties(reader: Reader, line: Line, level: str, keyword: str) -> tuple[Raw, Properties]:
    if line.key is None or not LEVELS[level].find(line.key):
        # People also write `- name:` with properties below it.
        bare = line.raw if line.key is None else line.name
        if line.value is not None:
            message = f"{quote(line.value.text, longest=40)} cannot follow a name"
            reader.error("wrong_nesting", message, line.value.span, hint="Put properties on lines below it")
        return bare, reader.properties(line.body, level, owner=line.span)
    found = reader.properties(line.entries, level, owner=line.span)
    raw = found.text(keyword)
    if raw is None:
        reader.error("missing", f"`{keyword}` is missing {LEVELS[level].where}", line.span, hint="Name the variable")
        raw = Raw("", span=line.span)
    return raw, found


def _session(reader: Reader, line: Line) -> SessionVariable:
    bare, found = _name_and_properties(reader, line, "session variable", "NAME")
    return SessionVariable(
        name=reader.name(bare, "a session variable") if bare.text else bare,
        type=found.type("TYPE"),
        description=found.text("DESCRIPTION"),
        initial=found.expression("INITIAL"),
        reset=found.choice("RESET") or "per_session",
        input=found.flag("INPUT"),
        span=line.span,
    )


def _persistent(reader: Reader, line: Line) -> PersistentVariable:
    bare, found = _name_and_properties(reader, line, "persistent variable", "PATH")
    return PersistentVariable(
        path=reader.path(bare, "a persistent variable") if bare.text else bare,
        declared_scope=cast("MemoryScope | None", found.choice("SCOPE")),
        access=cast("Access", found.choice("ACCESS") or "readwrite"),
        type=found.type("TYPE"),
        unit=found.text("UNIT"),
        default=found.expression("DEFAULT"),
        description=found.text("DESCRIPTION"),
        sensitive=found.flag("SENSITIVE"),
        display=found.choice("SENSITIVE_DISPLAY"),
        mask=found.mapping("MASK_CONFIG"),
        span=line.span,
    )


def _short_declarations(reader: Reader, found: Properties) -> list[PersistentVariable]:
    """Return the paths of READS and WRITES; one that is in both may be read and written."""
    access: dict[str, tuple[Raw, Access]] = {}
    for name, direction in (("READS", "read"), ("WRITES", "write")):
        for path in found.names(name):
            path = reader.path(path, "a persistent variable")
            both = path.text in access and access[path.text][1] != direction
            access[path.text] = (path, "readwrite" if both else cast("Access", direction))
    return [PersistentVariable(path=path, access=way, span=path.span) for path, way in access.values()]


def _remember(reader: Reader, line: Line) -> Remember | None:
    if line.key is None and line.text[:5].upper() == "WHEN ":
        # People also write `- WHEN condition` without a colon.
        when = part(line.raw, 5, len(line.text))
        found = reader.properties(line.body, "remember", owner=line.span, required=False)
        if found.line("STORE") is None:
            reader.error(
                "missing", "`STORE` is missing in an item of `remember`", line.span, hint="STORE: value -> path"
            )
    else:
        found = reader.properties(line.entries, "remember", owner=line.span)
        when = found.text("WHEN")
    store = found.line("STORE")
    if when is None or store is None:
        return None
    # The value may also be on the line below.
    written = store.value.raw if store.value is not None and store.value.style != "quoted" else text_of(store)
    if written is None:
        reader.error("wrong_value", "`STORE` needs a value and a path", store.key_span, hint="STORE: value -> path")
        return None
    sides = split_arrow(written)
    if sides is None or not sides[0].text or not sides[1].text:
        message = f"`STORE` does not say where {quote(written.text, longest=40)} goes"
        reader.error("wrong_value", message, written.span, hint="Write it as `value -> path`")
        return None
    value, target = sides
    return Remember(
        when=when,
        value=value,
        target=reader.path(target, "a persistent variable"),
        ttl=found.text("TTL"),
        span=line.span,
    )


def _recall(reader: Reader, line: Line) -> Recall | None:
    retired = _event_of_old_form(line)
    if retired and line.key and line.value:
        reader.warning(
            "retired",
            f"`{line.key}` is the name of an event in an earlier version of the language",
            line.key_span,
            hint=f"Write `- ON: {retired}` and the text as `INSTRUCTION:` below it",
        )
        found = reader.properties(line.body, "recall", owner=line.span, required=False)
        on = Raw(retired, runs=((0, line.key_span.start),), span=line.key_span)
        instruction = line.value.unquoted
    else:
        found = reader.properties(line.entries, "recall", owner=line.span)
        on, instruction = found.text("ON"), found.text("INSTRUCTION")
    if on is None:
        return None
    return Recall(
        on=on,
        action=found.choice("ACTION"),
        instruction=instruction,
        paths=tuple(reader.path(path, "a persistent variable") for path in found.names("PATHS")),
        domain=found.text("DOMAIN"),
        span=line.span,
    )


def _event_of_old_form(line: Line) -> str | None:
    """Return the event of `ON_START: "text"` and its kin; one without a successor is the name of a tool or a field."""
    word = (line.key or "").upper()
    if not word.startswith("ON_") or line.value is None or LEVELS["recall"].find(word):
        return RETIRED_EVENTS.get(word)
    return RETIRED_EVENTS.get(word, f"entity:{word[3:].lower()}:extracted")


_WORD = re.compile(r"[A-Za-z_]+")
_BEFORE = re.compile(r"(?:BEFORE|before|Before)(?=\s|$)")
_CALLING = re.compile(r"calling\s+(\S+)$", re.IGNORECASE)
_RETURNING = re.compile(r"returning\s+results?$", re.IGNORECASE)
_ACTION = re.compile(
    r"(?P<word>handoff|goto)(?:\s*+:\s*+|\s++)(?:to\s++)?+(?P<target>[^\W\d][\w\-]*+)"
    r"|(?P<alone>block|escalate)(?:(?:\s*+:|\s++with\s++reason\b\s*+:?+|\s)\s*+(?P<reason>\S.*+))?+|(?P<retry>retry)",
    re.IGNORECASE | re.DOTALL,
)
"""What `ON_FAIL` says in one line, in any case: an action with its target or reason."""


def read_constraints(reader: Reader, lines: tuple[Line, ...]) -> tuple[Phase, ...]:
    """Read the whole section: labels with rules below them, or rules without a label."""
    phases: list[Phase] = []
    loose = tuple(line for line in lines if line.dash or _begins_rule(line))
    if loose:
        phases.append(_phase(reader, None, loose, loose[0].span))
    for line in lines:
        if line in loose:
            continue
        if line.key is None or line.value is not None:
            reader.error(
                "wrong_nesting",
                f"{quote(line.text, longest=40)} is neither a label nor a rule of `CONSTRAINTS`",
                line.span,
                hint="Write `label:` and the rules below it as `- REQUIRE condition`",
            )
            continue
        label = line.name
        bare = [child for child in line.children if not child.dash and _begins_rule(child)]
        items = reader.items((child for child in line.children if child not in bare), line.key)
        phases.append(_phase(reader, label, tuple(sorted((*items, *bare), key=_start)), line.span))
    reader.note_duplicates(phase.label for phase in phases if phase.label)
    return tuple(phases)


def _begins_rule(line: Line) -> bool:
    """Return whether a line without a dash is a rule: `REQUIRE condition`."""
    word = _WORD.match(line.text)
    return word is not None and word[0] in RULES


def _start(line: Line) -> int:
    return line.span.start


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
    """Return a rule, the text of an item that is not a rule, or None with a diagnostic."""
    if line.key is not None and line.key.upper() in (*RULES, "WHEN", "BEFORE", "ON_FAIL", "SEVERITY", "NAME"):
        return _rule_with_colon(reader, line)
    whole = item_text(line)
    word = _WORD.match(whole.text)
    keyword = word[0] if word else ""
    if keyword.upper() not in RULES:
        return _read_remark(reader, line, keyword)
    found = reader.properties(line.body, "rule", owner=line.span)
    if keyword != keyword.upper():
        message = f"the keyword {quote(keyword)} is usually written `{keyword.upper()}`"
        reader.warning("keyword_case", message, Span(whole.span.start, whole.span.start + len(keyword)))
    return _build_rule(reader, line, keyword.upper(), part(whole, len(keyword), len(whole.text)), found)


def _read_remark(reader: Reader, line: Line, keyword: str) -> Raw | None:
    near = did_you_mean(keyword, RULES)
    if near and line.key is None and item_text(line).text == line.text:
        message = f"{quote(keyword)} is not a keyword of a rule"
        reader.error("unknown_keyword", message, Span(line.span.start, line.span.start + len(keyword)), hint=near)
        return None
    reader.warning(
        "no_rule",
        f"{quote(line.text, longest=40)} is not a rule and has no effect",
        line.span,
        hint=f"Begin a rule with {', '.join(RULES)}",
    )
    return item_text(line)


def _rule_with_colon(reader: Reader, line: Line) -> Rule | None:
    """Read `- REQUIRE: condition`, a rule whose keyword has a colon."""
    found = reader.properties(line.entries, "rule", owner=line.span)
    given = [name for name in RULES if found.line(name)]
    if len(given) != 1:
        message = "a rule needs exactly one of " + ", ".join(RULES)
        reader.error("missing", message, line.span, hint="Write `- REQUIRE condition`")
        return None
    condition = found.text(given[0])
    return _build_rule(reader, line, given[0], condition, found) if condition else None


def _build_rule(reader: Reader, line: Line, keyword: str, condition: Raw, found: Properties) -> Rule | None:
    condition, clause = _split_before(condition)
    if not condition.text:
        message = f"`{keyword}` has no condition"
        reader.error("wrong_value", message, line.span, hint=f"Write `{keyword} condition`")
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
    """Split a condition from the `BEFORE …` at its end."""
    if "before" not in condition.text.casefold():
        return condition, None
    cuts = [
        offset
        for offset, _ in top_level_characters(condition.text)
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


def _failure(reader: Reader, line: Line) -> OnFail | None:
    if line.value is None:
        found = reader.properties(line.children, "failure", owner=line.span)
        return OnFail(
            "escalate" if found.line("ESCALATE") else "structured",
            respond=found.text("RESPOND"),
            handoff=found.text("HANDOFF"),
            collect=found.names("COLLECT"),
            goto=found.text("GOTO"),
            retry=found.flag("RETRY"),
            then=found.choice("THEN"),
            reason=found.text("ESCALATE"),
            span=line.span,
        )
    reader.refuse_nested(line, "ON_FAIL")
    text = line.value.unquoted
    action = None if line.value.style == "block" else _ACTION.fullmatch(text.text)
    # A message may begin with such a word.
    if action is None or (line.value.style == "quoted" and (action["reason"] or action["word"])):
        respond = text.text[:8].upper() == "RESPOND " and not text.literal
        return OnFail("respond", respond=unquote(part(text, 8, len(text.text))) if respond else text, span=line.span)
    if action["word"]:
        target = part(text, *action.span("target"))
        if action["word"].casefold() == "goto":
            return OnFail("structured", goto=target, span=line.span)
        return OnFail("handoff", handoff=target, span=line.span)
    if action["retry"]:
        return OnFail("structured", retry=True, span=line.span)
    reason = unquote(part(text, *action.span("reason"))) if action["reason"] else None
    return OnFail("escalate" if action["alone"].casefold() == "escalate" else "block", reason=reason, span=line.span)


_NAME = re.compile(r"\s*([^\W\d][\w.\-]*)\s*")


def read_tools(reader: Reader, lines: tuple[Line, ...]) -> tuple[Tool, ...]:
    """Read the whole section: `name(parameter: type = default) -> type` with properties below it."""
    table = LEVELS["tools"]
    shared = [line for line in lines if line.key and not line.dash and table.find(line.key) and not _is_tool(line)]
    defaults = reader.properties(shared, "tools", owner=lines[0].span if lines else Span(0, 0))
    tools: list[Tool] = []
    for line in lines:
        tool = None if line in shared else _tool(reader, line)
        if tool is not None:
            tools.append(_with_defaults(tool, defaults) if shared else tool)
    reader.note_duplicates(tool.name for tool in tools)
    return tuple(tools)


def _is_tool(line: Line) -> bool:
    """Return whether a line with the name of a shared keyword declares a tool of that name."""
    return line.value is None and any(LEVELS["tool"].find(child.key or "") for child in line.children)


def _with_defaults(tool: Tool, shared: Properties) -> Tool:
    """Return a tool with what is declared once for all tools, where it says nothing itself."""
    base, auth = shared.text("base_url"), shared.text("auth")
    endpoint = tool.endpoint
    if base is not None and endpoint is not None and endpoint.text.startswith("/"):
        # The two texts are at different places, so a diagnostic about both names the first.
        whole = base.text.rstrip("/") + endpoint.text
        endpoint = replace(endpoint, text=whole, runs=((0, base.span.start),), span=base.span)
    own = {argument.name.text.casefold() for argument in tool.headers}
    headers = (argument for argument in shared.mapping("headers") if argument.name.text.casefold() not in own)
    return replace(
        tool,
        endpoint=endpoint,
        headers=(*tool.headers, *headers),
        auth=tool.auth or (auth.text.casefold() if auth else None),
        auth_config=tool.auth_config or _auth_config(shared),
        timeout=tool.timeout if tool.timeout is not None else shared.integer("timeout"),
        retry=tool.retry or shared.integer("retry") or 0,
        retry_delay=tool.retry_delay if tool.retry_delay is not None else shared.integer("retry_delay"),
    )


def _tool(reader: Reader, line: Line) -> Tool | None:
    if line.key is None:
        return _from_signature(reader, line)
    if line.dash and LEVELS["tool"].find(line.key):
        found = reader.properties(line.entries, "tool", owner=line.span)
        name = found.text("name")
        if name is None:
            reader.error("missing", "a tool without a name", line.span, hint="name: the_tool")
            return None
        return _build_tool(line, reader.path(name, "a tool"), _parameters_in_detail(found), _returns(found), found)
    if line.value is None and line.body:
        name = line.name
        found = reader.properties(line.body, "tool", owner=line.span)
        return _build_tool(line, reader.path(name, "a tool"), _parameters_in_detail(found), _returns(found), found)
    first = line.key.partition(" ")[0].upper()
    if first in ("FROM", "USE", "IMPORT"):
        reader.warning("not_acted_on", f"`{first}` has no effect: tools of another file", line.key_span)
        return None
    if line.dash and line.value is not None:
        # `- name: what it does`
        found = reader.properties(line.body, "tool", owner=line.span)
        tool = _build_tool(line, reader.path(line.name, "a tool"), (), None, found)
        return replace(tool, description=tool.description or line.value.unquoted)
    reader.error(
        "wrong_nesting",
        f"{quote(line.text, longest=40)} is not a tool",
        line.span,
        hint="Write it as `name(parameter: type) -> type`",
    )
    return None


def _from_signature(reader: Reader, line: Line) -> Tool | None:
    whole = line.raw
    found = reader.properties(line.body, "tool", owner=line.span)
    named = _NAME.match(whole.text)
    brackets = _brackets(whole.text, named.end()) if named else None
    if whole.text[-1:] in OPENERS:
        return None  # The lines already have a diagnostic for the open bracket.
    if named is None or (brackets is None and whole.text[named.end() :].strip()[:2] not in ("", "->")):
        reader.error(
            "bad_signature",
            f"{quote(whole.text, longest=60)} is not the signature of a tool",
            whole.span,
            hint="Write it as `name(parameter: type = default) -> type`",
        )
        return None
    parameters: tuple[ToolParameter, ...] = ()
    after = named.end()
    if brackets is not None:
        inner = part(whole, brackets[0] + 1, brackets[1])
        parameters = tuple(_parameter(reader, piece) for piece in split(inner, ",") if piece.text)
        after = brackets[1] + 1
    rest = part(whole, after, len(whole.text))
    sides = split_arrow(rest)
    if rest.text and (sides is None or sides[0].text):
        message = f"{quote(rest.text, longest=40)} cannot follow the parameters of a tool"
        reader.error("bad_signature", message, rest.span, hint="Write the type it returns as `-> type`")
    reader.note_duplicates(parameter.name for parameter in parameters)
    return _build_tool(line, part(whole, *named.span(1)), parameters, sides[1] if sides else _returns(found), found)


def _brackets(text: str, start: int) -> tuple[int, int] | None:
    """Return the offsets of the round brackets after a name."""
    if text[start : start + 1] != "(":
        return None
    depth = 0
    for offset, character in top_level_characters(text, brackets=True):
        if offset >= start:
            depth += (character in OPENERS) - (character in CLOSERS)
            if depth == 0:
                return start, offset
    return None


def _parameter(reader: Reader, raw: Raw) -> ToolParameter:
    sides = split_assignment(raw)
    head, default = sides if sides else (raw, None)
    typed = split_pair(head)
    name, kind = typed if typed else (head, None)
    optional = name.text.endswith("?")
    if optional:
        name = part(name, 0, len(name.text) - 1)
    return ToolParameter(
        reader.name(name, "a parameter"), kind, default, required=default is None and not optional, span=raw.span
    )


def _parameters_in_detail(found: Properties) -> tuple[ToolParameter, ...]:
    """Return the parameters of a tool without a signature: items with `name`, or a block per parameter."""
    parameters: list[ToolParameter] = []
    for line in found.below("parameters"):
        given = {(entry.key or "").casefold(): entry for entry in (line.entries if line.dash else line.children)}
        named = given.get("name") if line.dash else None
        if named is not None and named.value is not None:
            name = named.value.unquoted
        elif line.key is not None:
            name = line.name
        else:
            name = line.raw
        default = _value(given.get("default"))
        wanted = _value(given.get("required"))
        required = default is None if wanted is None else wanted.text.casefold() == "true"
        kind = _value(given.get("type")) or (_value(line) if not line.dash else None)
        parameters.append(
            ToolParameter(name, unquote(kind) if kind else None, default, required=required, span=line.span)
        )
    return tuple(parameters)


def _value(line: Line | None) -> Raw | None:
    if line is None or line.value is None:
        return None
    remark = _REMARK.search(line.value.text) if line.value.style == "plain" else None
    return part(line.value.raw, 0, remark.start()) if remark else line.value.raw


_REMARK = re.compile(r"(?<!\s)\s++#(?=\s)")


def _returns(found: Properties) -> Raw | None:
    """Return the result type of a tool as a signature writes it."""
    line = found.line("returns")
    if line is None or line.value is not None:
        return _value(line)
    return Raw(_type(line.children), span=line.span)


def _type(lines: tuple[Line, ...]) -> str:
    """Return `type: object` with `fields` below it as `{field: type}`."""
    given = {(line.key or "").casefold(): line for line in lines}
    fields = given.get("fields") or given.get("properties")
    if fields is not None:
        return "{" + ", ".join(f"{line.key}: {_field_type(line)}" for line in fields.children) + "}"
    kind = given.get("type")
    if kind is not None and kind.value is not None:
        return kind.value.unquoted.text
    return "{" + ", ".join(f"{line.key}: {_field_type(line)}" for line in lines) + "}"


def _field_type(line: Line) -> str:
    return line.value.unquoted.text if line.value is not None else _type(line.children)


def _auth_config(found: Properties) -> tuple[Argument, ...]:
    """Return the pairs of `auth_config`; those below `custom_headers` are pairs of it too."""
    line = found.line("auth_config")
    if line is None or line.value is not None:
        return found.mapping("auth_config")
    inner = [child for child in line.children if child.value is None and child.children]
    whole = replace(line, children=tuple(child for child in line.children if child not in inner))
    return (*mapping(whole), *(pair for child in inner for pair in mapping(child)))


def _build_tool(
    line: Line, name: Raw, parameters: tuple[ToolParameter, ...], returns: Raw | None, found: Properties
) -> Tool:
    kind, method, auth = found.text("type"), found.text("method"), found.text("auth")
    details = found.line("parameters")
    kept = (*found.kept, details) if details is not None and line.key is None else found.kept
    return Tool(
        name=name,
        parameters=parameters,
        returns=returns,
        description=found.text("description"),
        type=kind.text.casefold() if kind else None,
        endpoint=found.text("endpoint"),
        method=method.text.upper() if method else None,
        headers=found.mapping("headers"),
        auth=auth.text.casefold() if auth else None,
        auth_config=_auth_config(found),
        query_params=found.mapping("query_params"),
        body=found.text("body_template"),
        timeout=found.integer("timeout"),
        retry=found.integer("retry") or 0,
        retry_delay=found.integer("retry_delay"),
        kept=kept,
        span=line.span,
    )
