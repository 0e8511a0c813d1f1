"""The documentation is correct: every example runs, every link has a target, every name is explained.

A block marked `python` is run, with `>>>` lines checked as doctests; what a `try` says is raised has to be raised.
In a block marked `console` every line that begins with `$ ` is run, and the lines below it are compared with what it
prints; `…` matches any text on that line, or any lines if alone on a line. A command exits with 0 unless it ends
in `# exit N`; all commands of a page are run in one shell. What must not run is marked `text`, so nothing is skipped
without saying so. A page that speaks of `URL` and `KEY` finds a server there that `make serve` would have started.
"""

from __future__ import annotations

import ast
import codeop
import doctest
import importlib
import inspect
import pkgutil
import re
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple, get_args
from xml.etree import ElementTree

import pytest
from demo_server import Demo, run_demo
from processes import run_process
from shell import Shell
from warm_memoranda import run_fork

import memoranda
from memoranda import errors
from memoranda.model.event import Decision
from memoranda.model.policy import CAPABILITIES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXAMPLES = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
DOCUMENTS = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])

RUN = {"python", "console"}
SHOWN = {"abl", "mashin", "text", "json", "sql", "toml", "yaml"}
GENERATED = {"pycon"}
"""Examples from docstrings, in the reference: they are run in their modules."""

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<word>[^\n]*)$")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
_EXIT = re.compile(r"#\s*exit (\d+)\s*$")
_COMMAND = re.compile(r"\b(memoranda|curl)\b|^[A-Z]+=")
_SERVER = re.compile(r"\$(URL|KEY)\b|environ\[.(URL|KEY).\]")
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """One fenced block: its mark, its text, and the line its text begins at."""

    mark: str
    text: str
    line: int


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a document; one that is never closed is a fault."""
    found: list[Block] = []
    opening: re.Match[str] | None = None
    lines: list[str] = []
    begins = 0
    for number, line in enumerate(text.splitlines(), start=1):
        fence = _FENCE.match(line)
        if opening is None:
            if fence:
                opening, lines, begins = fence, [], number + 1
        elif fence and fence["fence"].startswith(opening["fence"]) and not fence["word"].strip():
            found.append(Block(opening["word"].strip(), "\n".join(lines) + "\n", begins))
            opening = None
        else:
            lines.append(line.removeprefix(opening["indent"]))
    assert opening is None, f"the block that begins at line {begins - 1} is never closed"
    return found


# examples


class _Expecting(ast.NodeTransformer):
    """Give each `try … except` of an example an `else` that fails: what it says is raised has to be raised."""

    def visit_Try(self, node: ast.Try) -> ast.Try:
        self.generic_visit(node)
        if node.handlers and not node.orelse:
            expected = ", ".join(ast.unparse(handler.type) for handler in node.handlers if handler.type)
            node.orelse = ast.parse(f"raise AssertionError('line {node.lineno}: no {expected} was raised')").body
        return node


def run_python(block: Block, names: dict[str, Any], path: str) -> None:
    """Run a block among the names that earlier blocks of its document left; doctests are compared."""
    where = "\n" * (block.line - 1)  # so that a traceback names the line of the document
    if not re.search(r"^>>>", block.text, re.MULTILINE):
        tree = ast.fix_missing_locations(_Expecting().visit(ast.parse(where + block.text, path)))
        exec(compile(tree, path, "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(block.text, names, path, path, block.line - 1)
    test.globs = names  # the parser copies them; the next block must see what this one made
    report: list[str] = []
    results = doctest.DocTestRunner(optionflags=_FLAGS).run(test, out=report.append, clear_globs=False)
    assert results.attempted, f"{path}:{block.line}: no example was found"
    assert not results.failed, "".join(report)


def commands(block: Block) -> Iterator[tuple[str, str, int]]:
    """Yield each command of a console block, the output shown below it, and its line."""
    command, shown, begins = "", [], block.line
    for number, line in enumerate(block.text.splitlines(), start=block.line):
        if line.startswith("$ "):
            if command:
                yield command, "\n".join(shown), begins
            command, shown, begins = line[2:], [], number
        elif command.endswith("\\") and not shown:
            command = command[:-1] + line.removeprefix("> ").strip()
        elif line.startswith("> ") and command and not shown:
            command += "\n" + line.removeprefix("> ")
        else:
            assert command, f"line {number}: a console block begins with a command"
            shown.append(line)
    assert command, f"line {block.line}: a console block without a command"
    yield command, "\n".join(shown), begins


class Step(NamedTuple):
    """A command of a page: what is shown below it, what it leaves with, and its line."""

    command: str
    shown: str
    code: int
    line: int


def steps(block: Block) -> list[Step]:
    """Return the commands of a console block."""
    return [
        Step(command, shown, int(code[1]) if (code := _EXIT.search(command)) else 0, line)
        for command, shown, line in commands(block)
    ]


def run_console(block: Block, shell: Shell, path: str) -> None:
    """Run the commands of a block in a shell and compare what they print, where output is shown."""
    for step in steps(block):
        where = f"{path}:{step.line}: $ {step.command}"
        assert _COMMAND.search(step.command), f"{where}: only memoranda and curl are run; mark the block `text`"
        wrong = run_step(step, shell)
        assert not wrong, f"{where}\n{wrong}"


def run_step(step: Step, shell: Shell) -> str:
    """Run a command; return what is wrong with what it printed and left with, nothing where it is as shown."""
    printed, code = shell.run(step.command)
    if code != step.code:
        return f"left with {code}, not {step.code}:\n{printed}"
    if step.shown.strip() and not fits(step.shown, printed):
        return f"printed:\n{printed}\nthe document shows:\n{step.shown}"
    return ""


def fits(shown: str, printed: str) -> bool:
    """Say whether printed text fits what is shown: `…` is any text of a line, or any lines.

    Runs of spaces count as one, and so do the lines that tables are ruled with: both depend on a column's width.
    """
    pattern = ""
    for line in shown.strip().splitlines():
        if line.strip() == "…":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += r"[^\n]*?".join(map(re.escape, _tidy(line).split("…"))) + r"\n"
    return re.fullmatch(pattern, "".join(_tidy(line) + "\n" for line in printed.strip().splitlines())) is not None


def _tidy(line: str) -> str:
    return re.sub("─+", "─", " ".join(line.split()))


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """One server for all pages; each finds it as if it had been started for that page alone."""
    with run_demo(tmp_path_factory.mktemp("demo")) as demo:
        yield demo


@pytest.mark.parametrize("path", EXAMPLES, ids=name)
def test_every_example_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    text = path.read_text(encoding="utf-8")
    if "$ curl " in text and shutil.which("curl") is None:
        pytest.skip("there is no curl here")
    monkeypatch.chdir(tmp_path)
    if _SERVER.search(text):
        demo: Demo = request.getfixturevalue("demo")
        monkeypatch.setenv("URL", demo.address)
        # The quickstart has the key that was printed, and the folder; other pages must not see what it does there.
        first = path == DOCS / "quickstart.md"
        monkeypatch.setenv("KEY", demo.key if first else demo.key_in(name(path).replace("/", "-").lower()))
        if first:
            (tmp_path / "build").mkdir()
            (tmp_path / "build/demo").symlink_to(demo.folder)
    names: dict[str, Any] = {"__name__": "__main__"}
    # Commands of the first page that people see are the installed one; others need not wait for its imports.
    with ExitStack() as opened:
        shell: Shell | None = None
        for block in blocks(text):
            if block.mark == "python":
                run_python(block, names, name(path))
            elif block.mark == "console":
                shell = shell or opened.enter_context(
                    Shell(tmp_path, warmth=None if path.name == "README.md" else "commands")
                )
                run_console(block, shell, name(path))


def test_what_the_quickstart_does_not_run_is_what_make_does() -> None:
    """Its samples run against a server of `make serve`; check here what it says about make, address and folder."""
    from memoranda.server.demo import USER
    from memoranda.server.settings import Settings

    text = (DOCS / "quickstart.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    serve = re.search(r"^serve: .*\n\t(.*)$", makefile, re.MULTILINE)
    assert serve and "memoranda.server.demo" in serve[1]
    assert f"export URL=http://{Settings().host}:{Settings().port}\n" in text
    assert "build/demo" in inspect.getsource(importlib.import_module("memoranda.server.demo"))
    assert f"the key of a user, {USER}" in " ".join(text.split())


@pytest.mark.parametrize("path", sorted((DOCS / "tutorials").glob("*.md")), ids=name)
def test_a_tutorial_has_the_steps_that_its_title_promises_and_each_does_something(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    promised = {"seven": 7, "eight": 8}[text.partition("\n")[0].split()[-2]]
    steps_of = re.split(r"^## (?=\d)", text, flags=re.MULTILINE)[1:]
    assert [step.partition(".")[0] for step in steps_of] == [str(number) for number in range(1, promised + 1)]
    assert [step.partition("\n")[0] for step in steps_of if not {block.mark for block in blocks(step)} & RUN] == []


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.parent != DOCS / "reference"], ids=name)
def test_every_example_can_be_pasted_at_a_prompt(path: Path) -> None:
    """A prompt of Python before 3.13 ends a class at its first empty line, and a `with` only at one."""
    for block in blocks(path.read_text(encoding="utf-8")):
        if block.mark == "python" and not re.search(r"^>>>", block.text, re.MULTILINE):
            assert (wrong := refused_at_a_prompt(block.text)) is None, f"{name(path)}:{block.line + (wrong or 0)}"


def test_what_a_prompt_refuses_is_found() -> None:
    assert refused_at_a_prompt("with a:\n    b\n\nc\nclass D:\n    e = 1\n    def f(self):\n        g\n\n\nh\n") is None
    assert refused_at_a_prompt("with a:\n    b\nc\n") == 2
    assert refused_at_a_prompt("class D:\n    e = 1\n\n    def f(self):\n        g\n") == 3


def refused_at_a_prompt(text: str) -> int | None:
    """Return the first line that a prompt refuses when the text is pasted, counted from 0."""
    waiting: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""]):
        waiting.append(line)
        try:
            if codeop.compile_command("\n".join(waiting)) is not None:
                waiting = []
        except SyntaxError:
            return number
    return None


@pytest.mark.parametrize("path", EXAMPLES, ids=name)
def test_every_block_says_whether_it_runs(path: Path) -> None:
    known = RUN | SHOWN | (GENERATED if path.parent == DOCS / "reference" else set[str]())
    unknown = [block for block in blocks(path.read_text(encoding="utf-8")) if block.mark not in known]
    assert not unknown, f"mark what runs {sorted(RUN)} and what does not {sorted(SHOWN)}: {unknown}"


def test_a_wrong_example_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        run_python(Block("python", ">>> 1 + 1\n3\n", 1), {}, "doc")
    with pytest.raises(ZeroDivisionError) as raised:
        run_python(Block("python", "x = 1\n1 / 0\n", 7), {}, "doc")
    assert traceback.extract_tb(raised.value.__traceback__)[-1].lineno == 8
    with pytest.raises(AssertionError, match="line 3: no KeyError was raised"):
        run_python(Block("python", "try:\n    x = 1\nexcept KeyError:\n    pass\n", 3), {}, "doc")
    with Shell(tmp_path) as shell:
        for text in (
            "$ memoranda --version\nmemoranda 99\n",
            "$ memoranda nonsense\n",
            "$ memoranda --version  # exit 1\n",
            "$ ls\n",
            "no command\n",
        ):
            with pytest.raises(AssertionError):
                run_console(Block("console", text, 1), shell, "doc")
    with pytest.raises(AssertionError):
        blocks("```python\nnever closed")


def test_a_right_example_passes(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    run_python(Block("python", ">>> x = 1 + 1\n>>> x\n2\n", 1), names, "doc")
    run_python(Block("python", "assert x == 2\n", 1), names, "doc")
    with Shell(tmp_path) as shell:
        for text in (
            "$ memoranda --version\nmemoranda …\n",
            "$ memoranda nonsense  # exit 2\n",
            "$ version=$(memoranda --version)\n$ echo $version of memoranda\nmemoranda … of memoranda\n",
        ):
            run_console(Block("console", text, 1), shell, "doc")


def test_a_memoranda_that_need_not_be_imported_is_the_installed_one_in_all_else(tmp_path: Path) -> None:
    said: list[list[tuple[str, int]]] = []
    for warmth in ("commands", "server", None):
        folder = tmp_path / str(warmth)
        folder.mkdir()
        with Shell(folder, warmth=warmth) as shell:
            commands = (
                "export MEMORANDA_DB=a.db",
                "printf '\"ü\"' | memoranda facts set word - --as-json --user ada && echo done",
                "memoranda facts get word --user ada | cat; ls a.db",
                "memoranda facts get none --user ada",
                "cd / && memoranda facts get word --user ada --db nowhere.db",
            )
            said.append([shell.run(command) for command in commands])
    assert said[0] == said[1] == said[2]
    assert [code for _, code in said[0]] == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("ending", "code"),
    [("", 0), ("sys.exit(3)", 3), ("1 / 0", 1), ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL)],
)
def test_a_program_in_a_fork_speaks_and_ends_as_one_that_was_started(ending: str, code: int) -> None:
    program = f"import os, signal, sys\nprint(sys.argv[1:], input(), flush=True)\n{ending}"
    command = [sys.executable, "-c", program, "a", "b"]
    for running in (
        run_fork("a", "b", program=program, stderr=subprocess.DEVNULL),
        run_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL),
    ):
        with running as one:
            assert one.poll() is None and one.stdin is not None
            one.stdin.write("ü\n")
            one.stdin.flush()
            assert one.communicate()[0] == "['a', 'b'] ü\n"
            assert one.returncode == one.poll() == code


def test_a_program_in_a_fork_ends_when_it_is_told() -> None:
    with run_fork(program="import sys\nprint('begun', flush=True)\nsys.stdin.read()") as one:
        assert one.stdout.readline() == "begun\n"
        assert one.poll() is None
        one.terminate()
        assert one.wait() == -signal.SIGTERM


def test_a_wildcard_stands_for_text_of_one_line_or_for_lines() -> None:
    assert fits("a … c", "a b  b c\n")
    assert fits("a\n…\nd", "a\nb\nc\nd\n") and fits("a\n…", "a\n")
    assert fits("key  value\n────\na  1", "key   value \n──────────\na     1     \n")
    assert not fits("a … c", "a b\nc\n")
    assert not fits("a", "a\nb\n")
    assert not fits("a.c", "abc\n")


def modules() -> list[str]:
    found = pkgutil.walk_packages(memoranda.__path__, "memoranda.")
    return ["memoranda", *(module.name for module in found if not module.name.endswith("__main__"))]


@pytest.mark.parametrize("module", modules())
def test_every_docstring_example_runs(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=_FLAGS)
    for test in doctest.DocTestFinder().find(importlib.import_module(module)):
        if test.examples:  # most docstrings have none, and even to run those looks at every file ever read
            runner.run(test, out=report.append)
    assert not runner.summarize(verbose=False).failed, "".join(report)


# links and names


def anchors(text: str) -> set[str]:
    """Return the anchors that a document's headings give, as they are made from their words."""
    prose = _without_blocks(text)
    headings = re.findall(r"^#{1,6} +(.+?) *#*$", prose, re.MULTILINE)
    found: set[str] = set()
    for heading in headings:
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        # Of headings that read alike, all but the first are numbered.
        found.add(next(one for one in chain((anchor,), (f"{anchor}-{n}" for n in count(1))) if one not in found))
    return found


