"""What is said to an agent in, the body that carries it out: with ids, so that it happens once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from memoranda.client.calls import body, given
from memoranda.model.ids import SystemIds
from memoranda.wire.chat import MemoryPolicy

_ids = SystemIds()


def new_message(
    message: str,
    conversation_id: str | None,
    message_id: str | None,
    memory_policy: Mapping[str, Any] | MemoryPolicy | None,
    model: str | None,
    temperature: float | None,
    max_tokens: int | None,
    *,
    stream: bool,
) -> bytes:
    """Return the body of a message; ids that are not given are made."""
    return body(
        message=message,
        conversation_id=_ids.new("conversation") if conversation_id is None else conversation_id,
        message_id=_ids.new("message") if message_id is None else message_id,
        stream=stream,
        **given(memory_policy=plain_policy(memory_policy), model=model, temperature=temperature, max_tokens=max_tokens),
    )


def plain_policy(policy: Mapping[str, Any] | MemoryPolicy | None) -> dict[str, Any] | None:
    """Return the fields of a policy that were given."""
    if policy is None:
        return None
    return msgspec.to_builtins(policy) if isinstance(policy, MemoryPolicy) else dict(policy)
