"""Connect to a model: by `provider:model`, to a pydantic-ai model, or to a model of your own.

A thin layer over pydantic-ai, which is imported when a model is first asked. Data goes only to the model's provider:
pydantic-ai's instrumentation is off.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import weakref
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, cast

from memoranda.agent import provider
from memoranda.agent.models import Ask, Model, Reply, StreamingModel
from memoranda.agent.provider import Access
from memoranda.errors import Hint, MemorandaError, ModelFailed, ModelUnavailable, UsageError
from memoranda.model.text import quote

if TYPE_CHECKING:
    from pydantic_ai.models import Model as ProviderModel


def connect(
    model: object, *, base_url: str | None = None, api_key: str | None = None, organization: str | None = None
) -> Model:
    """Return a model that can be asked, for `provider:model`, a pydantic-ai model, or any `Model`.

    The package and the key of a named model are checked when it is first asked, so that an agent that never asks needs
    neither.

    Args:
        model: the model.
        base_url: the address of another server with the API of this provider. Then no key of the environment is sent.
            Many servers support only `openai-chat:`.
        api_key: the API key, instead of the one in the environment.
        organization: the organization to bill, for providers that have them.
    """
    access = Access(base_url=base_url, api_key=api_key, organization=organization)
    if isinstance(model, str):
        if ":" not in model.strip(":") and model != "test":
            raise ModelUnavailable(f"{quote(model)} does not name a model", hint=provider.NAMING, model=model)
        return _Named(model, access)
    if access.given:
        raise UsageError(
            f"`{access.given[0]}` cannot be set for a model object",
            hint="Name the model as `provider:model`, or set it when you create the model",
        )
    known = sys.modules.get("pydantic_ai.models")
    # Without that import, `model` cannot be one of pydantic-ai's.
    if known is not None and isinstance(model, known.Model):
        given = cast("ProviderModel", model)
        return _Connected(given.model_id, given)
    if isinstance(model, _Connected | _Given):
        return model
    if isinstance(model, StreamingModel):
        return _GivenStreaming(model)
    if isinstance(model, Model):
        return _Given(model)
    raise UsageError(
        f"{quote(model)} is not a model",
        hint=(provider.NAMING, Hint("python", "Pass a pydantic-ai model")),
        value=model,
    )


def prepare(*models: Model | str | None) -> None:
    """Begin to import the clients of models that will be asked, in a thread, so that the first request waits less.

    Only those of providers whose key is in the environment: the others cannot be asked, or need no key and are rare.
    """
    names = [model if isinstance(model, str) else model.name for model in models if isinstance(model, (str, _Named))]
    new = {name.partition(":")[0]: name for name in names if _has_key(name)}
    new = {vendor: name for vendor, name in new.items() if vendor not in _prepared}
    _prepared.update(new)
    if new:
        threading.Thread(target=_import_clients, args=(new.values(),), name="memoranda-clients", daemon=True).start()


_prepared: set[str] = set()
"""The providers whose clients were imported, or are being imported."""


def _has_key(name: str) -> bool:
    return bool(os.environ.get(f"{re.split('[:-]', name)[0].upper()}_API_KEY"))


def _import_clients(names: Iterable[str]) -> None:
    for name in names:
        # A request raises the same error, if there is one.
        with suppress(MemorandaError):
            _Named(name, provider.AS_IT_IS).prepare()


class _Given:
    """A model of the application, whose exceptions become our errors."""

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
            raise self._failure(error, timeout) from error

    def _failure(self, error: Exception, timeout: float) -> ModelFailed:
        if isinstance(error, TimeoutError):
            return provider.timeout_failure(self.name, timeout)
        what = f"could not be asked: {type(error).__name__}: {provider.excerpt(str(error))}"
        return provider.model_failure(self.name, what, reason="provider", retryable=False)


class _GivenStreaming(_Given):
    def __init__(self, model: StreamingModel) -> None:
        super().__init__(model)
        self._streaming = model

    def stream(self, ask: Ask, *, timeout: float = 30.0) -> Generator[str | Reply]:
        try:
            yield from self._streaming.stream(ask, timeout=timeout)
        except MemorandaError:
            raise
        except Exception as error:
            raise self._failure(error, timeout) from error


class _Connected:
    """A pydantic-ai model."""

    def __init__(self, name: str, found: ProviderModel | None = None, access: Access = provider.AS_IT_IS) -> None:
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

        from memoranda.agent.request import BACKGROUND, Request

        wire = Request(ask)
        request = model_request(found, **wire.arguments(found))
        with self._translating(timeout):
            response = BACKGROUND.run(request, timeout=timeout)
        return wire.reply(self._name, response)

    def stream(self, ask: Ask, *, timeout: float = 30.0) -> Generator[str | Reply]:
        found = self._model()
        from memoranda.agent.request import BACKGROUND, Request, can_stream, is_complete, stream_response

        if not can_stream(found):
            yield self.reply(ask, timeout=timeout)
            return
        from pydantic_ai.direct import model_request_stream

        wire = Request(ask)
        request = model_request_stream(found, **wire.arguments(found))
        with self._translating(timeout):
            response = yield from BACKGROUND.stream(partial(stream_response, request), timeout=timeout)
        if not is_complete(response):
            raise provider.model_failure(self._name, "broke off", reason="unreachable", retryable=True)
        yield wire.reply(self._name, response)

    @contextmanager
    def _translating(self, timeout: float) -> Generator[None]:
        try:
            yield
        except TimeoutError as error:
            raise provider.timeout_failure(self._name, timeout) from error
        # The code of the model or its provider may raise anything.
        except Exception as error:
            # A traceback shows the causes of an error too.
            shown = None if provider.mentions_key(error, self._access) else error
            raise provider.translate_error(self._name, error, self._access) from shown


class _Named(_Connected):
    """A model by its name, created when it is first asked; its connections are closed with it."""

    def __init__(self, name: str, access: Access) -> None:
        super().__init__(name, access=access)
        self._finding = threading.Lock()

    def prepare(self) -> None:
        """Import what a request needs."""
        self._model()

    def _model(self) -> ProviderModel:
        with self._finding:
            if self._found is None:
                self._found = provider.find_model(self._name, self._access)
                weakref.finalize(self, _end, self._found)
            return self._found


def _end(model: ProviderModel) -> None:
    from memoranda.agent.request import BACKGROUND

    BACKGROUND.start(_close(model))


async def _close(model: ProviderModel) -> None:
    # Exiting the context closes the client.
    async with model:
        pass
