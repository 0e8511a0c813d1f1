"""Texts in, vectors of a server that speaks OpenAI's `/v1/embeddings` out: OpenAI itself, Ollama, vLLM and the like.

The key goes into one header and nowhere else: not into the id, not into what is printed, not into an error.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from memoranda.errors import EmbeddingFailed, UsageError
from memoranda.model.environment import variable
from memoranda.model.text import quote, without_halves
from memoranda.retrieval.embed.base import Vectors
from memoranda.retrieval.embed.checked import check_vectors

if TYPE_CHECKING:
    import httpx

    from memoranda.model.collection import Calibration

PUBLIC = "https://api.openai.com/v1"
URL_VARIABLES = ("MEMORANDA_OPENAI_BASE_URL", "OPENAI_BASE_URL")
KEY_VARIABLES = ("MEMORANDA_OPENAI_API_KEY", "OPENAI_API_KEY")

# Seconds: the first wait before trying again, each next one being twice as long, and the longest we wait at all.
_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0


class OpenAI:
    """A model on a server. Waits and tries again when the server is busy; every vector is checked."""

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
        """Take the model; the address and the key come from the environment unless they are given.

        `dimension` asks the server for shorter vectors, which not every model can give. `timeout` is how many
        seconds one answer may take, `retries` how often to try again when the server is busy or cannot be reached.
        """
        if not model:
            raise UsageError("an embedder on a server needs the name of a model", hint="Say which one it should use")
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
        """Return the name of the space: the model, and the dimension where another than its own was asked for."""
        return f"openai:{self._model}" + (f":{self._asked_dimension}" if self._asked_dimension else "")

    @property
    def dimension(self) -> int:
        """Return how many numbers a vector has; unless it was given, the server is asked once."""
        if self._dimension is None:
            self._dimension = len(self._request(["dimension"])[0])
        return self._dimension

    @property
    def calibration(self) -> Calibration | None:
        """Return None: how cosines become relevances is measured when the model is first used."""
        return None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector for each text, in order; raise EmbeddingFailed, and never return only some."""
        given: list[list[float]] = []
        for start in range(0, len(texts), self._batch):
            given += self._request(texts[start : start + self._batch])
            self._check_lengths(given, first=start)
        if not given:
            return np.empty((0, self.dimension), np.float32)
        return check_vectors(given, embedder=self.id, count=len(texts), dimension=self.dimension)

    def close(self) -> None:
        """Close the connections; the next text opens them again."""
        with self._opening:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def __repr__(self) -> str:
        """Return how to make it, without the key."""
        return f"OpenAI({self._model!r})"

    def _request(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors that the server gave, in the order of the texts."""
        # An empty text is refused by some servers, a space by none.
        asked: dict[str, Any] = {"model": self._model, "input": [without_halves(text) or " " for text in texts]}
        if self._asked_dimension:
            asked["dimensions"] = self._asked_dimension
        response = self._post(asked)
        try:
            answered: Any = json.loads(response.content)
            found: dict[int, list[float]] = {int(one["index"]): list(one["embedding"]) for one in answered["data"]}
        except (ValueError, KeyError, TypeError) as error:
            raise self._failed(f"gave what is no list of vectors ({type(error).__name__})") from error
        if sorted(found) != list(range(len(texts))):
            raise self._failed(f"gave {len(found)} vectors for {len(texts)} texts")
        return [found[place] for place in range(len(texts))]

    def _check_lengths(self, given: list[list[float]], *, first: int) -> None:
        """Refuse vectors of another length than the server's others, naming the text."""
        for row in range(first, len(given)):
            length = len(given[row])
            if length != self.dimension:
                hint = "See whether the server still runs the same model, and whether it takes `dimensions`"
                message = f"gave a vector of dimension {length} for text number {row + 1}, not {self.dimension}"
                raise self._failed(message, hint=hint, row=row)

    def _post(self, asked: dict[str, Any]) -> httpx.Response:
        """Return the server's answer once it is a good one; raise EmbeddingFailed when it does not come to that."""
        httpx = _httpx()
        client = self._client()
        for attempt in range(self._retries + 1):
            wait = _FIRST_WAIT * 2**attempt * random.uniform(1.0, 1.25)
            try:
                response = client.post("/embeddings", json=asked)
            except httpx.TimeoutException as error:
                hint = "Try again, or give the embedder a longer `timeout`"
                message = f"did not answer within {self._timeout:g} s"
                raise self._failed(message, hint=hint, retryable=True) from error
            except httpx.TransportError as error:
                failure = self._failed(f"cannot be reached ({error})", hint="See whether it runs", retryable=True)
                failure.__cause__ = error
            else:
                if response.is_success:
                    return response
                failure = self._refused(response)
                wait = max(wait, failure.details.get("retry_after", 0.0))
            if not failure.retryable or attempt == self._retries or wait > _LONGEST_WAIT:
                raise failure
            self._pause(wait)
        raise AssertionError("the last attempt returns or raises")

    def _refused(self, response: httpx.Response) -> EmbeddingFailed:
        """Return what a status other than success means."""
        status = response.status_code
        if status in (401, 403):
            # What such a server says often repeats a part of the key.
            hint = f"Set `{KEY_VARIABLES[-1]}`, or give the embedder an `api_key`"
            return self._failed(f"refused the key (status {status})", hint=hint)
        said = response.text
        if self._key:
            said = said.replace(self._key, "…")
        message = f"answered with status {status}: {quote(said, longest=200)}"
        if status != 429 and status < 500:
            return self._failed(message, hint="See whether the server has this model and takes texts of this length")
        details: dict[str, float] = {}
        told = response.headers.get("retry-after", "")
        # The header may also be a date. That form is rare, and then our own wait has to do.
        if told.isdecimal():
            details["retry_after"] = float(told)
        return self._failed(message, hint="Try again later", retryable=True, **details)

    def _failed(self, what: str, *, hint: str = "", retryable: bool = False, **details: float) -> EmbeddingFailed:
        return EmbeddingFailed(
            f"the server of {quote(self.id)} at {quote(self._host())} {what}",
            hint=hint or "See whether the address is that of an OpenAI-compatible server",
            retryable=retryable,
            **details,
        )

    def _host(self) -> str:
        """Return whom we talk to; the rest of the address may hold a password."""
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
    """Return the package, which is there only when somebody wanted an embedder on a server."""
    try:
        import httpx
    except ImportError as error:
        raise EmbeddingFailed(
            "an embedder on a server needs the package `httpx`, which is not installed",
            hint='Install it with `pip install "memoranda[api]"`',
            retryable=False,
        ) from error
    return httpx
