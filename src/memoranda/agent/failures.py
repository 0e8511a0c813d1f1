"""What a model or its provider did wrong in, our error for it out: what happened, whether to try again, and no key."""

from __future__ import annotations

import re
from typing import Any, Literal, cast

from memoranda.agent.providers import NAMING, Access
from memoranda.errors import ModelError, ModelFailed, ModelUnavailable
from memoranda.model.text import quote

Reason = Literal["timeout", "rate_limited", "refused", "invalid_answer", "silent", "unreachable", "provider"]
"""Why a model failed, as `ModelFailed.reason` says it; `refused` is a model that declines, `provider` all the rest."""

SHOWN = 200
"""Signs of what a provider said that an error repeats."""
AS_IT_IS = Access()
_RETRYABLE = frozenset({408, 409, 425, 429})
_KEY = re.compile(r"\b(?:sk|pk|key)-[\w-]{8,}")


def failed(model: str, what: str, *, reason: Reason, retryable: bool, hint: str = "", **details: Any) -> ModelFailed:
    """Return the error of a model that failed, by its name and what it did."""
    hint = hint or ("Try again" if retryable else "See what the provider of the model says about it")
    message = f"the model {quote(model)} {what}"
    return ModelFailed(message, hint=hint, reason=reason, retryable=retryable, model=model, **details)


def late(model: str, timeout: float) -> ModelFailed:
    """Return the error of a model that did not reply in time."""
    return failed(model, f"did not reply within {timeout:g} s", reason="timeout", retryable=True)


def declined(model: str, why: object, **tokens: Any) -> ModelFailed:
    """Return the error of a model that does not want to answer."""
    said = f": {excerpt(why)}" if why else ""
    hint = "Ask it in other words, or ask another model"
    return failed(model, f"declined to answer{said}", reason="refused", retryable=False, hint=hint, **tokens)


def mentions_key(error: BaseException | None, access: Access) -> bool:
    """Return whether an error, or what it came from, holds the key."""
    while error is not None:
        if access.reveals_key(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def translated(model: str, error: Exception, access: Access) -> ModelError:
    """Return our error for what pydantic-ai, a provider or a model's own function raised."""
    from pydantic_ai.exceptions import ContentFilterError, ModelAPIError, ModelHTTPError, UnexpectedModelBehavior

    if isinstance(error, ModelHTTPError):
        # Providers say how long to wait, and pydantic-ai did not always pass it on.
        return _answered(model, error.status_code, error.body, access, getattr(error, "retry_after", None))
    if isinstance(error, ContentFilterError):
        return declined(model, access.hide(str(error)))
    said = excerpt(str(error) or type(error).__name__, access)
    if isinstance(error, (ModelAPIError, ConnectionError)):
        return failed(model, f"could not be asked: {said}", reason=_reason(error), retryable=True)
    if isinstance(error, UnexpectedModelBehavior):
        return failed(model, f"could not be asked: {said}", reason="provider", retryable=True)
    what = f"could not be asked: {type(error).__name__}: {said}"
    return failed(model, what, reason="provider", retryable=False)


def _reason(error: Exception) -> Reason:
    """Return why there was no answer with a status: it was late, it could not be read, or nobody was there."""
    cause = error.__cause__
    # Each client has timeouts of its own; what they share is the word.
    if any("Timeout" in type(one).__name__ for one in (error, cause)):
        return "timeout"
    if isinstance(error, ConnectionError) or (cause is not None and not isinstance(cause, ValueError)):
        return "unreachable"
    return "provider"


def _answered(model: str, status: int, body: object, access: Access, retry_after: float | None) -> ModelError:
    """Return our error for an answer of the provider with a status that is none of success."""
    # What a provider says about a key often repeats a part of it.
    if status in (401, 403):
        return ModelUnavailable(
            f"the provider of the model {quote(model)} refused the key (status {status})",
            hint=_key_hint(access),
            model=model,
            status=status,
        )
    said = excerpt(body, access)
    if status == 404:
        message = f"the provider does not know the model {quote(model)}: {said}"
        hint = NAMING if access.base_url is None else "See which models the server at this `base_url` has, and its path"
        if access.base_url is not None and model.startswith("openai:"):
            hint += "; one that knows only chat completions is asked as `openai-chat:…`"
        return ModelUnavailable(message, hint=hint, model=model, status=status)
    retryable = status in _RETRYABLE or status >= 500
    reason: Reason = "rate_limited" if status == 429 else "provider"
    details: dict[str, Any] = {} if retry_after is None else {"retry_after": retry_after}
    what = f"answered with status {status}: {said}"
    return failed(model, what, reason=reason, retryable=retryable, status=status, **details)


def _key_hint(access: Access) -> str:
    if access.api_key is not None:
        return "Look at the key that was given as `api_key`"
    if access.base_url is not None:
        return "Give its key as `api_key`: those of the environment are not sent to another address"
    return "Set the key of the provider in the environment, such as `OPENAI_API_KEY` or `ANTHROPIC_API_KEY`"


def excerpt(said: object, access: Access = AS_IT_IS) -> str:
    """Return what a provider said, short and without anything that looks like a key."""
    text = str(said)
    while isinstance(said, dict):
        body = cast("dict[str, object]", said)
        text, said = str(body.get("message") or text), body.get("error")
    return quote(_KEY.sub("…", access.hide(text)), longest=SHOWN)
