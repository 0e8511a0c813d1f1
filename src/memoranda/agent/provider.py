"""How the provider of a model is reached, and how its errors become ours.

An API key is passed to the provider's client only: it is in no repr, no error and no log.
"""

from __future__ import annotations

import inspect
import logging
import re
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import urlsplit

import msgspec

from memoranda.errors import Hint, ModelError, ModelFailed, ModelUnavailable, UsageError
from memoranda.model.text import quote

if TYPE_CHECKING:
    from pydantic_ai.models import Model as ProviderModel
    from pydantic_ai.providers import Provider


NAMING = "Write `provider:model`, such as `anthropic:claude-sonnet-4-6` or `openai:gpt-5.2`"
_PARAMETERS = (("base_url", "base_url"), ("base_url", "api_base"), ("api_key", "api_key"))
"""Our options, and their names in the constructors of providers."""
_ORGANIZED = frozenset({"openai", "openai-chat", "openai-responses"})
"""The providers that have organizations."""
_NO_KEY = "none-given"
_HEADER = re.compile(r"[!-~]+")
_HOW_IN_PYTHON = re.compile(r" or pass it via `[^`]*`[^.]*\.?")
_MANY = 100
"""More modules than any import that need not be told about."""
_SECRET = 8
"""Minimum length of a secret; shorter keys are placeholders such as `none`, for servers without keys."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """How a provider is reached; None for the defaults of the environment and the provider."""

    base_url: str | None = None
    api_key: str | None = None
    organization: str | None = None

    def __post_init__(self) -> None:
        """Reject values that could not be sent."""
        if self.base_url is not None:
            _check_address(self.base_url)
        if self.api_key is not None and not _HEADER.fullmatch(self.api_key):
            what = "is empty" if not self.api_key else "contains a space, a line break or an invalid character"
            raise UsageError(f"the `api_key` {what}", hint="Pass it as you got it from the provider")
        if self.organization is not None and not _HEADER.fullmatch(self.organization):
            message = f"{quote(self.organization)} is not a valid `organization`"
            raise UsageError(message, hint="Pass its id, such as `org-7Qx`", value=self.organization)

    def __repr__(self) -> str:
        """Return the names of the options, without values."""
        return f"Access({', '.join(self.given)})"

    @property
    def given(self) -> list[str]:
        """The names of the options that are set."""
        return [name for name in self.__struct_fields__ if getattr(self, name) is not None]

    def reveals_key(self, text: str) -> bool:
        """Return whether a text contains the key."""
        return self.api_key is not None and len(self.api_key) >= _SECRET and self.api_key in text

    def hide(self, text: str) -> str:
        """Return a text without the key."""
        return text.replace(self.api_key, "…") if self.api_key is not None and self.reveals_key(text) else text


def _check_address(address: str) -> None:
    hint = "Such as `https://models.example.com/v1`"
    try:
        parts = urlsplit(address)
        host, keyed = parts.hostname, parts.username is not None or parts.password is not None
    except ValueError:
        host, keyed = None, False
    # Clients log the address, with a key in it.
    if keyed:
        raise UsageError("the `base_url` contains a user or a password", hint=f"{hint}; pass keys as `api_key`")
    if not host or not address.startswith(("http://", "https://")):
        raise UsageError(f"{quote(address)} is not a valid `base_url`", hint=hint, value=address)


_log = logging.getLogger(__name__)
_importing = threading.Lock()


@contextmanager
def _telling_imports(name: str) -> Generator[None]:
    """Log how long the client of a provider takes to import: thousands of modules, some seconds of one processor."""
    # Two threads that import one package at the same time can see parts of it that are not ready.
    with _importing:
        known, began = len(sys.modules), time.perf_counter()
        if "pydantic_ai" not in sys.modules:
            _log.info("importing the client of %s", name.partition(":")[0])
        yield
        if len(sys.modules) > known + _MANY:
            _log.info("imported the client of %s in %.1f s", name.partition(":")[0], time.perf_counter() - began)


def find_model(name: str, access: Access) -> ProviderModel:
    """Return the pydantic-ai model with this name, or raise ModelUnavailable with what is missing."""
    with _telling_imports(name):
        return _find_model(name, access)


def _find_model(name: str, access: Access) -> ProviderModel:
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
    except ImportError as error:
        raise ModelUnavailable(
            f"the model {quote(name)} needs the package `pydantic-ai`, which is not installed",
            hint=Hint("install", "llm"),
            model=name,
        ) from error
    try:
        if not access.given:
            return infer_model(name)
        if ":" not in name:
            raise _unknown(name, access.given, {})
        return infer_model(name, provider_factory=lambda provider: _provider(name, provider, access))
    except (UserError, ImportError, ValueError) as error:
        # Keep the sentence that names the missing setting or package, not how to pass a key to pydantic-ai's classes.
        reason = _HOW_IN_PYTHON.sub(".", str(error).partition(" To try ")[0])
        hint = f"{reason}. {NAMING}" if reason.startswith("Unknown") else reason
        raise ModelUnavailable(f"the model {quote(name)} cannot be used", hint=hint, model=name) from error


def _provider(name: str, provider: str, access: Access) -> Provider[Any]:
    from pydantic_ai.providers import infer_provider_class

    # A gateway has the keys itself, and its class is that of the provider behind it.
    kind = None if provider.startswith("gateway/") else infer_provider_class(provider)
    known = _options(provider, kind)
    unknown = [option for option in access.given if option not in known]
    if kind is None or unknown:
        raise _unknown(name, unknown, known)
    api_key = access.api_key
    if access.base_url is not None and api_key is None:
        # Clients would send the key of the environment to any address; it is for the provider's own only.
        api_key = _NO_KEY
    values = {"base_url": access.base_url, "api_key": api_key}
    made = kind(**{known[option]: value for option, value in values.items() if option in known and value is not None})
    if access.organization is not None:
        made.client.organization = access.organization
    return made


def _options(provider: str, kind: type[Provider[Any]] | None) -> dict[str, str]:
    """Return the options that a provider supports, and their names in its constructor."""
    if kind is None:
        return {}
    parameters = inspect.signature(kind).parameters
    known = {option: parameter for option, parameter in _PARAMETERS if parameter in parameters}
    return {**known, "organization": ""} if provider in _ORGANIZED else known


def _unknown(name: str, unknown: list[str], known: dict[str, str]) -> ModelUnavailable:
    options = " and ".join(f"`{option}`" for option in known)
    return ModelUnavailable(
        f"the provider of the model {quote(name)} does not support `{unknown[0]}`",
        hint=f"Leave it out; {f'it supports {options}' if known else 'it supports no such options'}",
        model=name,
        option=unknown[0],
    )


Reason = Literal["timeout", "rate_limited", "refused", "invalid_answer", "silent", "unreachable", "provider"]
"""Why a model failed, in `ModelFailed.reason`; `refused` if the model declined, `provider` for everything else."""

SHOWN = 200
"""Maximum length of a provider's message in an error."""
AS_IT_IS = Access()
_RETRYABLE = frozenset({408, 409, 425, 429})
_KEY = re.compile(r"\b(?:sk|pk|key)-[\w-]{8,}")


