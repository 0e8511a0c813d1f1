"""The package alone, without any extra: it is imported, it runs, and what needs an extra says which one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import recollect

ROOT = Path(__file__).parents[2]
OF_EXTRAS = {
    "anthropic",
    "anyio",
    "cryptography",
    "httptools",
    "httpx",
    "jinja2",
    "jwt",
    "litestar",
    "onnxruntime",
    "openai",
}
OF_EXTRAS |= {"mcp", "psycopg", "pydantic_ai", "tokenizers", "uvicorn", "uvloop"}
OF_TESTS = {"hypothesis", "pytest"}
"""What the shipped test suites are written with, for those who subclass them."""

pytestmark = pytest.mark.package


def first_sample(document: Path) -> str:
    """Return the first block of a document that is Python."""
    found = re.search(r"^```python\n(.*?)^```$", document.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def test_it_is_imported_without_what_extras_bring(bare: Any) -> None:
    script = f"""
import importlib.util, recollect
print(recollect.__version__)
print(recollect.__file__)
print(*[name for name in {sorted(OF_EXTRAS)} if importlib.util.find_spec(name)])
"""
    version, file, there = bare.python(script).split("\n")[:3]
    assert version == recollect.__version__
    assert Path(file).is_relative_to(bare.folder)
    assert there == ""


def test_every_module_is_imported_or_names_what_an_extra_brings(bare: Any) -> None:
    script = """
import importlib, json, pkgutil, recollect
missing = {}
for module in pkgutil.walk_packages(recollect.__path__, "recollect.", onerror=lambda name: None):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
            missing[module.name] = None
        except ModuleNotFoundError as error:
            missing[module.name] = error.name.partition(".")[0]
print(json.dumps(missing))
"""
    missing: dict[str, str | None] = json.loads(bare.python(script))
    assert len(missing) > 300
    assert {name for name in missing.values() if name} <= OF_EXTRAS | OF_TESTS
    lacking = {module.removeprefix("recollect.") for module, name in missing.items() if name}
    assert {module for module in lacking if module.startswith("store.")} == {"store.postgres"}
    assert {module.split(".")[0] for module in lacking} <= {"client", "mcp", "server", "store", "testing"}
    assert missing["recollect.abl.loading"] is missing["recollect.chat.turns"] is missing["recollect.cli.app"] is None


def test_the_command_line_is_there(bare: Any) -> None:
    assert "facts" in bare.recollect("--help")
    assert bare.recollect("--version").split() == ["recollect", recollect.__version__]


def test_the_tour_goes_through_all_chapters(bare: Any) -> None:
    shown = bare.recollect("tour", "--all")
    chapters = re.findall(r"^(\d+) of (\d+) · ", shown, re.MULTILINE)
    assert [int(number) for number, _ in chapters] == list(range(1, int(chapters[0][1]) + 1))


def test_the_sample_of_the_readme_runs(bare: Any) -> None:
    sample = first_sample(ROOT / "README.md")
    assert "recollect.open" in sample
    bare.python(sample)
    with pytest.raises(AssertionError, match="left with 1"):
        bare.python(sample.replace("memory.db", "other.db").replace("The piano tuner comes", "A ferry leaves", 1))


def test_an_agent_a_machine_and_a_workflow_run_without_a_model(bare: Any) -> None:
    script = '''
import recollect

with recollect.open(":memory:") as memory:
    agent = recollect.abl.load("""
AGENT: Till
GOAL: "Sell tickets"
FLOW:
  start:
    REASONING: false
    GATHER:
      - seats:
        type: number
        prompt: "How many seats?"
    RESPOND: "{{seats}} seats are yours."
    THEN: COMPLETE
""", memory=memory)
    print(agent.start(user="ola").say("four").text)
    machine = recollect.mashin.load("""
machine stalls
  accepts
    seats as number, is required
  responds with
    price as number
  implements
    compute total
      { price: input.seats * 12 }
""", memory=memory)
    print(machine.run({"seats": 4}, user="ola").check().output)
    flow = recollect.workflow.load("""
defs:
  greet: {kind: task, action: send_text_message, inputs: {text: "='Row ' & $input.row & '.'"}}
flow:
  - do: greet
""", memory=memory, name="seating")
    print(flow.run({"row": "C"}, owner="ola").check().messages)
'''
    assert bare.python(script).splitlines() == ["4 seats are yours.", "{'price': 48}", "['Row C.']"]


# what needs an extra

NEEDS = {
    "client": ("recollect.Client()", "UsageError"),
    "llm": (
        "recollect.chat.chat(memory, recollect.chat.Agent(id='a', model='openai:gpt-5.2'), 'Hello', user='ola', "
        "conversation_id='c', message_id='m')",
        "ModelUnavailable",
    ),
    "onnx": (
        "recollect.open(':memory:', embedder='onnx:folder').scope().remember('a', collection='b')",
        "EmbeddingFailed",
    ),
    "postgres": ("recollect.open('postgresql://ola@localhost/stalls')", "Unavailable"),
    "api": (
        "recollect.open(':memory:', embedder='openai:small').scope().remember('a', collection='b')",
        "EmbeddingFailed",
    ),
}
TRY = """
import os, recollect
os.environ["OPENAI_API_KEY"] = "sk-made-up"
with recollect.open(":memory:") as memory:
    try:
        {}
    except recollect.RecollectError as error:
        print(type(error).__name__, error.hint)
"""


@pytest.mark.parametrize("extra", NEEDS)
def test_what_needs_an_extra_says_which(extra: str, bare: Any) -> None:
    call, kind = NEEDS[extra]
    if extra == "onnx":
        (bare.work / "folder").mkdir(exist_ok=True)
        for name in ("model.onnx", "tokenizer.json"):
            (bare.work / "folder" / name).touch()
    assert bare.python(TRY.format(call)) == f'{kind} Install it with `pip install "recollect[{extra}]"`\n'


def test_a_server_needs_its_extra_and_says_so(bare: Any) -> None:
    said = bare.recollect("serve", "--port", "0", code=2)
    assert "error[usage_error]: the server needs a package that is not installed" in said
    assert 'hint: Install it with `pip install "recollect[server]"`' in said


def test_a_tool_over_http_needs_its_extra_and_says_so(bare: Any) -> None:
    script = '''
import recollect

with recollect.open(":memory:") as memory:
    agent = recollect.abl.load("""
AGENT: Till
GOAL: "Sell tickets"
TOOLS:
  seats() -> object
    type: http
    endpoint: http://127.0.0.1:9/seats
FLOW:
  start:
    REASONING: false
    CALL: seats()
    THEN: COMPLETE
""", memory=memory)
    print(*agent.start(user="ola").opening.events)
'''
    assert 'pip install "recollect[api]"' in bare.python(script)
