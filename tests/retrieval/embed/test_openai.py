"""A server that speaks OpenAI's wire format, on the loopback: what is asked of it, and what it may get wrong."""

from __future__ import annotations

import json
import threading
import traceback
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

import memoranda
from memoranda.errors import EmbeddingFailed, UsageError
from memoranda.retrieval.embed import openai
from memoranda.retrieval.embed.hashing import Hashing
from memoranda.retrieval.embed.openai import OpenAI
from memoranda.testing.conformance.embedder import EmbedderConformance

KEY = "sk-a-secret-that-nobody-may-read"
DIMENSION = 256

Answer = tuple[int, dict[str, str], bytes]


class Server:
    """Answers with the vectors of hashed words, unless an answer is waiting to be given instead."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.waiting: list[Callable[[dict[str, Any]], Answer]] = []
        self.released = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                server.asked.append(body | {"path": self.path})
                server.headers.append(dict(self.headers))
                answer = server.waiting.pop(0) if server.waiting else good
                status, headers, content = answer(body)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    def close(self) -> None:
        self.released.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


def vectors_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    vectors = Hashing(body.get("dimensions", DIMENSION)).embed(body["input"])
    return [{"object": "embedding", "index": row, "embedding": one.tolist()} for row, one in enumerate(vectors)]


def wire(data: list[dict[str, Any]]) -> Answer:
    content = {"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}}
    return 200, {"content-type": "application/json"}, json.dumps(content).encode()


def good(body: dict[str, Any]) -> Answer:
    # In any order: the index says which is which.
    return wire(vectors_of(body)[::-1])


def status(code: int, message: str = "no", **headers: str) -> Callable[[dict[str, Any]], Answer]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda body: (code, named, json.dumps({"error": {"message": message}}).encode())


def changed(change: Callable[[list[dict[str, Any]]], object]) -> Callable[[dict[str, Any]], Answer]:
    def answer(body: dict[str, Any]) -> Answer:
        data = vectors_of(body)
        change(data)
        return wire(data)

    return answer


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def embedder(server: Server, pauses: list[float]) -> Iterator[OpenAI]:
    embedder = OpenAI("small", base_url=server.url, api_key=KEY, pause=pauses.append)
    yield embedder
    embedder.close()


@pytest.fixture
def ready(embedder: OpenAI) -> OpenAI:
    """One that has asked for its dimension already, so that the next answer is for a text."""
    assert embedder.dimension == DIMENSION
    return embedder


class TestOpenAI(EmbedderConformance):
    @pytest.fixture
    def embedder(self, server: Server) -> Iterator[OpenAI]:
        embedder = OpenAI("small", base_url=server.url, batch=64)
        yield embedder
        embedder.close()


def test_texts_go_out_and_vectors_come_back(server: Server, ready: OpenAI) -> None:
    vectors = ready.embed(["ferry", "island"])
    assert np.array_equal(vectors, Hashing(DIMENSION).embed(["ferry", "island"]))
    assert server.asked[-1] == {"model": "small", "input": ["ferry", "island"], "path": "/v1/embeddings"}
    assert server.headers[-1]["authorization"] == f"Bearer {KEY}"


def test_the_dimension_is_asked_for_once(server: Server, embedder: OpenAI) -> None:
    assert embedder.dimension == embedder.dimension == DIMENSION
    embedder.embed(["a"])
    assert [one["input"] for one in server.asked] == [["dimension"], ["a"]]


def test_a_given_dimension_is_asked_of_the_server_and_is_in_the_id(server: Server) -> None:
    embedder = OpenAI("small", base_url=server.url, dimension=64)
    assert embedder.embed(["ferry"]).shape == (1, 64)
    assert server.asked == [{"model": "small", "input": ["ferry"], "dimensions": 64, "path": "/v1/embeddings"}]
    assert embedder.id == "openai:small:64"
    assert OpenAI("small").id == "openai:small"
    embedder.close()


def test_many_texts_go_in_batches(server: Server, pauses: list[float]) -> None:
    embedder = OpenAI("small", base_url=server.url, dimension=DIMENSION, batch=2)
    texts = ["a", "b", "c", "d", "e"]
    assert np.array_equal(embedder.embed(texts), Hashing(DIMENSION).embed(texts))
    assert [one["input"] for one in server.asked] == [["a", "b"], ["c", "d"], ["e"]]
    embedder.close()


@pytest.mark.parametrize("code", [429, 500, 502, 503])
def test_a_busy_server_is_asked_again_after_a_while(
    server: Server, ready: OpenAI, pauses: list[float], code: int
) -> None:
    server.waiting = [status(code), status(code)]
    assert np.array_equal(ready.embed(["ferry"]), Hashing(DIMENSION).embed(["ferry"]))
    assert len(pauses) == 2
    assert 0.5 <= pauses[0] < pauses[1] < 2


def test_the_server_says_how_long_to_wait(server: Server, ready: OpenAI, pauses: list[float]) -> None:
    server.waiting = [status(429, retry_after="7"), status(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT")]
    ready.embed(["ferry"])
    assert pauses[0] == 7
    assert 1 <= pauses[1] < 2


def test_a_server_that_wants_too_long_a_wait_is_not_waited_for(
    server: Server, ready: OpenAI, pauses: list[float]
) -> None:
    server.waiting = [status(429, retry_after="3600")]
    with pytest.raises(EmbeddingFailed, match="status 429") as caught:
        ready.embed(["ferry"])
    assert (caught.value.retryable, caught.value.retry_after, pauses) == (True, 3600, [])


def test_a_server_that_stays_busy_is_given_up(server: Server, ready: OpenAI, pauses: list[float]) -> None:
    server.waiting = [status(503, "overloaded")] * 4
    with pytest.raises(
        EmbeddingFailed, match=r"`openai:small` at `127\.0\.0\.1` answered with status 503: .*overloaded"
    ) as caught:
        ready.embed(["ferry"])
    assert caught.value.retryable is True
    assert len(pauses) == 3
    assert ready.embed(["ferry"]).shape == (1, DIMENSION)


@pytest.mark.parametrize("code", [400, 404, 422, 301])
def test_a_request_that_is_refused_is_not_made_again(
    server: Server, ready: OpenAI, pauses: list[float], code: int
) -> None:
    server.waiting = [status(code, "no such model")]
    with pytest.raises(EmbeddingFailed, match=f"status {code}: .*no such model") as caught:
        ready.embed(["ferry"])
    assert (caught.value.retryable, pauses) == (False, [])


@pytest.mark.parametrize("code", [401, 403])
def test_a_wrong_key_is_said_without_saying_it(server: Server, ready: OpenAI, pauses: list[float], code: int) -> None:
    server.waiting = [status(code, f"Incorrect API key provided: {KEY[:6]}***{KEY[-4:]}")]
    with pytest.raises(EmbeddingFailed, match=f"rejected the key \\(status {code}\\)") as caught:
        ready.embed(["ferry"])
    assert "OPENAI_API_KEY" in caught.value.hint
    assert KEY[:6] not in str(caught.value)
    assert (caught.value.retryable, pauses) == (False, [])


def test_the_key_is_nowhere_to_be_seen(server: Server, ready: OpenAI) -> None:
    server.waiting = [status(400, f"you sent Bearer {KEY}")]
    with pytest.raises(EmbeddingFailed) as caught:
        ready.embed(["ferry"])
    shown = "".join(traceback.format_exception(caught.value))
    assert "you sent Bearer" in shown
    for text in (shown, repr(caught.value), repr(caught.value.details), repr(ready), ready.id):
        assert KEY not in text


def test_a_password_in_the_address_is_not_shown() -> None:
    embedder = OpenAI("small", base_url="http://ada:hunter2@127.0.0.1:9/v1", retries=0)
    with pytest.raises(EmbeddingFailed, match=r"at `127\.0\.0\.1` cannot be reached") as caught:
        embedder.embed(["ferry"])
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.retryable is True


def test_a_server_that_is_not_there_is_tried_again(pauses: list[float]) -> None:
    server = Server()
    server.close()
    embedder = OpenAI("small", base_url=server.url, retries=2, pause=pauses.append)
    with pytest.raises(EmbeddingFailed, match="cannot be reached") as caught:
        embedder.embed(["ferry"])
    assert len(pauses) == 2
    assert caught.value.retryable is True
    assert caught.value.__cause__ is not None


def test_a_slow_server_is_not_waited_for(server: Server, pauses: list[float]) -> None:
    embedder = OpenAI("small", base_url=server.url, dimension=DIMENSION, timeout=0.2, pause=pauses.append)

    def slow(body: dict[str, Any]) -> Answer:
        server.released.wait(30)
        return good(body)

    server.waiting = [slow]
    with pytest.raises(EmbeddingFailed, match=r"did not answer within 0\.2 s") as caught:
        embedder.embed(["ferry"])
    assert (caught.value.retryable, pauses) == (True, [])
    assert embedder.embed(["ferry"]).shape == (1, DIMENSION)
    embedder.close()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (changed(lambda data: data[1]["embedding"].pop()), "dimension 255 for text number 2, not 256"),
        (changed(lambda data: [one["embedding"].append(0.5) for one in data]), "dimension 257 for text number 1"),
        (changed(lambda data: data.pop()), "returned 1 vectors for 2 texts"),
        (changed(lambda data: data.append(data[0] | {"index": 2})), "returned 3 vectors for 2 texts"),
        (changed(lambda data: data[1].update(index=0)), "returned 1 vectors for 2 texts"),
        (changed(lambda data: data[0].update(index=7)), "returned 2 vectors for 2 texts"),
        (changed(lambda data: data[1]["embedding"].__setitem__(3, float("nan"))), "NaN for text number 2"),
        (changed(lambda data: data[1]["embedding"].__setitem__(3, None)), "NaN for text number 2"),
        (changed(lambda data: data[0].update(embedding=[0.0] * DIMENSION)), "only zeros for text number 1"),
        (changed(lambda data: data[0].update(embedding=["x"] * DIMENSION)), "not a matrix of numbers"),
        (changed(lambda data: data[0].update(embedding=5)), "not return a list of vectors"),
        (changed(lambda data: data[0].pop("index")), "not return a list of vectors"),
        (lambda body: (200, {}, good(body)[2][:-40]), "not return a list of vectors"),
        (lambda body: (200, {}, b"<html>hello</html>"), "not return a list of vectors"),
        (lambda body: (200, {}, b"[1, 2]"), "not return a list of vectors"),
        (lambda body: (200, {}, b'{"data": null}'), "not return a list of vectors"),
        (lambda body: (200, {}, b"\xff\xfe"), "not return a list of vectors"),
    ],
)
def test_what_is_no_vector_is_refused_and_named(
    server: Server, ready: OpenAI, pauses: list[float], answer: Callable[[dict[str, Any]], Answer], reason: str
) -> None:
    server.waiting = [answer]
    with pytest.raises(EmbeddingFailed, match=reason) as caught:
        ready.embed(["ferry", "island"])
    assert (caught.value.retryable, pauses) == (False, [])
    assert np.array_equal(ready.embed(["ferry", "island"]), Hashing(DIMENSION).embed(["ferry", "island"]))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: data[0]["embedding"].pop(), "dimension 255 for text number 2"),
        (lambda data: data[0]["embedding"].__setitem__(3, float("nan")), "NaN for text number 2"),
    ],
)
def test_a_failure_in_a_later_batch_gives_nothing(
    server: Server, change: Callable[[list[dict[str, Any]]], object], reason: str
) -> None:
    embedder = OpenAI("small", base_url=server.url, dimension=DIMENSION, batch=1)
    server.waiting = [good, changed(change)]
    with pytest.raises(EmbeddingFailed, match=reason) as caught:
        embedder.embed(["ferry", "island", "noon"])
    assert caught.value.row == 1
    embedder.close()


def test_address_and_key_come_from_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*openai.URL_VARIABLES, *openai.KEY_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    assert OpenAI("small")._url == "https://api.openai.com/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere.invalid/v1")
    monkeypatch.setenv("MEMORANDA_OPENAI_BASE_URL", f"{server.url}/")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    embedder = OpenAI("small", dimension=DIMENSION)
    embedder.embed(["ferry"])
    assert server.headers[-1]["authorization"] == f"Bearer {KEY}"
    assert server.asked[-1]["path"] == "/v1/embeddings"
    embedder.close()


def test_without_a_key_none_is_sent(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in openai.KEY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    embedder = OpenAI("small", base_url=server.url, dimension=DIMENSION)
    embedder.embed(["ferry"])
    assert "authorization" not in {name.casefold() for name in server.headers[-1]}
    embedder.close()


def test_a_missing_extra_is_named(ready: OpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(EmbeddingFailed, match="`httpx`, which is not installed") as caught:
        OpenAI("small").embed(["ferry"])
    assert 'pip install "memoranda[api]"' in caught.value.hint


def test_a_model_without_a_name_is_refused() -> None:
    with pytest.raises(UsageError, match="needs a model"):
        OpenAI("")
    assert OpenAI("small").calibration is None


def test_a_memory_closes_an_embedder_that_it_made_and_leaves_one_that_it_was_given(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    monkeypatch.setattr(OpenAI, "close", lambda self: closed.append(repr(self)))
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with memoranda.open(":memory:", embedder=OpenAI("given", base_url=server.url, api_key=KEY)) as memory:
        memory.scope(user="ada").remember("one", collection="notes")
    assert closed == []
    with memoranda.open(":memory:", embedder="openai:named") as memory:
        memory.scope(user="ada").remember("one", collection="notes")
        assert closed == []
    assert closed == ["OpenAI('named')"]