def model_failure(
    model: str, what: str, *, reason: Reason, retryable: bool, hint: str = "", **details: Any
) -> ModelFailed:
    """Return the error for a model that failed; `what` follows its name in the message."""
    hint = hint or ("Try again" if retryable else "See the documentation of the model's provider")
    message = f"the model {quote(model)} {what}"
    return ModelFailed(message, hint=hint, reason=reason, retryable=retryable, model=model, **details)


def timeout_failure(model: str, timeout: float) -> ModelFailed:
    """Return the error for a model that did not reply in time."""
    return model_failure(model, f"did not reply within {timeout:g} s", reason="timeout", retryable=True)


def refusal(model: str, why: object, **tokens: Any) -> ModelFailed:
    """Return the error for a model that declined to answer."""
    said = f": {excerpt(why)}" if why else ""
    hint = "Rephrase the request, or use another model"
    return model_failure(model, f"declined to answer{said}", reason="refused", retryable=False, hint=hint, **tokens)


def mentions_key(error: BaseException | None, access: Access) -> bool:
    """Return whether an error or one of its causes contains the key."""
    while error is not None:
        if access.reveals_key(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def translate_error(model: str, error: Exception, access: Access) -> ModelError:
    """Return our error for an exception of pydantic-ai, a provider or a model's own function."""
    from pydantic_ai.exceptions import ContentFilterError, ModelAPIError, ModelHTTPError, UnexpectedModelBehavior

    if isinstance(error, ModelHTTPError):
        # Older versions of pydantic-ai do not pass on how long to wait.
        return _status_error(model, error.status_code, error.body, access, getattr(error, "retry_after", None))
    if isinstance(error, ContentFilterError):
        return refusal(model, access.hide(str(error)))
    said = excerpt(str(error) or type(error).__name__, access)
    if isinstance(error, (ModelAPIError, ConnectionError)):
        return model_failure(model, f"could not be asked: {said}", reason=_reason(error), retryable=True)
    if isinstance(error, UnexpectedModelBehavior):
        return model_failure(model, f"could not be asked: {said}", reason="provider", retryable=True)
    what = f"could not be asked: {type(error).__name__}: {said}"
    return model_failure(model, what, reason="provider", retryable=False)


def _reason(error: Exception) -> Reason:
    """Return why there was no HTTP status: a timeout, an unreadable answer, or no connection."""
    cause = error.__cause__
    # Each client has its own timeout classes; they share only the word in their names.
    if any("Timeout" in type(one).__name__ for one in (error, cause)):
        return "timeout"
    if isinstance(error, ConnectionError) or (cause is not None and not isinstance(cause, ValueError)):
        return "unreachable"
    return "provider"


def _status_error(model: str, status: int, body: object, access: Access, retry_after: float | None) -> ModelError:
    """Return our error for an HTTP error status of the provider."""
    # Without the provider's message, which often repeats a part of the key.
    if status in (401, 403):
        return ModelUnavailable(
            f"the provider of the model {quote(model)} rejected the key (status {status})",
            hint=_key_hint(access),
            model=model,
            status=status,
        )
    said = excerpt(body, access)
    if status == 404:
        message = f"the provider does not know the model {quote(model)}: {said}"
        hint = (
            NAMING if access.base_url is None else "Check the path of the `base_url`, and which models that server has"
        )
        if access.base_url is not None and model.startswith("openai:"):
            hint += "; use `openai-chat:…` for a server that supports only chat completions"
        return ModelUnavailable(message, hint=hint, model=model, status=status)
    retryable = status in _RETRYABLE or status >= 500
    reason: Reason = "rate_limited" if status == 429 else "provider"
    details: dict[str, Any] = {} if retry_after is None else {"retry_after": retry_after}
    what = f"answered with status {status}: {said}"
    return model_failure(model, what, reason=reason, retryable=retryable, status=status, **details)


def _key_hint(access: Access) -> str:
    if access.api_key is not None:
        return "Check the key that was passed as `api_key`"
    if access.base_url is not None:
        return "Pass its key as `api_key`: keys of the environment are not sent to another address"
    return "Set the key of the provider in the environment, such as `OPENAI_API_KEY` or `ANTHROPIC_API_KEY`"


def excerpt(said: object, access: Access = AS_IT_IS) -> str:
    """Return a provider's message, shortened and without anything that looks like a key."""
    text = str(said)
    while isinstance(said, dict):
        body = cast("dict[str, object]", said)
        text, said = str(body.get("message") or text), body.get("error")
    return quote(_KEY.sub("…", access.hide(text)), longest=SHOWN)
