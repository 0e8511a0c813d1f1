"""The package alone, without any extra: it is imported, it runs, and what needs an extra says which one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import memoranda

ROOT = Path(__file__).parents[2]
OF_EXTRAS = {
    "anthropic",
    "anyio",
    "cryptography",
    "httpcore",
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
import importlib.util, memoranda
print(memoranda.__version__)
print(memoranda.__file__)
print(*[name for name in {sorted(OF_EXTRAS)} if importlib.util.find_spec(name)])
"""
    version, file, there = bare.python(script).split("\n")[:3]
    assert version == memoranda.__version__
    assert Path(file).is_relative_to(bare.folder)
    assert there == ""


def test_every_module_is_imported_or_names_what_an_extra_brings(bare: Any) -> None:
    script = """
import importlib, json, pkgutil, memoranda
missing = {}
for module in pkgutil.walk_packages(memoranda.__path__, "memoranda.", onerror=lambda name: None):
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
    lacking = {module.removeprefix("memoranda.") for module, name in missing.items() if name}
    assert {module for module in lacking if module.startswith("store.")} == {"store.postgres"}
    with_extras = {"agent", "client", "lang", "mcp", "server", "store", "testing"}
    assert {module.split(".")[0] for module in lacking} <= with_extras
    assert missing["memoranda.abl.agent"] is missing["memoranda.chat.turn"] is missing["memoranda.cli.app"] is None


def test_the_command_line_is_there(bare: Any) -> None:
    assert "facts" in bare.memoranda("--help")
    assert bare.memoranda("--version").split() == ["memoranda", memoranda.__version__]


def test_the_tour_goes_through_all_chapters(bare: Any) -> None:
    shown = bare.memoranda("tour", "--all")
    chapters = re.findall(r"^(\d+) of (\d+) · ", shown, re.MULTILINE)
    assert [int(number) for number, _ in chapters] == list(range(1, int(chapters[0][1]) + 1))


def test_the_sample_of_the_readme_runs(bare: Any) -> None:
    sample = first_sample(ROOT / "README.md")
    assert "memoranda.open" in sample
    bare.python(sample)
    with pytest.raises(AssertionError, match="left with 1"):
        bare.python(sample.replace("memory.db", "other.db").replace("I moved to Faro", "I saw a ferry", 1))


def test_an_agent_a_machine_and_a_workflow_run_without_a_model(bare: Any) -> None:
    script = '''
import memoranda

with memoranda.open(":memory:") as memory:
    agent = memoranda.abl.load("""
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
    machine = memoranda.mashin.load("""
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
    flow = memoranda.workflow.load("""
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
    "client": ("memoranda.Client()", "UsageError"),
    "llm": (
        "memoranda.chat.chat(memory, memoranda.chat.Agent(id='a', model='openai:gpt-5.2'), 'Hello', user='ola', "
        "conversation_id='c', message_id='m')",
        "ModelUnavailable",
    ),
    "onnx": (
        "memoranda.open(':memory:', embedder='onnx:folder').scope().remember('a', collection='b')",
        "EmbeddingFailed",
    ),
    "postgres": ("memoranda.open('postgresql://ola@localhost/stalls')", "Unavailable"),
    "api": (
        "memoranda.open(':memory:', embedder='openai:small').scope().remember('a', collection='b')",
        "EmbeddingFailed",
    ),
}
TRY = """
import os, memoranda
os.environ["OPENAI_API_KEY"] = "sk-made-up"
with memoranda.open(":memory:") as memory:
    try:
        {}
    except memoranda.MemorandaError as error:
        print(type(error).__name__, error.hint)
"""


@pytest.mark.parametrize("extra", NEEDS)
def test_what_needs_an_extra_says_which(extra: str, bare: Any) -> None:
    call, kind = NEEDS[extra]
    if extra == "onnx":
        (bare.work / "folder").mkdir(exist_ok=True)
        for name in ("model.onnx", "tokenizer.json"):
            (bare.work / "folder" / name).touch()
    assert bare.python(TRY.format(call)) == f'{kind} Install it with `pip install "memoranda[{extra}]"`\n'


def test_a_server_needs_its_extra_and_says_so(bare: Any) -> None:
    said = bare.memoranda("serve", "--port", "0", code=2)
    assert "error[usage_error]: the server needs a package that is not installed" in said
    assert 'hint: Install it with `pip install "memoranda[server]"`' in said


def test_a_tool_over_http_needs_its_extra_and_says_so(bare: Any) -> None:
    script = '''
import memoranda

with memoranda.open(":memory:") as memory:
    agent = memoranda.abl.load("""
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
    assert 'pip install "memoranda[api]"' in bare.python(script)
