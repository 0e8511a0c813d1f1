"""Routes `/keys`: the API keys of the tenant, for administrators.

Keys are stored in a system tenant that no caller reaches, so these routes check the caller's permission and tenant.
"""

from __future__ import annotations

import msgspec
from litestar import Response, Router, delete, get, post
from litestar.datastructures import State
from litestar.params import JSONBody

from memoranda.api.memory import Memory
from memoranda.errors import Denied, NotFound
from memoranda.governance.permissions import GrantRule, ReadGrants
from memoranda.model.policy import OWNER, Rule, covers
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.server.auth import keys
from memoranda.server.auth.principals import DOOR, Access
from memoranda.server.pagination import page_of_list
from memoranda.server.requests import PAGE, After, Name, PageLimit, StrictRequest, decode_name
from memoranda.server.responses import JsonResponse, problem_specs
from memoranda.wire.admin import CreateKey, Key, Keys, NewKey, RotateKey

_NOT_STORED = {"Cache-Control": "no-store"}


@get("/", sync_to_thread=True, responses=problem_specs(), summary="List keys")
def list_keys(request: StrictRequest, state: State, after: After = None, limit: PageLimit = PAGE) -> Response[Keys]:
    """Return the keys of the tenant, oldest first, without their tokens."""
    _require(request.auth, ReadGrants(scope=Scope(request.auth.principal.tenant)))
    found = keys.list_keys(state.memory, tenant=request.auth.principal.tenant)
    listed, go_on = page_of_list(found, after, limit, lambda one: one.id, max_bytes=request.page_bytes, out=_key_json)
    return JsonResponse(Keys(keys=listed, next=go_on))


@post("/", sync_to_thread=True, responses=problem_specs(507), summary="Create a key")
def create_key(request: StrictRequest, state: State, data: JSONBody[CreateKey]) -> Response[NewKey]:
    """Create a key for a user of the tenant. Its token is stored as a hash, so it is shown only this once."""
    _require_no_wider(request.auth, tuple(data.allow))
    made = keys.create_key(
        _system_handle(request.auth, state),
        tenant=request.auth.principal.tenant,
        user=data.user,
        role=data.role,
        allow=data.allow,
        expires=data.expires,
        label=data.label,
    )
    return Response(_new_key_json(made), headers=_NOT_STORED)


@post("/{key:str}/rotate", sync_to_thread=True, responses=problem_specs(404, 409, 507), summary="Rotate a key")
def rotate_key(request: StrictRequest, state: State, key: Name, data: JSONBody[RotateKey]) -> Response[NewKey]:
    """Create a key with the same user and permissions; the old one ends now, or after `grace`."""
    _require_no_wider(request.auth, _own(request.auth, state, decode_name(key)).allow)
    made = keys.rotate_key(_system_handle(request.auth, state), decode_name(key), grace=data.grace)
    return Response(_new_key_json(made), headers=_NOT_STORED)


@delete(
    "/{key:str}", sync_to_thread=True, status_code=200, responses=problem_specs(404, 409, 507), summary="Revoke a key"
)
def revoke_key(request: StrictRequest, state: State, key: Name) -> Key:
    """Revoke a key and return it; revoking twice is allowed."""
    _require(request.auth, _grant_effect(request.auth))
    _own(request.auth, state, decode_name(key))
    return _key_json(keys.revoke_key(_system_handle(request.auth, state), decode_name(key)))


def _require(access: Access, effect: GrantRule | ReadGrants) -> None:
    """Raise Denied unless the caller may do the same with grants; keys need the same permission."""
    if not access.memory.may(effect):
        raise Denied(
            f"`{access.principal.actor}` may not manage keys",
            hint="Ask an administrator of the tenant",
            capability=effect.capability,
            actor=access.principal.actor,
        )


def _require_no_wider(access: Access, allow: tuple[str, ...]) -> None:
    """Raise Denied for a new key with more permissions than the caller's."""
    _require(access, _grant_effect(access))
    own = access.principal.allow
    if own and not (allow and all(any(covers(wide, narrow) for wide in own) for narrow in allow)):
        raise Denied(
            "a restricted key cannot create one with more permissions",
            hint=f"Allow it some of {', '.join(map(quote, own))}",
            capability=GrantRule.capability,
            actor=access.principal.actor,
        )


def _grant_effect(access: Access) -> GrantRule:
    return GrantRule(scope=Scope(access.principal.tenant), actor=access.principal.actor, rule=Rule("allow", "*"))


def _own(access: Access, state: State, id: str) -> keys.Key:
    """Return a key of the caller's tenant; keys of others are not found."""
    found = next((one for one in keys.list_keys(state.memory, tenant=access.principal.tenant) if one.id == id), None)
    if found is None:
        # The id is not shown: it may be a whole token, sent by mistake.
        raise NotFound("no key has that id", hint="GET /keys lists them")
    return found


def _system_handle(access: Access, state: State) -> Memory:
    """Return a handle on the system tenant that records the caller in its ledger."""
    memory: Memory = state.memory
    actor = f"{access.principal.tenant}/{access.principal.actor}"
    return memory.in_tenant(keys.SYSTEM_TENANT).acting_as(actor, policy=OWNER, door=DOOR)


def _key_json(key: keys.Key) -> Key:
    return msgspec.convert(key, Key, from_attributes=True)


def _new_key_json(made: keys.NewKey) -> NewKey:
    return NewKey(token=made.token, key=_key_json(made.key))


router = Router("/keys", route_handlers=[list_keys, create_key, rotate_key, revoke_key])
