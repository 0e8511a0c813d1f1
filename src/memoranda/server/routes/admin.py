"""Routes of administration: the ledger, permissions, keys, erasure, export and health."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Annotated

import msgspec
from anyio.to_thread import run_sync
from litestar import Response, delete, get, post, put
from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody, Schema
from litestar.openapi.spec.enums import OpenAPIType
from litestar.params import JSONBody, QueryParameter
from litestar.response import Stream

from memoranda.api.memory import Memory
from memoranda.errors import Denied, NotFound, UsageError
from memoranda.governance.permissions import GrantRule, ReadGrants
from memoranda.model.event import Anchor
from memoranda.model.policy import OWNER, Rule, covers
from memoranda.model.scope import SHARED, Scope, scope_of_caller
from memoranda.model.text import quote
from memoranda.model.trust import ORIGIN_KINDS, OriginKind, lower_kind
from memoranda.server.auth import keys
from memoranda.server.auth.principals import DOOR, EPOCH_HEADER, Access
from memoranda.server.exports import LINES
from memoranda.server.pagination import decode_number, page, page_of_list
from memoranda.server.requests import PAGE, After, Name, PageLimit, ScopeName, StrictRequest, caller_memory
from memoranda.server.responses import JsonResponse, in_thread, problem_specs
from memoranda.wire.admin import (
    CheckContent,
    CreateKey,
    DefineRole,
    Deletions,
    Detection,
    Detections,
    Ended,
    EndScope,
    Epoch,
    Erase,
    Events,
    Grant,
    Grants,
    GuardRules,
    Imported,
    Key,
    Keys,
    NewGrant,
    NewKey,
    Receipt,
    Role,
    Roles,
    Rollbacks,
    RotateKey,
    SetGuard,
    Swept,
    Taint,
    Tainted,
    UndoTaint,
    Verification,
    deletion_json,
    grant_json,
    guard_json,
    role_json,
    rollback_json,
)
from memoranda.wire.codec import fit_bytes, plain
from memoranda.wire.memory import Restored

Start = Annotated[int, QueryParameter(ge=1, description="The position of the first event.")]
Length = Annotated[int | None, QueryParameter(ge=0, description="The `length` of an earlier anchor.")]
Head = Annotated[str | None, QueryParameter(description="The `head` of an earlier anchor.")]


@get("/ledger", **in_thread("Read the ledger"))
def read_ledger(
    request: StrictRequest, start: Start = 1, after: After = None, limit: PageLimit = PAGE
) -> Response[Events]:
    """Return events from a position on, oldest first."""
    most, begin = request.page_bytes, max(start, decode_number(after) + 1)
    found = request.auth.memory.ledger.events(start=begin, limit=limit + 1, max_bytes=most)
    kept, go_on = page(found, limit, lambda event: event.position, max_bytes=most)
    return JsonResponse(Events(events=kept, next=go_on))


@get("/ledger/tail", **in_thread("Read the newest events"))
def read_newest(request: StrictRequest, limit: PageLimit = 20) -> Response[Events]:
    """Return the newest events, oldest first; fewer than `limit` if they are large."""
    newest = request.auth.memory.ledger.tail(limit, max_bytes=request.page_bytes)
    return JsonResponse(Events(events=fit_bytes(newest[::-1], request.page_bytes)[::-1]))


@get("/ledger/verify", **in_thread("Verify the ledger"))
def verify_ledger(request: StrictRequest, length: Length = None, head: Head = None) -> Verification:
    """Verify the hash chain; an earlier anchor also detects a truncated ledger."""
    if (length is None) != (head is None):
        raise UsageError("an anchor needs both `length` and `head`", hint="Send both, or neither", path="head")
    anchor = None if length is None or head is None else Anchor(length, head)
    return request.auth.memory.ledger.verify(anchor=anchor)


@get("/ledger/deletions", **in_thread("List deletions"))
def list_deletions(request: StrictRequest, named: ScopeName = None) -> Deletions:
    """Return what was deleted in the tenant, or at and below a scope, oldest first."""
    memory = request.auth.memory
    found = memory.ledger.deletions(None if named is None else Scope.named(named, tenant=memory.tenant))
    return Deletions(deletions=[deletion_json(one) for one in found])


@get("/ledger/rollbacks", **in_thread("List rollbacks"))
def list_rollbacks(request: StrictRequest, named: ScopeName = None) -> Rollbacks:
    """Return what was undone in the tenant, or at and below a scope, with the reads that had depended on it."""
    memory = request.auth.memory
    found = memory.ledger.rollbacks(None if named is None else Scope.named(named, tenant=memory.tenant))
    return Rollbacks(rollbacks=[rollback_json(one) for one in found])


@post("/taint", **in_thread("Taint memory", 404, 507, status=200))
def taint(request: StrictRequest, data: JSONBody[Taint]) -> Tainted:
    """Quarantine what came from an origin that proved bad, with all that was derived from it; for administrators."""
    memory = request.auth.memory
    asked = msgspec.structs.asdict(data)
    asked["scope"] = None if data.scope is None else Scope.named(data.scope, tenant=memory.tenant)
    return memory.taint(**asked)


@post("/taint/undo", **in_thread("Undo a taint", 404, 409, 507, status=200))
def undo_taint(request: StrictRequest, data: JSONBody[UndoTaint]) -> Restored:
    """Bring back what a taint ended, with its origins; for administrators."""
    return request.auth.memory.undo(data.token)


@get("/permissions/epoch", **in_thread("Get the permission epoch"))
def read_epoch(request: StrictRequest, named: ScopeName = None) -> Epoch:
    """Return the permission epoch of a scope: it grows with each change that reaches it.

    Administrators can name any scope, and get the epoch of the tenant if they name none.
    """
    scope = _scope_to_read(request.auth, named)
    epoch = request.auth.memory.permissions.epoch(scope)
    return Epoch(scope=None if scope is None else scope.path or SHARED, epoch=epoch)


def _scope_to_read(access: Access, named: str | None) -> Scope | None:
    """Return the scope that a caller names; None for the whole tenant, which only some may read."""
    own = access.principal.scope
    if access.reads_everything and (named is None or named.startswith("user:")):
        return None if named is None else Scope.named(named, tenant=own.tenant)
    return own if named is None else scope_of_caller(named, own)


@get("/permissions", **in_thread("List grants"))
def list_grants(request: StrictRequest, after: After = None, limit: PageLimit = PAGE) -> Response[Grants]:
    """Return every grant of the tenant, oldest first."""
    every = request.auth.memory.permissions.list()
    kept, go_on = page_of_list(every, after, limit, lambda one: one.id, max_bytes=request.page_bytes, out=grant_json)
    return JsonResponse(Grants(grants=kept, next=go_on))


@post("/permissions", **in_thread("Grant a capability", 507))
def grant_capability(request: StrictRequest, data: JSONBody[NewGrant]) -> Grant:
    """Store a rule for an actor: allow, approve (each use needs an approval) or deny."""
    scope = None if data.scope is None else Scope.named(data.scope, tenant=request.auth.memory.tenant)
    return grant_json(
        request.auth.memory.permissions.grant(
            data.actor, data.capability, level=data.level, scope=scope, path=data.path, own=data.own
        )
    )


@delete("/permissions/{grant:str}", **in_thread("Revoke a grant", 404, 507))
def revoke_grant(request: StrictRequest, grant: Name) -> None:
    """Revoke a grant by its id."""
    request.auth.memory.permissions.revoke(grant)


@get("/guard", **in_thread("List the rules of the guard"))
def list_guard(request: StrictRequest) -> GuardRules:
    """Return what the guard does about what origins write, where that is not the default."""
    return guard_json(request.auth.memory.guard.list())


@put("/guard", **in_thread("Set rules of the guard", 507))
def set_guard(request: StrictRequest, data: JSONBody[SetGuard]) -> GuardRules:
    """Say what the guard does about what kinds of origins write at and below a scope; the nearest scope counts."""
    rules = request.auth.memory.guard.set(
        _scope_to_guard(request, data.scope),
        origins=data.origins,
        instructions=data.instructions,
        secrets=data.secrets,
        payment=data.payment,
        codes=data.codes,
        protected=data.protected,
        largest=data.largest,
    )
    return guard_json(rules)


GuardedScope = Annotated[str | None, QueryParameter(name="scope", description="Rules of this scope; else everywhere.")]
GuardedOrigin = Annotated[OriginKind | None, QueryParameter(description="Only about this kind of origin.")]


@delete("/guard", **in_thread("Reset rules of the guard", 507))
def reset_guard(request: StrictRequest, named: GuardedScope = None, origin: GuardedOrigin = None) -> None:
    """Forget what was said about a scope: what is said above it counts, or the default."""
    origins = ORIGIN_KINDS if origin is None else (origin,)
    request.auth.memory.guard.reset(_scope_to_guard(request, named), origins=origins)


@post("/guard/check", **in_thread("Look through a value", status=200))
def check_content(request: StrictRequest, data: JSONBody[CheckContent]) -> Detections:
    """Return what the guard would find in a value; nothing is stored."""
    found = request.auth.memory.guard.check(data.content)
    return Detections(detections=[Detection(**msgspec.structs.asdict(one)) for one in found])


def _scope_to_guard(request: StrictRequest, named: str | None) -> Scope | None:
    return None if named is None else Scope.named(named, tenant=request.auth.memory.tenant)


@get("/roles", **in_thread("List roles"))
def list_roles(request: StrictRequest) -> Roles:
    """Return the built-in roles and those that were defined."""
    return Roles(roles=[role_json(one) for one in request.auth.memory.roles.list()])


@put("/roles/{role:str}", **in_thread("Define a role", 507))
def define_role(request: StrictRequest, role: Name, data: JSONBody[DefineRole]) -> Role:
    """Give a role these permissions in place of those that it has; all who have it are affected at once."""
    tenant = request.auth.memory.tenant
    rules: list[Rule] = []
    for one in data.rules:
        scope = None if one.scope is None else Scope.named(one.scope, tenant=tenant)
        rules.append(Rule(one.level, one.capability, scope, one.path, one.own))
    return role_json(request.auth.memory.roles.define(role, allow=data.allow, own=data.own, rules=rules))


@delete("/roles/{role:str}", **in_thread("Delete a role", 404, 507))
def delete_role(request: StrictRequest, role: Name) -> None:
    """Delete a role, and the grants that give it. Keys and tokens with it may do nothing from now on."""
    request.auth.memory.roles.delete(role)


_NOT_STORED = {"Cache-Control": "no-store"}


@get("/keys", **in_thread("List keys"))
def list_keys(request: StrictRequest, after: After = None, limit: PageLimit = PAGE) -> Response[Keys]:
    """Return the keys of the tenant, oldest first, without their tokens."""
    _require(request.auth, ReadGrants(scope=Scope(request.auth.principal.tenant)))
    found = _keys(request)
    listed, go_on = page_of_list(found, after, limit, lambda one: one.id, max_bytes=request.page_bytes, out=_key_json)
    return JsonResponse(Keys(keys=listed, next=go_on))


@post("/keys", **in_thread("Create a key", 507))
def create_key(request: StrictRequest, data: JSONBody[CreateKey]) -> Response[NewKey]:
    """Create a key for a user of the tenant. Its token is stored as a hash, so it is shown only this once."""
    _require_no_wider(request.auth, tuple(data.allow), data.origin)
    keys.check_role(request.app.state.memory, request.auth.principal.tenant, data.role)
    made = keys.create_key(
        _system_handle(request),
        tenant=request.auth.principal.tenant,
        user=data.user,
        role=data.role,
        allow=data.allow,
        origin=data.origin,
        expires=data.expires,
        label=data.label,
    )
    return Response(_new_key_json(made), headers=_NOT_STORED)


@post("/keys/{key:str}/rotate", **in_thread("Rotate a key", 404, 409, 507))
def rotate_key(request: StrictRequest, key: Name, data: JSONBody[RotateKey]) -> Response[NewKey]:
    """Create a key with the same user and permissions; the old one ends now, or after `grace`."""
    old = _own_key(request, key)
    _require_no_wider(request.auth, old.allow, old.origin)
    made = keys.rotate_key(_system_handle(request), key, grace=data.grace)
    return Response(_new_key_json(made), headers=_NOT_STORED)


@delete("/keys/{key:str}", **in_thread("Revoke a key", 404, 409, 507, status=200))
def revoke_key(request: StrictRequest, key: Name) -> Key:
    """Revoke a key and return it; revoking twice is allowed."""
    _require(request.auth, _grant_effect(request.auth))
    _own_key(request, key)
    return _key_json(keys.revoke_key(_system_handle(request), key))


def _require(access: Access, effect: GrantRule | ReadGrants) -> None:
    """Raise Denied unless the caller may do the same with grants; keys need the same permission."""
    if not access.memory.may(effect):
        raise Denied(
            f"`{access.principal.actor}` may not manage keys",
            hint="Ask an administrator of the tenant",
            capability=effect.capability,
            actor=access.principal.actor,
        )


def _require_no_wider(access: Access, allow: tuple[str, ...], origin: OriginKind) -> None:
    """Raise Denied for a new key with more permissions than the caller's, or that is trusted more."""
    _require(access, _grant_effect(access))
    if lower_kind(access.principal.origin, origin) != origin:
        raise Denied(
            f"a key of `{access.principal.origin}` cannot create one of `{origin}`",
            hint=f"Create it with the origin {access.principal.origin}",
            capability=GrantRule.capability,
            actor=access.principal.actor,
        )
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


