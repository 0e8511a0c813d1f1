"""Erasing a user: everything goes, history included, and a receipt says how much."""

from __future__ import annotations

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromQuery

from memoranda.errors import UsageError
from memoranda.model.effect import Erase
from memoranda.server.admin.desk import Desk
from memoranda.server.admin.forms import Fault, fault_of, status_of


@get("/erase", sync_to_thread=True)
def begin_erasure(desk: NamedDependency[Desk], user: FromQuery[str] = "") -> Response[bytes]:
    """Return the form that asks for the user twice."""
    desk.ensure(Erase(scope=desk.shared))
    return _form(desk, user, None)


@post("/erase", sync_to_thread=True, status_code=200)
def erase_user(desk: NamedDependency[Desk]) -> Response[bytes]:
    """Erase a user whose id was typed twice; return the receipt."""
    user, typed = desk.field("user").strip(), desk.field("typed").strip()
    if typed != user:
        return _form(desk, user, Fault(field="typed", message="This is not the same id", hint="Type it again"))
    try:
        receipt = desk.memory.erase(user=user)
    except UsageError as error:
        return _form(desk, user, fault_of(error, field="user"), status_of(error))
    return desk.show("receipt.html", section="erase", receipt=receipt, user=user)


def _form(desk: Desk, user: str, fault: Fault | None, status: int = 422) -> Response[bytes]:
    return desk.show("erase.html", section="erase", status=200 if fault is None else status, user=user, fault=fault)


handlers = [begin_erasure, erase_user]
