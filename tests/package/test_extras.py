"""Each extra alone: what it promises works, with nothing of the others there."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from anthropic_server import AnthropicServer
from loopback_server import Answer, Asked, LoopbackServer
from openai_server import OpenAIServer
from processes import run_process

from memoranda.retrieval.embed.hashing import Hashing

ROOT = Path(__file__).parents[2]
BROUGHT = {
    "api": {"httpx"},
    "client": {"httpx"},
    "llm": {"anthropic", "openai", "pydantic_ai"},
    "mcp": {"mcp"},
    "onnx": {"onnxruntime", "tokenizers"},
    "postgres": {"psycopg"},
    "server": {"httptools", "httpx", "jinja2", "jwt", "litestar", "uvicorn", "uvloop"},
}
"""The modules of each extra that the package itself calls for."""
LIFETIME = 600.0

REMEMBER = """
import sys, memoranda
with memoranda.open(":memory:", embedder=sys.argv[1]) as memory:
    ola = memory.scope(user="ola")
    ola.remember("The balcony is closed", collection="notes")
    ola.remember("Programmes are sold out", collection="notes")
    print(ola.recall("is the balcony closed", collection="notes").results[0].content)
"""

pytestmark = pytest.mark.package


class Served(NamedTuple):
    """A server that runs: where, and with which key."""

    address: str
    key: str

    def get(self, path: str, *, key: str | None = None) -> tuple[int, str]:
        """Return the status and the text of an answer."""
        asked = urllib.request.Request(self.address + path)
        if key is not None:
            asked.add_header("Authorization", f"Bearer {key}")
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


@contextmanager
def serving(environment: Any) -> Generator[Served]:
    """Run the server of an environment, on a free port."""
    command = [str(environment.bin / "memoranda"), "serve", "--db", "served.db", "--port", "0", "--json"]
    with run_process(
        command,
        cwd=environment.work,
        env=environment.variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        lifetime=LIFETIME,
    ) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        yield Served(told["address"], told["admin_key"])
        process.terminate()
        assert process.wait() == 0


@pytest.fixture(scope="module")
def served(install: Any) -> Generator[Served]:
    with serving(install("server")) as served:
        yield served


def test_every_extra_is_tried_here(project: dict[str, Any]) -> None:
    extras = project["optional-dependencies"]
    assert set(extras) == {*BROUGHT, "all"}
    assert extras["all"] == [f"memoranda[{','.join(extra for extra in extras if extra != 'all')}]"]


@pytest.mark.parametrize("extra", BROUGHT)
def test_an_extra_brings_what_is_its_own_and_nothing_of_another(extra: str, install: Any) -> None:
    names = sorted(set[str]().union(*BROUGHT.values()))
    script = f"import importlib.util; print(*[name for name in {names} if importlib.util.find_spec(name)])"
    # A package of one extra may itself need one that another extra names.
    needed_below = {"llm": {"httpx"}, "mcp": {"httpx", "jwt", "uvicorn"}, "server": {"httpx"}}.get(extra, set())
    there = set(install(extra).python(script).split())
    assert BROUGHT[extra] <= there <= BROUGHT[extra] | needed_below


def test_onnx_embeds_with_a_model_in_a_folder(install: Any, tmp_path: Path) -> None:
    making = runpy.run_path(str(ROOT / "tests/retrieval/embed/test_onnx.py"))
    making["write_model"](tmp_path / "model.onnx", inputs=("input_ids",), output="last_hidden_state")
    making["write_tokenizer"](tmp_path)
    script = """
import sys, memoranda
with memoranda.open(":memory:", embedder=sys.argv[1]) as memory:
    print(memory.scope().remember("noon", collection="notes").stored, memory.collections.list()[0].dimension)