def _keys(request: StrictRequest) -> list[keys.Key]:
    return keys.list_keys(request.app.state.memory, tenant=request.auth.principal.tenant)


def _own_key(request: StrictRequest, id: str) -> keys.Key:
    """Return a key of the caller's tenant; keys of others are not found."""
    found = next((one for one in _keys(request) if one.id == id), None)
    if found is None:
        # The id is not shown: it may be a whole token, sent by mistake.
        raise NotFound("no key has that id", hint="GET /keys lists them")
    return found


def _system_handle(request: StrictRequest) -> Memory:
    """Return a handle on the system tenant that records the caller in its ledger."""
    memory: Memory = request.app.state.memory
    if request.auth.principal.epoch is not None:
        raise UsageError(
            f"this route does not support {EPOCH_HEADER}: keys belong to the server, which has no permission epoch",
            hint="Leave out the header",
        )
    actor = f"{request.auth.principal.tenant}/{request.auth.principal.actor}"
    return memory.in_tenant(keys.SYSTEM_TENANT).acting_as(actor, policy=OWNER, door=DOOR)


def _key_json(key: keys.Key) -> Key:
    return msgspec.convert(key, Key, from_attributes=True)


def _new_key_json(made: keys.NewKey) -> NewKey:
    return NewKey(token=made.token, key=_key_json(made.key))