def _without_blocks(text: str) -> str:
    kept: list[str] = []
    inside = False
    for line in text.splitlines():
        if _FENCE.match(line):
            inside = not inside
        elif not inside:
            kept.append(line)
    return "\n".join(kept)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_every_link_leads_somewhere(path: Path) -> None:
    broken: list[str] = []
    for link in _LINK.findall(_without_blocks(path.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.is_relative_to(ROOT) or not target.exists():
            broken.append(link)
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_every_picture_is_there_and_says_in_words_what_it_shows(path: Path) -> None:
    for words, image in _IMAGE.findall(_without_blocks(path.read_text(encoding="utf-8"))):
        assert len(words) > 10, f"{image} says nothing to those who cannot see it"
        assert ElementTree.parse(path.parent / image).getroot().tag.endswith("svg")


def test_every_drawing_is_shown_and_can_be_seen_in_the_dark() -> None:
    shown = {
        (path.parent / image).resolve()
        for path in DOCUMENTS
        for _, image in _IMAGE.findall(path.read_text(encoding="utf-8"))
    }
    drawings = sorted((DOCS / "drawings").glob("*.svg"))
    assert len(drawings) == 5
    for drawing in drawings:
        assert drawing in shown, f"no page shows {drawing.name}"
        assert "prefers-color-scheme: dark" in drawing.read_text(encoding="utf-8")


def test_the_drawing_of_the_gate_names_errors_and_decisions_that_there_are() -> None:
    drawing = (DOCS / "drawings/gate.svg").read_text(encoding="utf-8")
    words = set(re.findall(r'class="mono"[^>]*>(\w+)<', drawing))
    refusals = {word for word in words if word[0].isupper()}
    known = {kind.__name__ for kind in error_classes() if issubclass(kind, errors.Refused)}
    # Who shows no key is refused by a server, before there is anybody to ask at the gate; `Held` is one that waits.
    assert refusals == known - {"Refused", "Unauthenticated", "Held"}
    assert words - refusals == {"allow", "deny", "pending"} <= set(get_args(Decision))


def test_what_is_said_of_others_has_a_source_and_says_where_they_are_ahead() -> None:
    text = (DOCS / "comparison.md").read_text(encoding="utf-8")
    sections = {part.partition("\n")[0]: part for part in text.split("\n## ")[1:]}
    others = ("mem0", "Letta", "LangGraph", "Hindsight", "Chroma")
    for other in others:
        ahead = sections[other].partition("**Where it is ahead.**")[2].partition("**Where Memoranda is.**")[0]
        assert ahead.count("\n- ") >= 2 and "](https://" in ahead
        assert "](https://" in sections[other].partition("**Where it is ahead.**")[0]
    assert "](https://" not in sections["When to take something else"]


@pytest.mark.parametrize("document", ["ARCHITECTURE.md", "AGENTS.md", "CONTRIBUTING.md"])
def test_every_file_that_is_named_exists(document: str) -> None:
    text = _without_blocks((ROOT / document).read_text(encoding="utf-8"))
    named = set(re.findall(r"`([\w./-]+\.(?:py|sql|md|toml|txt))`", text))
    assert named
    missing = [file for file in named if not any((folder / file).exists() for folder in (ROOT, ROOT / "src/memoranda"))]
    # Below a heading that names the folder, a bare file name is enough.
    assert [file for file in missing if "/" in file or not list((ROOT / "src/memoranda").rglob(file))] == []


def test_every_document_can_be_reached_from_the_index() -> None:
    reached: set[Path] = set()
    waiting = [DOCS / "index.md", ROOT / "README.md"]
    while waiting:
        path = waiting.pop()
        if path in reached or path.suffix != ".md" or not path.exists():
            continue
        reached.add(path)
        links = _LINK.findall(path.read_text(encoding="utf-8"))
        waiting += [(path.parent / link.partition("#")[0]).resolve() for link in links if "://" not in link]
    assert [name(path) for path in EXAMPLES if path not in reached] == []


def error_classes() -> list[type[errors.MemorandaError]]:
    found, waiting = [], [errors.MemorandaError]
    while waiting:
        kind = waiting.pop()
        if kind.__module__ == errors.__name__:
            found.append(kind)
        waiting += kind.__subclasses__()
    return found


def test_the_table_of_errors_holds_every_error_and_no_other() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", (DOCS / "errors.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted((kind.__name__, kind.code) for kind in error_classes())


def test_the_table_of_statuses_holds_every_code_that_a_server_answers_with_and_no_other() -> None:
    from memoranda.server import problems

    section = (DOCS / "errors.md").read_text(encoding="utf-8").partition("## Over HTTP")[2]
    rows = re.findall(r"^\| (\d{3}) \| (.*) \|$", section, re.MULTILINE)
    documented = {(int(status), code) for status, codes in rows for code in re.findall(r"`([a-z_]+)`", codes)}
    by_http: dict[int, str] = problems._HTTP_CODES  # pyright: ignore[reportPrivateUsage]
    answered = {(status, code) for code, status in problems.STATUSES.items()} | set(by_http.items())
    assert documented == answered | {(500, "internal_error")}


def test_the_page_about_security_names_every_address_that_needs_no_token() -> None:
    from memoranda.server.auth.principals import OPEN_PATHS

    section = (DOCS / "security.md").read_text(encoding="utf-8").partition("## Who is calling")[2].partition("\n## ")[0]
    assert "/health" in OPEN_PATHS
    assert [path for path in sorted(OPEN_PATHS) if f"`{path}`" not in section] == []


def test_every_public_name_says_what_it_is() -> None:
    silent = [public for public in memoranda.__all__ if not getattr(memoranda, public).__doc__]
    assert not silent


def test_the_table_of_capabilities_holds_every_capability_and_no_other() -> None:
    text = (DOCS / "governance.md").read_text(encoding="utf-8")
    section = text.partition("## Capabilities")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"^\| `([\w.]+)` \|", section, re.MULTILINE)) == sorted(CAPABILITIES)


def test_every_environment_variable_is_documented() -> None:
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.sql")]
    used = {word for path in sources for word in re.findall(r"MEMORANDA_[A-Z_]+", path.read_text(encoding="utf-8"))}
    documented = "".join(path.read_text(encoding="utf-8") for path in EXAMPLES)
    assert used
    assert [word for word in sorted(used) if f"`{word}`" not in documented] == []
