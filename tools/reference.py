"""Write the reference pages for settings, REST routes and the Python API: `python tools/reference.py`.

They are made from the fields of the server's settings, `docs/openapi.json` and docstrings, and a test compares them.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import memoranda
from memoranda.errors import MemorandaError
from memoranda.server import environment
from memoranda.server import settings as server_settings

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs/reference"
WIDTH = 120

_NOTE = "<!-- Written by `python tools/reference.py`; a test compares. Change the code, then run it. -->"


def page(title: str, *parts: str) -> str:
    """Return a page that says by whom it was written."""
    return "\n\n".join((f"# {title}", _NOTE, *(part.strip("\n") for part in parts))) + "\n"


def prose(text: str) -> str:
    """Return a paragraph in lines that fit."""
    return textwrap.fill(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False)


def contents(parts: list[str]) -> str:
    """Return links to the sections, and to what is in each; of two headings that read alike the second is numbered."""
    lines: list[str] = []
    seen: Counter[str] = Counter()
    section = ""
    for level, title in re.findall(r"^(#{2,3}) (.+)$", "\n\n".join(parts), re.MULTILINE):
        anchor = re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-")
        link = f"(#{anchor}{f'-{seen[anchor]}' if seen[anchor] else ''})"
        seen[anchor] += 1
        if level == "##":
            section = title
            lines.append(f"- [{title}]{link}:")
        else:
            lines[-1] += f" [{title.removeprefix(section + '.')}]{link} ·"
    return "\n".join(textwrap.fill(line.rstrip(" ·:"), WIDTH, **_LISTED) for line in lines)


_LISTED: dict[str, Any] = {"subsequent_indent": "  ", "break_long_words": False, "break_on_hyphens": False}


# settings


_ONLY_HERE = {
    "tenant": ("default", "The tenant of commands; the server takes it from the key of each request."),
    "config": ("", "A file of settings in TOML; in the environment or as `--config`, never in the file itself."),
}


def settings_page() -> str:
    """Return the table of all settings: each with its variable, its default and what it means."""
    meanings = _meanings()
    defaults = {
        name: one.default for name, one in server_settings.Settings.__dataclass_fields__.items() if name in meanings
    }
    rows = ["| setting | variable | default | meaning |", "|---|---|---|---|"]
    for name, variable in environment.VARIABLES.items():
        default, meaning = _ONLY_HERE[name] if name in _ONLY_HERE else (defaults[name], meanings[name])
        shown = _default(default)
        rows.append(f"| `{name}` | `{variable}` | {shown} | {_cell(meaning)} |")
    return page(
        "Settings",
        prose(
            "What commands and the server go by. A flag beats the environment, which beats the file that `--config` or "
            "`MEMORANDA_CONFIG` names, which beats the default; `memoranda config show` says what is in force and why. "
            "The Python package reads none of them: what a program opens is what it says."
        ),
        "\n".join(rows),
        prose(
            "In the environment a list is written with commas, what is true or false as `true` or `false`. Keys of "
            "models are variables of their providers, and `OPENAI_BASE_URL` is the address of another server for "
            "`openai-chat:` models, see [chat](../chat.md#model-names-and-other-servers); address and key of an "
            "embedder are in [embedders](../embedders.md#an-openai-compatible-server); the client reads "
            "`MEMORANDA_API_KEY`. How to set the server's is in [operations](../operations.md)."
        ),
    )


def _meanings() -> dict[str, str]:
    """Return the docstring below each field of the server's settings."""
    tree = ast.parse(inspect.getsource(server_settings))
    fields = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Settings").body
    found: dict[str, str] = {}
    for field, below in zip(fields, [*fields[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            said = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            assert said, f"the setting `{field.target.id}` does not say what it means"
            found[field.target.id] = str(below.value.value)
    return found


def _default(value: Any) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`" if value not in ("", ()) else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# REST


_GROUPS = {
    "Memory blocks": ("/api/v1/memory/blocks", "/api/v1/memory/recall"),
    "Facts by key": ("/api/v1/memory/facts", "/api/v1/memory/end"),
    "Definitions of keys": ("/api/v1/memory/definitions",),
    "Semantic memory": (
        *("/api/v1/remember", "/api/v1/recall", "/api/v1/collections", "/api/v1/entries"),
        *("/api/v1/namespaces", "/api/v1/scopes"),
    ),
    "Learning, and what to tell an agent": ("/api/v1/memory/learn", "/api/v1/memory/context"),
    "Forgetting and rejecting": (
        *("/api/v1/memory/forget", "/api/v1/memory/supersede", "/api/v1/memory/probe", "/api/v1/memory/undo"),
        "/api/v1/rejections",
    ),
    "Lineage and containment": (
        *("/api/v1/memory/lineage", "/api/v1/memory/copy", "/api/v1/memory/validate", "/api/v1/taint"),
    ),
    "Chat": ("/api/v1/agent/", "/api/v1/conversations", "/api/v1/sleep"),
    "ABL agents and their sessions": ("/api/v1/agents", "/api/v1/sessions"),
    "Machines, workflows and their runs": (
        "/api/v1/machines",
        "/api/v1/workflows",
        "/api/v1/runs",
        "/api/v1/programs",
    ),
    "Approvals, permissions and roles": (
        "/api/v1/approvals",
        "/api/v1/conflicts",
        "/api/v1/guard",
        "/api/v1/quarantine",
        "/api/v1/permissions",
        "/api/v1/roles",
    ),
    "API keys": ("/api/v1/keys",),
    "Ledger and upkeep": ("/api/v1/ledger", "/api/v1/erase", "/api/v1/sweep", "/api/v1/export", "/api/v1/import"),
    "Is it well?": ("/health", "/ready", "/metrics"),
}


def rest_page() -> str:
    """Return every route of the server with what it takes and gives, and every shape that these name."""
    document = json.loads((ROOT / "docs/openapi.json").read_text(encoding="utf-8"))
    parts: list[str] = []
    missing = set(document["paths"])
    for title, prefixes in _GROUPS.items():
        paths = [path for path in document["paths"] if path.startswith(prefixes)]
        missing -= set(paths)
        parts += [f"## {title}", *(_route(path, verb, call) for path in paths for verb, call in _calls(document, path))]
    assert not missing, f"no group has {sorted(missing)}"
    assert not {title.lower() for title in _GROUPS} & {name.lower() for name in document["components"]["schemas"]}
    shapes = [_shape(name, shape) for name, shape in sorted(document["components"]["schemas"].items())]
    return page(
        "REST",
        prose(
            "Every route of a [server](../server.md), from [openapi.json](../openapi.json), which a server also gives "
            "at `/openapi.json`. Requests carry `Authorization: Bearer <key>`; bodies and answers are JSON. What goes "
            "wrong is a [problem](#problem) with a [code](../errors.md#over-http)."
        ),
        "Requests that write may also carry",
        "\n".join(map(_parameter, document["components"]["parameters"].values())),
        contents([part for part in parts if part.startswith("## ")]),
        *parts,
        "## Shapes",
        prose("A field with a star has to be there."),
        *shapes,
    )


def _calls(document: dict[str, Any], path: str) -> list[tuple[str, dict[str, Any]]]:
    order = ("get", "post", "put", "patch", "delete")
    return sorted(document["paths"][path].items(), key=lambda call: order.index(call[0]))


def _route(path: str, verb: str, call: dict[str, Any]) -> str:
    lines = [f"### `{verb.upper()} {path}`", "", prose(call["description"])]
    # Those that all writing routes share are at the top of the page.
    given = [_parameter(one) for one in call.get("parameters", ()) if "$ref" not in one]
    if body := call.get("requestBody"):
        given.append(f"- body: {', '.join(_kind(one.get('schema', {})) for one in body['content'].values())}")
    answers = sorted(
        {
            f"- {status}: {', '.join(_media(kind, one) for kind, one in answer.get('content', {}).items()) or 'empty'}"
            for status, answer in call["responses"].items()
            if status < "400"
        }
    )
    return "\n".join([*lines, "", *given, *answers])


def _parameter(one: dict[str, Any]) -> str:
    where = {"path": "in the path", "query": "query", "header": "header"}[one["in"]]
    star = "*" if one.get("required") and one["in"] != "path" else ""
    said = f": {_cell(one['description'])}" if one.get("description") else ""
    return f"- `{one['name']}`{star} ({where}, {_kind(one['schema'])}){said}"


def _media(kind: str, one: dict[str, Any]) -> str:
    return _kind(one.get("schema", {})) if kind == "application/json" else f"`{kind}`"


def _kind(schema: dict[str, Any]) -> str:
    """Return in a few words what a schema allows."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    several = schema.get("oneOf") or schema.get("anyOf")
    if several:
        kinds = [_kind(one) for one in several if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds)) + (" or null" if len(kinds) < len(several) else "")
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " or ".join("null" if value is None else f"`{value}`" for value in values)
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    kind = schema.get("type", "any JSON")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _shape(name: str, shape: dict[str, Any]) -> str:
    rows = [f"### {name}", ""]
    if shape.get("description"):
        rows += [prose(shape["description"]), ""]
    required = set(shape.get("required", ()))
    for field, schema in shape.get("properties", {}).items():
        said = f": {_cell(schema['description'])}" if schema.get("description") else ""
        rows.append(f"- `{field}`{'*' if field in required else ''} ({_kind(schema)}){said}")
    if not shape.get("properties"):
        rows.append(f"- {_kind(shape)}")
    return "\n".join(rows)


# Python


MODULES = tuple(
    f"memoranda{name}" for name in ("", ".chat", ".sleep", ".abl", ".mashin", ".workflow", ".client", ".testing")
)
"""What programs import from."""

_MADE_BY_CALLS = frozenset(
    ("Batch", "Memory", "ScopedMemory", "AsyncMemory", "Agent", "Session", "Machine", "Run", "Workflow")
)
"""Classes whose objects other calls give: how they are created is not documented."""


def python_page() -> str:
    """Return every public name with its signature and what its docstring says."""
    parts: list[str] = []
    for name in MODULES:
        module = importlib.import_module(name)
        parts += [f"## {name}", _said(module), *_names(module)]
    return page(
        "Python",
        prose(
            "Every public name, from its docstring; the examples in them are run by `make test`. Errors are in "
            "[errors](../errors.md). `AsyncMemory` has the calls of `Memory`, awaited, and `AsyncClient` those of "
            "`Client`."
        ),
        contents(parts),
        *parts,
    )


def _names(module: ModuleType) -> Iterator[str]:
    for public in module.__all__:
        thing = getattr(module, public)
        if inspect.ismodule(thing) or (inspect.isclass(thing) and issubclass(thing, MemorandaError)):
            continue
        if module is not memoranda and public in memoranda.__all__ and getattr(memoranda, public) is thing:
            continue
        if public == "AsyncClient":
            continue
        title = f"{module.__name__}.{public}"
        if inspect.isclass(thing):
            yield from _class(thing, title)
        elif callable(thing):
            yield "\n".join([f"### {title}", "", *_signature(thing, public), "", _said(thing)])
        else:
            yield f"### {title}\n\n{_constant(module, public)}"
    if module.__name__ == "memoranda":
        for place, kind in _parts(memoranda.Memory, "memory") + _parts(memoranda.ScopedMemory, "scoped"):
            yield from _class(kind, place, made=True)
    if module.__name__ == "memoranda.client":
        client = memoranda.Client("http://127.0.0.1:1", "mk_none")
        for name, part in vars(client).items():
            if not name.startswith("_") and hasattr(part, "_connection"):
                yield from _class(type(part), f"client.{name}", made=True)
        client.close()


def _parts(owner: type, name: str) -> list[tuple[str, type]]:
    """Return the handles that a handle has as properties, by how they are reached."""
    found: list[tuple[str, type]] = []
    for attribute, value in vars(owner).items():
        if isinstance(value, property) and value.fget is not None:
            kind = value.fget.__globals__.get(value.fget.__annotations__.get("return", ""))
            if inspect.isclass(kind) and kind.__module__.startswith("memoranda.api"):
                found.append((f"{name}.{attribute}", kind))
    return found


def _class(thing: type, title: str, *, made: bool = False) -> Iterator[str]:
    lines = [f"### {title}", ""]
    if not made and "__init__" in vars(thing) and thing.__name__ not in _MADE_BY_CALLS:
        lines += [*_signature(thing, thing.__name__), ""]
    lines.append(_said(thing))
    if fields := _fields(thing):
        lines += ["", *fields]
    for name, member in _members(thing).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            lines += ["", f"- `{name}`: {_first(member)}"]
        elif inspect.isfunction(member) or isinstance(member, classmethod | staticmethod):
            call = getattr(thing, name)
            called = f"{title if made else thing.__name__}.{name}"
            lines += ["", *_signature(call, called), "", _said(call)]
    yield re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip()


def _members(thing: type) -> dict[str, Any]:
    """Return the members of a class, and those that programs and runs of every language have."""
    bases = [one for one in thing.__mro__[1:] if one.__module__.startswith("memoranda.runs.")]
    inherited = {name: member for base in reversed(bases) for name, member in vars(base).items()}
    return {**vars(thing), **{name: member for name, member in inherited.items() if name not in vars(thing)}}


def _fields(thing: type) -> list[str]:
    names = getattr(thing, "__struct_fields__", ()) or getattr(thing, "_fields", ())
    names = names or tuple(getattr(thing, "__dataclass_fields__", ()))
    kinds = inspect.get_annotations(thing)
    said = _field_docs(thing)
    shown: list[str] = []
    for name in names:
        kind = kinds.get(name)
        text = f" `{kind}`" if isinstance(kind, str) else ""
        shown.append(f"- `{name}`{text}{': ' + _cell(said[name]) if name in said else ''}")
    return shown


def _field_docs(thing: type) -> dict[str, str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]
    assert isinstance(tree, ast.ClassDef)
    return {
        field.target.id: str(below.value.value)
        for field, below in pairwise(tree.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
    }


def _signature(call: Any, name: str) -> list[str]:
    signature = inspect.signature(call)
    given: list[str] = []
    for one in signature.parameters.values():
        if one.name == "self":
            continue
        if one.kind is one.KEYWORD_ONLY and "*" not in given and not any(text.startswith("*") for text in given):
            given.append("*")
        given.append(_given(one))
    gives = signature.return_annotation
    end = f" -> {_annotation(gives)}" if gives not in (inspect.Signature.empty, None, "None") else ""
    line = f"{name}({', '.join(given)}){end}"
    if len(line) > WIDTH:
        line = f"{name}(\n    " + ",\n    ".join(given) + f",\n){end}"
    return ["```text", line, "```"]


def _given(one: inspect.Parameter) -> str:
    stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    kind = f": {_annotation(one.annotation)}" if one.annotation is not one.empty else ""
    return f"{stars}{one.name}{kind}" + (f" = {_value(one.default)}" if one.default is not one.empty else "")


def _annotation(kind: Any) -> str:
    return kind if isinstance(kind, str) else inspect.formatannotation(kind)


def _value(value: Any) -> str:
    """Return a default as it could be written; what cannot, such as an object that means "not given", is `…`."""
    if isinstance(value, tuple) and value:
        return f"({', '.join(_value(one) for one in value)}{',' * (len(value) == 1)})"
    named = getattr(value, "__name__", "<")
    if "<" not in named:
        return named
    return "…" if " at 0x" in repr(value) else repr(value) if len(repr(value)) < 60 else f"{type(value).__name__}()"


def _first(thing: Any) -> str:
    return prose((inspect.getdoc(thing) or "").partition("\n\n")[0])


def _said(thing: Any) -> str:
    """Return what a docstring says, with its examples unchanged."""
    said = inspect.getdoc(thing) or ""
    shown: list[str] = []
    for part in re.split(r"\n[ \t]*\n", said):
        if ">>>" in part:
            before, _, example = part.partition(">>>")
            shown += [prose(before)] if before.strip() else []
            shown.append(f"```pycon\n>>>{example}\n```")
        elif re.match(r"(Args|Raises|Returns|Yields):\n", part):
            head, _, below = part.partition("\n")
            listed = re.split(r"\n(?=\S)", textwrap.dedent(below))
            shown.append("\n".join([{"Args:": "Parameters:"}.get(head, head), "", *map(_item, listed)]))
        elif part.startswith("    "):
            shown.append(f"```text\n{textwrap.dedent(part)}\n```")
        elif part.startswith("- "):
            shown.append(part)
        else:
            shown.append(prose(part))
    return "\n\n".join(shown)


def _item(text: str) -> str:
    """Return a line of a list such as `name: what it is`, its name as code."""
    named, colon, said = " ".join(text.split()).partition(": ")
    return f"- `{named}`: {said}" if colon else f"- {named}"


def _constant(module: ModuleType, name: str) -> str:
    """Return the docstring below a constant where it is set."""
    value = getattr(module, name)
    for path in sorted(Path(str(module.__file__)).parent.rglob("*.py")):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for line, below in pairwise(body):
            targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
            named = any(isinstance(one, ast.Name) and one.id == name for one in targets)
            if named and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                return prose(str(below.value.value))
    raise AssertionError(f"`{name}` = {value!r} does not say what it is")


PAGES = {"settings.md": settings_page, "rest.md": rest_page, "python.md": python_page}


def main() -> None:
    """Write the pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, make in PAGES.items():
        (FOLDER / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