ExportScope = Annotated[
    str, QueryParameter(name="scope", description="Export only this scope and those below, such as `user:ada`.")
]
Source = Annotated[str, QueryParameter(description="The origin of the lines, such as a file name.")]


@post("/erase", **in_thread("Erase a subject", 507, status=200))
def erase(request: StrictRequest, data: JSONBody[Erase]) -> Receipt:
    """Remove all data of a user or another subject of the tenant, including history."""
    ids = {kind: id for kind, id in msgspec.structs.asdict(data).items() if id is not None}
    return Receipt(**plain(request.auth.memory.erase(**ids)))


@get("/export", responses=problem_specs(507), media_type=LINES, summary="Export")
async def export(request: StrictRequest, whose: ExportScope = "") -> Stream:
    """Return the active facts and entries at and below a scope, and all definitions, as JSON Lines.

    The lines are one snapshot, read while they are sent. An export that is not received in time is aborted.
    """
    memory = request.auth.memory
    lines = partial(memory.export_lines, scope=Scope.parse(whose, tenant=memory.tenant))
    return await request.app.state.exports.begin(lines, ahead=memory.url == ":memory:")


@dataclass
class _TakesLines(Operation):
    """An OpenAPI operation with JSON Lines as its body."""

    def __post_init__(self) -> None:
        schema = Schema(
            type=OpenAPIType.STRING, description="The lines of an export: a header, then one item per line."
        )
        self.request_body = RequestBody(content={LINES: OpenAPIMediaType(schema=schema)}, required=True)


@post("/import", status_code=200, operation_class=_TakesLines, responses=problem_specs(409, 502, 507), summary="Import")
async def import_lines(request: StrictRequest, source: Source = DOOR) -> Imported:
    """Import the lines of an export, all or none. Data that was erased since the export stays erased."""
    body = await request.body()
    if not body:
        raise UsageError("this request needs a body", hint="Send the lines of an export", path="$")
    # Read line by line: a list of lines would take as much memory again.
    return await run_sync(partial(request.auth.memory.import_lines, BytesIO(body), source=source))


@post("/sweep", **in_thread("Sweep", 507, status=200))
def sweep(request: StrictRequest) -> Swept:
    """Remove expired data of the tenant."""
    return msgspec.convert(request.auth.memory.sweep(), Swept, from_attributes=True)


@post("/memory/end", **in_thread("End a scope", 409, 507, status=200))
def end_scope(request: StrictRequest, data: JSONBody[EndScope]) -> Ended:
    """End a session, run or tree below the caller: its memory is removed and cannot be written to again."""
    return Ended(removed=caller_memory(request.auth, data.scope).end())
