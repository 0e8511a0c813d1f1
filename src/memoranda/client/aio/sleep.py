"""What conversations taught while nobody waited, through the server: `client.sleep`."""

from __future__ import annotations

import builtins

from memoranda.client.aio.connection import AsyncConnection
from memoranda.client.aio.pages import collect
from memoranda.client.calls import Call, parameters, path
from memoranda.wire.sleep import Change, Forgotten, JobState, SleepJob, SleepJobs, Undone


class AsyncSleepCalls:
    """Sleep-time jobs of the user that the API key belongs to; an administrator may name another `user`."""

    def __init__(self, connection: AsyncConnection) -> None:
        """Stand on a connection; `client.sleep` makes these."""
        self._connection = connection

    async def list(
        self,
        *,
        state: JobState | None = None,
        user: str | None = None,
        everybody: bool = False,
        limit: int | None = None,
    ) -> builtins.list[SleepJob]:
        """Return the conversations that were consolidated or wait for it, and what failed."""
        asked = parameters(state=state, user=user, everybody=everybody or None)
        return await collect(self._connection, path("sleep", "jobs"), asked, SleepJobs, lambda page: page.jobs, limit)

    async def undo(self, conversation_id: str, *, user: str | None = None) -> builtins.list[Change]:
        """Take back what a conversation last taught, and return what that changes. It is not learned again."""
        call = Call(method="POST", path=path("sleep", "jobs", conversation_id, "undo"), query=parameters(user=user))
        return (await self._connection.fetch(call, Undone)).changes

    async def forget(self, conversation_id: str, *, user: str | None = None) -> builtins.list[str]:
        """Erase a conversation, and return the lines that went with it: those that were learned from it alone."""
        call = Call(method="POST", path=path("sleep", "jobs", conversation_id, "forget"), query=parameters(user=user))
        return (await self._connection.fetch(call, Forgotten)).removed
