"""`/keys`: who may call this server for the tenant, for administrators. A new key is shown once.

Keys are kept in a tenant of their own, which no caller reaches: here it is looked at who asks, and for which tenant.
"""

from __future__ import annotations

import msgspec
from litestar import Response, Router, delete, get, post
from litestar.datastructures import State
from litestar.params import JSONBody

from memoranda.api.memory import Memory
from memoranda.errors import Denied, NotFound
from memoranda.model.effect import GrantRule, ReadGrants
from memoranda.model.policy import OWNER, Rule, covers
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.server.answers import problems
from memoranda.server.auth import keys as kept
from memoranda.server.bodies import StrictRequest
from memoranda.server.callers import DOOR, Access
from memoranda.server.paging import page_of_list
from memoranda.server.parameters import PAGE, After, Name, PageLimit
from memoranda.server.places import name_of
from memoranda.server.tags import Encoded
from memoranda.wire.keys import CreateKey, Key, Keys, NewKey, RotateKey

_NOT_STORED = {"Cache-Control": "no-store"}


@get("/", sync_to_thread=True, responses=problems(), summary="List keys")
def list_keys(request: StrictRequest, state: State, after: After = None, limit: PageLimit = PAGE) -> Response[Keys]:
    """Return the keys of the tenant, oldest first, with what became of them; never the keys themselves."""
    _require(request.auth, ReadGrants(scope=Scope(request.auth.caller.tenant)))
    found = kept.list_keys(state.memory, tenant=request.auth.caller.tenant)
    listed, go_on = page_of_list(found, after, limit, lambda one: one.id, max_bytes=request.page_bytes, out=_key_out)
    return Encoded(Keys(keys=listed, next=go_on))


@post("/", sync_to_thread=True, responses=problems(507), summary="Make a key")
def create_key(request: StrictRequest, state: State, data: JSONBody[CreateKey]) -> Response[NewKey]:
    """Make a key for a user of the tenant and return it. It is kept only as a hash: it cannot be shown again."""
    _require_no_wider(request.auth, tuple(data.allow))
    made = kept.create_key(
        _keeper(request.auth, state),
        tenant=request.auth.caller.tenant,
        user=data.user,
        role=data.role,
        allow=data.allow,
        expires=data.expires,
        label=data.label,
    )
    return Response(_new_key_out(made), headers=_NOT_STORED)


@post("/{key:str}/rotate", sync_to_thread=True, responses=problems(404, 409, 507), summary="Replace a key")
def rotate_key(request: StrictRequest, state: State, key: Name, data: JSONBody[RotateKey]) -> Response[NewKey]:
    """Make a key that stands for the same user and rights; the old one ends now, or after `grace`."""
    _require_no_wider(request.auth, _own(request.auth, state, name_of(key)).allow)
    made = kept.rotate_key(_keeper(request.auth, state), name_of(key), grace=data.grace)
    return Response(_new_key_out(made), headers=_NOT_STORED)


@delete("/{key:str}", sync_to_thread=True, status_code=200, responses=problems(404, 409, 507), summary="Revoke a key")
def revoke_key(request: StrictRequest, state: State, key: Name) -> Key:
    """End a key for good and return what is known about it; revoking twice changes nothing."""
    _require(request.auth, _granting(request.auth))
    _own(request.auth, state, name_of(key))
    return _key_out(kept.revoke_key(_keeper(request.auth, state), name_of(key)))


def _require(access: Access, effect: GrantRule | ReadGrants) -> None:
    """Refuse whoever may not do with grants what is asked for with keys: both say who may do what."""
    if not access.memory.may(effect):
        raise Denied(
            f"`{access.caller.actor}` may not do that with keys",
            hint="Ask an administrator of the tenant",
            capability=effect.capability,
            actor=access.caller.actor,
        )


def _require_no_wider(access: Access, allow: tuple[str, ...]) -> None:
    """Refuse to make a key that may do more than the one it is made with."""
    _require(access, _granting(access))
    own = access.caller.allow
    if own and not (allow and all(any(covers(wide, narrow) for wide in own) for narrow in allow)):
        raise Denied(
            "a key that is narrowed cannot make one that may do more",
            hint=f"Allow it some of {', '.join(map(quote, own))}",
            capability=GrantRule.capability,
            actor=access.caller.actor,
        )


def _granting(access: Access) -> GrantRule:
    return GrantRule(scope=Scope(access.caller.tenant), actor=access.caller.actor, rule=Rule("allow", "*"))


def _own(access: Access, state: State, id: str) -> kept.Key:
    """Return a key of the caller's tenant; those of others are not found."""
    found = next((one for one in kept.list_keys(state.memory, tenant=access.caller.tenant) if one.id == id), None)
    if found is None:
        # What was given is not repeated: by a slip of the hand it may be a whole token.
        raise NotFound("there is no key of that id", hint="GET /keys lists those there are")
    return found


def _keeper(access: Access, state: State) -> Memory:
    """Return a handle on where keys are kept, under which the ledger there knows who it was."""
    memory: Memory = state.memory
    actor = f"{access.caller.tenant}/{access.caller.actor}"
    return memory.in_tenant(kept.SYSTEM_TENANT).acting_as(actor, policy=OWNER, door=DOOR)


def _key_out(key: kept.Key) -> Key:
    return msgspec.convert(key, Key, from_attributes=True)


def _new_key_out(made: kept.NewKey) -> NewKey:
    return NewKey(token=made.token, key=_key_out(made.key))


router = Router("/keys", route_handlers=[list_keys, create_key, rotate_key, revoke_key])
