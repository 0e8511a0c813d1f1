"""Embeddings from a server with OpenAI's `/v1/embeddings` API: OpenAI itself, Ollama, vLLM and others.

The API key is sent in one header and appears nowhere else: not in the id, the `repr` or an error.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from memoranda.errors import Advice, EmbeddingFailed, Hint, UsageError
from memoranda.model.environment import variable
from memoranda.model.text import quote, without_halves
from memoranda.retrieval.embed.base import Vectors, check_vectors

if TYPE_CHECKING:
    import httpx

    from memoranda.model.entry import Calibration

PUBLIC = "https://api.openai.com/v1"
URL_VARIABLES = ("MEMORANDA_OPENAI_BASE_URL", "OPENAI_BASE_URL")
KEY_VARIABLES = ("MEMORANDA_OPENAI_API_KEY", "OPENAI_API_KEY")

# Exponential backoff in seconds: the first wait, doubled each time, and the longest.
_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0


class OpenAI:
    """A model on a server. Retries when the server is busy; checks every vector."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        dimension: int | None = None,
        batch: int = 128,
        timeout: float = 30.0,
        retries: int = 3,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Take the model; the URL and the API key default to the environment.

        `dimension` requests shorter vectors, which not every model supports. `timeout` is the time limit of one request
        in seconds, `retries` the number of retries if the server is busy or unreachable.
        """
        if not model:
            raise UsageError("an embedder on a server needs a model", hint="Name the model to use")
        self._model = model
        self._url = (base_url or _from_environment(URL_VARIABLES) or PUBLIC).rstrip("/")
        self._key = api_key or _from_environment(KEY_VARIABLES)
        self._asked_dimension = dimension
        self._dimension = dimension
        self._batch = batch
        self._timeout = timeout
        self._retries = retries
        self._pause = pause
        self._opening = threading.Lock()
        self._opened: httpx.Client | None = None

    @property
    def id(self) -> str:
        """Return the model, with the dimension if one was requested."""
        return f"openai:{self._model}" + (f":{self._asked_dimension}" if self._asked_dimension else "")

    @property
    def dimension(self) -> int:
        """Return the dimension of the vectors; unless it was given, the server is asked once."""
        if self._dimension is None:
            self._dimension = len(self._request(["dimension"])[0])
        return self._dimension

    @property
    def calibration(self) -> Calibration | None:
        """Return None: the calibration is measured when the model is first used."""
        return None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector for each text, in order; raise `EmbeddingFailed` rather than return only some."""
        vectors: list[list[float]] = []
        for start in range(0, len(texts), self._batch):
            vectors += self._request(texts[start : start + self._batch])
            self._check_dimensions(vectors, first=start)
        if not vectors:
            return np.empty((0, self.dimension), np.float32)
        return check_vectors(vectors, embedder=self.id, count=len(texts), dimension=self.dimension)

    def close(self) -> None:
        """Close the connections; the next request opens them again."""
        with self._opening:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def __repr__(self) -> str:
        """Return the expression that creates it, without the key."""
        return f"OpenAI({self._model!r})"

    def _request(self, texts: Sequence[str]) -> list[list[float]]:
        """Request the vectors of texts and return them in the same order."""
        # Some servers reject an empty text, none a space.
        body: dict[str, Any] = {"model": self._model, "input": [without_halves(text) or " " for text in texts]}
        if self._asked_dimension:
            body["dimensions"] = self._asked_dimension
        response = self._post(body)
        try:
            answer: Any = json.loads(response.content)
            found: dict[int, list[float]] = {int(one["index"]): list(one["embedding"]) for one in answer["data"]}
        except (ValueError, KeyError, TypeError) as error:
            raise self._failure(f"did not return a list of vectors ({type(error).__name__})") from error
        if sorted(found) != list(range(len(texts))):
            raise self._failure(f"returned {len(found)} vectors for {len(texts)} texts")
        return [found[place] for place in range(len(texts))]

    def _check_dimensions(self, vectors: list[list[float]], *, first: int) -> None:
        for row in range(first, len(vectors)):
            length = len(vectors[row])
            if length != self.dimension:
                hint = "Check that the server still runs the same model, and supports `dimensions`"
                message = f"returned a vector of dimension {length} for text number {row + 1}, not {self.dimension}"
                raise self._failure(message, hint=hint, row=row)

    def _post(self, body: dict[str, Any]) -> httpx.Response:
        """Send a request, with retries, and return the successful response."""
        httpx = _httpx()
        client = self._client()
        for attempt in range(self._retries + 1):
            wait = _FIRST_WAIT * 2**attempt * random.uniform(1.0, 1.25)
            try:
                response = client.post("/embeddings", json=body)
            except httpx.TimeoutException as error:
                hint = ("Try again", Hint("python", "Give the embedder a longer `timeout`"))
                message = f"did not answer within {self._timeout:g} s"
                raise self._failure(message, hint=hint, retryable=True) from error
            except httpx.TransportError as error:
                failure = self._failure(f"cannot be reached ({error})", hint="Check that it runs", retryable=True)
                failure.__cause__ = error
            else:
                if response.is_success:
                    return response
                failure = self._failure_of(response)
                wait = max(wait, failure.details.get("retry_after", 0.0))
            if not failure.retryable or attempt == self._retries or wait > _LONGEST_WAIT:
                raise failure
            self._pause(wait)
        raise AssertionError("the last attempt returns or raises")

    def _failure_of(self, response: httpx.Response) -> EmbeddingFailed:
        status = response.status_code
        if status in (401, 403):
            # The body of such a response often repeats a part of the key.
            hint = (Hint("set", KEY_VARIABLES[-1]), Hint("python", "Give the embedder an `api_key`"))
            return self._failure(f"rejected the key (status {status})", hint=hint)
        text = response.text
        if self._key:
            text = text.replace(self._key, "…")
        message = f"answered with status {status}: {quote(text, longest=200)}"
        if status != 429 and status < 500:
            return self._failure(message, hint="Check that the server has this model and accepts texts of this length")
        details: dict[str, float] = {}
        retry_after = response.headers.get("retry-after", "")
        # The header may also be a date, but that is rare, and then our own backoff has to do.
        if retry_after.isdecimal():
            details["retry_after"] = float(retry_after)
        return self._failure(message, hint="Try again later", retryable=True, **details)

    def _failure(self, what: str, *, hint: Advice = "", retryable: bool = False, **details: float) -> EmbeddingFailed:
        return EmbeddingFailed(
            f"the server of {quote(self.id)} at {quote(self._host())} {what}",
            hint=hint or "Check that the address is that of an OpenAI-compatible server",
            retryable=retryable,
            **details,
        )

    def _host(self) -> str:
        """Return the host; the rest of the URL may contain a password."""
        return _httpx().URL(self._url).host

    def _client(self) -> httpx.Client:
        with self._opening:
            client = self._opened
            if client is None:
                headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
                client = self._opened = _httpx().Client(base_url=self._url, headers=headers, timeout=self._timeout)
            return client


def _from_environment(names: Sequence[str]) -> str:
    return next((found for name in names if (found := variable(name))), "")


def _httpx() -> Any:
    try:
        import httpx
    except ImportError as error:
        raise EmbeddingFailed(
            "an embedder on a server needs the package `httpx`, which is not installed",
            hint=Hint("install", "api"),
            retryable=False,
        ) from error
    return httpx