"""
    assert install("onnx").python(script, f"onnx:{tmp_path}").split() == ["True", str(making["DIMENSION"])]


def test_api_embeds_with_a_model_behind_an_address(install: Any) -> None:
    def embeds(asked: Asked) -> Answer:
        vectors = Hashing(asked.body.get("dimensions", 256)).embed(asked.body["input"])
        data = [{"index": row, "embedding": vector.tolist()} for row, vector in enumerate(vectors)]
        return Answer(200, json.dumps({"data": data}).encode(), {})

    with LoopbackServer(embeds) as server:
        said = install("api").python(REMEMBER, "openai:small", OPENAI_BASE_URL=f"{server.address}/v1")
        assert {asked.path for asked in server.asked} == {"/embeddings"}
    assert said.splitlines()[0] == "The balcony is closed"


@pytest.mark.parametrize(
    ("provider", "model", "variable"),
    [(OpenAIServer, "openai:gpt-5.2", "OPENAI"), (AnthropicServer, "anthropic:claude-sonnet-4-6", "ANTHROPIC")],
)
def test_llm_asks_models_of_both_providers(provider: Any, model: str, variable: str, install: Any) -> None:
    script = """
import sys, memoranda
from memoranda.chat import Agent, chat
with memoranda.open(":memory:") as memory:
    agent = Agent(id="till", model=sys.argv[1], instructions="You sell tickets.")
    print(chat(memory, agent, "Two, please", user="ola", conversation_id="c", message_id="m").text)
"""
    with provider("Row C.") as server:
        variables = {f"{variable}_BASE_URL": server.url, f"{variable}_API_KEY": "sk-made-up-for-tests"}
        assert install("llm").python(script, model, **variables) == "Row C.\n"
        assert server.asked


def test_server_answers_with_its_api_its_pages_and_their_files(served: Served) -> None:
    assert served.get("/health")[0] == 200
    assert served.get("/api/v1/memory/facts")[0] == 401
    assert served.get("/api/v1/memory/facts", key=served.key)[0] == 200
    assert json.loads(served.get("/openapi.json")[1])["openapi"]
    status, page = served.get("/admin")
    assert status == 200 and "<form" in page
    files = re.findall(r'(?:href|src)="(/[^"]+\.(?:css|js|svg))"', page)
    assert {Path(file).suffix for file in files} == {".css", ".js", ".svg"}
    assert {served.get(file)[0] for file in files} == {200}
    assert served.get(files[0] + "x")[0] == 404


def test_client_reaches_a_server_of_another_environment(install: Any, served: Served) -> None:
    script = """
import asyncio, sys, memoranda
with memoranda.Client(*sys.argv[1:]) as client:
    print(client.facts.set("seat", "C4").version, client.facts.value("seat"))

async def read():
    async with memoranda.AsyncClient(*sys.argv[1:]) as client:
        print(await client.facts.value("seat"), "numpy" in sys.modules)

asyncio.run(read())
"""
    assert install("client").python(script, *served).split() == ["1", "C4", "C4", "False"]


def test_all_brings_everything(install: Any) -> None:
    script = """
import importlib, pkgutil, memoranda
for module in pkgutil.walk_packages(memoranda.__path__, "memoranda."):
    if not module.name.endswith("__main__") and not module.name.startswith("memoranda.testing"):
        importlib.import_module(module.name)
print("imported")
"""
    assert install("all").python(script) == "imported\n"


def test_an_extra_does_not_hide_that_another_is_missing(install: Any) -> None:
    script = """
import memoranda
from memoranda.chat import Agent, chat
with memoranda.open(":memory:") as memory:
    try:
        chat(memory, Agent(id="till", model="openai:gpt-5.2"), "Two", user="ola", conversation_id="c", message_id="m")
    except memoranda.ModelUnavailable as error:
        print(error.hint)
"""
    assert 'pip install "memoranda[llm]"' in install("server").python(script, OPENAI_API_KEY="sk-made-up")
    assert 'pip install "memoranda[server]"' in install("llm").memoranda("serve", "--port", "0", code=2)


def test_these_tests_run_in_an_environment_with_everything() -> None:
    """Or the absence of modules in the others would say nothing."""
    script = f"import importlib.util; print(all(map(importlib.util.find_spec, {sorted(BROUGHT['server'])})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
