"""Who is asked in, a model ready to be asked out: of `provider:model`, of a pydantic-ai model, or one of your own.

A thin seam over pydantic-ai, which is imported when a model is first asked. Nothing is sent to anybody but the
provider of the model: its instrumentation is off.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, cast

from memoranda.agent.failures import AS_IT_IS, NAMING, excerpt, failed, late, mentions_key, translated
from memoranda.agent.models import Ask, Model, Reply, StreamingModel
from memoranda.agent.providers import Access, find_model
from memoranda.agent.requests import Request, can_stream, is_whole, streamed
from memoranda.errors import MemorandaError, ModelFailed, ModelUnavailable, UsageError
from memoranda.model.text import quote

if TYPE_CHECKING:
    from pydantic_ai.models import Model as ProviderModel


def connect(
    model: object, *, base_url: str | None = None, api_key: str | None = None, organization: str | None = None
) -> Model:
    """Return a model ready to be asked: of `provider:model`, of a pydantic-ai model, or the model itself.

    A name is only looked at; whether its package and key are there is seen when the model is first asked, so that an
    agent which never asks needs neither.

    Args:
        model: who is asked.
        base_url: where a model by its name is asked instead of at its provider's own address: any server that speaks
            as this provider does. Then no key of the environment is sent. Many servers speak as `openai-chat:` only.
        api_key: the key that it is asked with, instead of the one in the environment.
        organization: the organization that it is asked for, of providers that know some.
    """
    access = Access(base_url=base_url, api_key=api_key, organization=organization)
    if isinstance(model, str):
        if ":" not in model.strip(":") and model != "test":
            raise ModelUnavailable(f"{quote(model)} does not name a model", hint=NAMING, model=model)
        return _Named(model, access)
    if access.given:
        raise UsageError(
            f"a model that is there already takes no `{access.given[0]}`",
            hint="Name it as `provider:model`, or give it when you make the model",
        )
    provider = sys.modules.get("pydantic_ai.models")
    # Nobody can hold one of its models without having imported it.
    if provider is not None and isinstance(model, provider.Model):
        given = cast("ProviderModel", model)
        return _Connected(given.model_id, given)
    if isinstance(model, _Connected | _Given):
        return model
    if isinstance(model, StreamingModel):
        return _GivenStreaming(model)
    if isinstance(model, Model):
        return _Given(model)
    raise UsageError(f"{quote(model)} is no model", hint=f"{NAMING}, or pass a model of pydantic-ai", value=model)


class _Given:
    """A model that somebody else wrote: whatever its code does wrong, the caller gets one kind of error."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    def __repr__(self) -> str:
        return f"connect({self._model!r})"

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        try:
            return self._model.reply(ask, timeout=timeout)
        except MemorandaError:
            raise
        except Exception as error:
            raise self._fault(error, timeout) from error

    def _fault(self, error: Exception, timeout: float) -> ModelFailed:
        if isinstance(error, TimeoutError):
            return late(self.name, timeout)
        what = f"could not be asked: {type(error).__name__}: {excerpt(str(error))}"
        return failed(self.name, what, reason="provider", retryable=False)


class _GivenStreaming(_Given):
    """One that streams, too."""

    def __init__(self, model: StreamingModel) -> None:
        super().__init__(model)
        self._streaming = model

    def stream(self, ask: Ask, *, timeout: float = 30.0) -> Generator[str | Reply]:
        try:
            yield from self._streaming.stream(ask, timeout=timeout)
        except MemorandaError:
            raise
        except Exception as error:
            raise self._fault(error, timeout) from error


class _Connected:
    """A model of pydantic-ai."""

    def __init__(self, name: str, found: ProviderModel | None = None, access: Access = AS_IT_IS) -> None:
        self._name = name
        self._found: ProviderModel | None = found
        self._access = access

    @property
    def name(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"connect({self._name!r})"

    def _model(self) -> ProviderModel:
        assert self._found is not None
        return self._found

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        found = self._model()
        # Both take long to import, and most agents never ask a model.
        from pydantic_ai.direct import model_request

        from memoranda.agent.background import BACKGROUND

        wire = Request(ask)
        request = model_request(found, **wire.arguments(found))
        with self._translating(timeout):
            response = BACKGROUND.run(request, timeout=timeout)
        return wire.reply(self._name, response)

    def stream(self, ask: Ask, *, timeout: float = 30.0) -> Generator[str | Reply]:
        found = self._model()
        if not can_stream(found):
            yield self.reply(ask, timeout=timeout)
            return
        from pydantic_ai.direct import model_request_stream

        from memoranda.agent.background import BACKGROUND

        wire = Request(ask)
        request = model_request_stream(found, **wire.arguments(found))
        with self._translating(timeout):
            response = yield from BACKGROUND.stream(partial(streamed, request), timeout=timeout)
        if not is_whole(response):
            raise failed(self._name, "broke off", reason="unreachable", retryable=True)
        yield wire.reply(self._name, response)

    @contextmanager
    def _translating(self, timeout: float) -> Generator[None]:
        try:
            yield
        except TimeoutError as error:
            raise late(self._name, timeout) from error
        # Whatever the model's own code or its provider's does wrong, the caller gets one kind of error.
        except Exception as error:
            # What is printed of an error is printed of its causes too.
            shown = None if mentions_key(error, self._access) else error
            raise translated(self._name, error, self._access) from shown


class _Named(_Connected):
    """A model by its name, found when it is first asked; its connections end with it."""

    def __init__(self, name: str, access: Access) -> None:
        super().__init__(name, access=access)
        self._finding = threading.Lock()

    def _model(self) -> ProviderModel:
        with self._finding:
            if self._found is None:
                self._found = find_model(self._name, self._access)
                weakref.finalize(self, _end, self._found)
            return self._found


def _end(model: ProviderModel) -> None:
    from memoranda.agent.background import BACKGROUND

    BACKGROUND.begin(_closed(model))


async def _closed(model: ProviderModel) -> None:
    # Leaving it is what closes the client, and only what was entered can be left.
    async with model:
        pass
