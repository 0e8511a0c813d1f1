"""Who may call the server, through the server: `client.keys`."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

from memoranda.client.aio.connection import AsyncConnection
from memoranda.client.aio.pages import collect
from memoranda.client.calls import Call, body, given, path, seconds
from memoranda.model.duration import Duration
from memoranda.wire.keys import Key, Keys, NewKey, Role


class AsyncKeyCalls:
    """The keys of the tenant; only an administrator's key sees and makes them."""

    def __init__(self, connection: AsyncConnection) -> None:
        """Stand on a connection; `client.keys` makes these."""
        self._connection = connection

    async def list(self, *, limit: int | None = None) -> builtins.list[Key]:
        """Return the keys, oldest first, with what became of them; never the keys themselves."""
        return await collect(self._connection, path("keys"), {}, Keys, lambda page: page.keys, limit)

    async def create(
        self,
        user: str,
        *,
        role: Role = "member",
        allow: Sequence[str] = (),
        expires: Duration | None = None,
        label: str = "",
    ) -> NewKey:
        """Make a key for a user of the tenant. Its `token` is shown this once: it is kept only as a hash."""
        asked = given(expires=seconds(expires))
        sent = body(user=user, role=role, allow=builtins.list(allow), label=label, **asked)
        return await self._connection.fetch(Call(method="POST", path=path("keys"), body=sent), NewKey)

    async def rotate(self, key: str, *, grace: Duration | None = None) -> NewKey:
        """Make a key that stands for the same user and rights; the old one ends now, or after `grace`."""
        sent = body(**given(grace=seconds(grace)))
        return await self._connection.fetch(Call(method="POST", path=path("keys", key, "rotate"), body=sent), NewKey)

    async def revoke(self, key: str) -> Key:
        """End a key for good and return what is known about it; revoking twice changes nothing."""
        call = Call(method="DELETE", path=path("keys", key), repeatable=True)
        return await self._connection.fetch(call, Key)
