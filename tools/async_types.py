"""Write `api/aio.pyi`, the types of the asyncio handles: `python tools/async_types.py`.

`api/aio.py` wraps whatever a handle has, so no editor and no type checker can see what that is. The stub says it: made
from the source of the handles, checked in, and compared by a test.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from copy import copy
from pathlib import Path
from typing import Any

from memoranda.api import aio

ROOT = Path(__file__).parents[1]
API = ROOT / "src" / "memoranda" / "api"
STUB = API / "aio.pyi"
MODULES = sorted({kind.__module__.rpartition(".")[2] for kind in aio.KINDS})

HEAD = '''"""The same memory for asyncio. Made by tools/async_types.py from the handles: change those."""

from types import TracebackType
from typing import Any, Self, overload
'''
BASE = '''
class AsyncHandle:
    """A sync handle whose calls are awaited."""

    def __init__(self, handle: Any) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
'''
ASYNC = {kind.__name__: f"Async{kind.__name__}" for kind in aio.KINDS}


def stub() -> str:
    """Return the text that the stub has to have."""
    trees = {name: _tree(name) for name in MODULES}
    known = {module: dict(_imported(module, tree)) for module, tree in trees.items()}
    meanings = Counter(name for name, _ in {pair for names in known.values() for pair in names.items()})
    imports: set[str] = set()
    body = [BASE]
    for kind in aio.KINDS:
        module = kind.__module__.rpartition(".")[2]
        names = known[module]
        # A name that means two things in two modules gets the name of its class before it.
        apart = {name: f"{kind.__name__}{name}" for name in names if meanings[name] > 1}
        text = _class(_in(trees[module], kind.__name__), _in(trees["memory"], "open"), {**ASYNC, **apart})
        used = {one.id for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Name)} - {"overload"}
        for name, origin in names.items():
            if apart.get(name, name) in used and name not in ASYNC:
                imports.add(f"{origin} as {apart[name]}" if name in apart else origin)
        body.append(text)
    return _tidied("\n".join((HEAD, *sorted(imports), *body)))


def _in(tree: ast.Module, name: str) -> Any:
    return next(one for one in tree.body if isinstance(one, (ast.ClassDef, ast.FunctionDef)) and one.name == name)


def _tree(name: str) -> ast.Module:
    return ast.parse((API / f"{name}.py").read_text(encoding="utf-8"))


def _class(node: ast.ClassDef, opening: ast.FunctionDef, words: Mapping[str, str]) -> str:
    lines = [f"class Async{node.name}(AsyncHandle):", f'    """{_said(node)}"""', ""]
    for name, annotation in _attributes(node):
        lines.append(f"    {name}: {annotation}")
    if node.name == "Memory":
        opened = ast.FunctionDef("open", _with_first("cls", opening.args), opening.body, [], ast.Name("Self"))
        lines += ["    @classmethod", *_function(opened, words, awaited=True)]
    overloaded: set[str] = set()
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and not one.name.startswith("_"):
            decorators = {_name(by) for by in one.decorator_list}
            if "overload" in decorators:
                overloaded.add(one.name)
                head, _ = _function(one, words, awaited=not aio.is_immediate(node.name, one.name))
                lines += ["    @overload", f"{head} ..."]
            elif one.name in overloaded:
                continue  # a stub has no implementation beside its overloads
            elif "property" in decorators:
                lines += ["    @property", *_function(one, words, awaited=False)]
            else:
                lines += _function(one, words, awaited=not aio.is_immediate(node.name, one.name))
    return "\n".join(lines)


def _function(node: ast.FunctionDef, words: Mapping[str, str], *, awaited: bool) -> Iterator[str]:
    made = _Renamed(words).visit(ast.FunctionDef(node.name, _without_own(node.args), [ast.Pass()], [], node.returns))
    head = ast.unparse(ast.fix_missing_locations(made)).removesuffix("\n    pass")
    yield f"    {'async ' if awaited else ''}{head}"
    yield f'        """{_said(node)}"""'


class _Renamed(ast.NodeTransformer):
    """Says some names in other words: every handle is the one for asyncio."""

    def __init__(self, words: Mapping[str, str]) -> None:
        self._words = words

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._words.get(node.id, node.id))


def _attributes(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Yield the public attributes that are set when a handle is made, and their types."""
    begin = next((one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None)
    given = {} if begin is None else {one.arg: one.annotation for one in (*begin.args.args, *begin.args.kwonlyargs)}
    for one in ast.walk(begin) if begin else ():
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Attribute):
            name, type_ = one.target.attr, one.annotation
        elif isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Attribute) and _name(one.value) in given:
            name, type_ = one.targets[0].attr, given[_name(one.value)]
        else:
            continue
        if not name.startswith("_") and type_ is not None:
            yield name, ast.unparse(type_)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _without_own(arguments: ast.arguments) -> ast.arguments:
    """Return arguments whose defaults name nothing that only their module knows."""
    told = copy(arguments)
    told.defaults = [ast.Constant(...) if _name(one).startswith("_") else one for one in arguments.defaults]
    told.kw_defaults = [
        ast.Constant(...) if one is not None and _name(one).startswith("_") else one for one in arguments.kw_defaults
    ]
    return told


def _with_first(name: str, arguments: ast.arguments) -> ast.arguments:
    return ast.arguments(
        arguments.posonlyargs,
        [ast.arg(name), *arguments.args],
        arguments.vararg,
        arguments.kwonlyargs,
        arguments.kw_defaults,
        arguments.kwarg,
        arguments.defaults,
    )


def _said(node: ast.ClassDef | ast.FunctionDef) -> str:
    return (ast.get_docstring(node) or "").partition("\n")[0]


def _imported(module: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each name that a module imports or says itself, and how it is imported."""
    for node in _at_the_top(tree):
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            yield from ((one.name, f"from {node.module} import {one.name}") for one in node.names)
        elif isinstance(node, ast.Import):
            yield from ((one.name, f"import {one.name}") for one in node.names)
        elif isinstance(node, ast.Assign) and _name(node.targets[0]):
            yield _name(node.targets[0]), f"from memoranda.api.{module} import {_name(node.targets[0])}"


def _at_the_top(tree: ast.Module) -> list[ast.stmt]:
    """Return the statements of a module, those that only type checkers see included."""
    return [inner for one in tree.body for inner in (one.body if isinstance(one, ast.If) else [one])]


def _tidied(source: str) -> str:
    for command in (("check", "--select", "I", "--fix", "--quiet"), ("format", "--quiet")):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(STUB), "-"],
            input=source,
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=ROOT,
        )
        if done.returncode:
            raise SystemExit(f"ruff said {done.stderr.strip() or done.returncode}:\n{source}")
        source = done.stdout
    return source


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
