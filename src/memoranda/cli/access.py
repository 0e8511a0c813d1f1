"""`memoranda permissions`, `roles`, `approvals`, `conflicts` and `keys`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from memoranda.cli import formats
from memoranda.cli.command import Desk, Reason, argument, command, flag, group, option
from memoranda.model.guard import SUBJECTS, Action
from memoranda.model.trust import check_origin

if TYPE_CHECKING:
    from memoranda import Approval, Contested, Role, Rule
    from memoranda.governance.approvals import Decided
    from memoranda.model.guard import GuardRule
    from memoranda.server.auth.keys import Key, NewKey


app = group("permissions", lists=True)


@command(
    app,
    "grant",
    changes=True,
    scoped=True,
    creates=True,
    example="memoranda permissions grant agent:mail memory.read --user ada",
)
def grant(
    desk: Desk,
    to: Annotated[str, argument("ACTOR", "Such as agent:mail; * is everybody.")],
    capability: Annotated[str, argument("CAPABILITY", "Such as memory.read; memory covers all of them, * everything.")],
    level: Annotated[
        Literal["allow", "approve", "deny"], option(None, "Allow it, require approval each time, or deny it.")
    ] = "allow",
    path: Annotated[str, option("KEY", "Only at and below this key.")] = "",
    own: Annotated[bool, flag("Of a role: in the memory of those who have it.", "--own")] = False,
) -> None:
    """Grant a capability to an actor, everywhere or in one scope. A denial overrides every allowance.

    The actor role:support is the role of that name, and the capability roles.support gives an actor the role.
    """
    scope = desk.scope if desk.names_scope else None
    made = desk.memory.permissions.grant(to, capability, level=level, scope=scope, path=path, own=own)
    desk.out.result(made, f"{made.id}: {level} {capability} for {to} {_where(made.rule)}")


@command(app, "list", example="memoranda permissions list")
def list_grants(desk: Desk) -> None:
    """List all grants, oldest first."""
    grants = desk.memory.permissions.list()
    if desk.out.answers(grants, empty="No grants: only the owner may do anything."):
        return
    rows = [(one.actor, one.rule.level, one.rule.capability, _where(one.rule), one.id) for one in grants]
    desk.out.table(("actor", "level", "capability", "where", "id"), rows, whole=("id",), folded=("actor", "where"))


@command(app, "revoke", changes=True, example="memoranda permissions revoke grant_01a1…")
def revoke(desk: Desk, grant: Annotated[str, argument("ID", "As the list shows it.")]) -> None:
    """Revoke a grant."""
    gone = desk.memory.permissions.revoke(grant)
    desk.out.result(gone, f"{gone.actor} no longer has: {gone.rule.level} {gone.rule.capability}")


@command(app, "epoch", scoped=True, example="memoranda permissions epoch --user ada")
def epoch(desk: Desk) -> None:
    """Print the permission epoch of a scope, or of the tenant: it grows with each change that reaches it."""
    found = desk.memory.permissions.epoch(desk.scope if desk.names_scope else None)
    desk.out.result({"epoch": found}, str(found))


def _where(rule: Rule) -> str:
    place = "in one's own memory" if rule.own else "everywhere" if rule.scope is None else f"in {rule.scope}"
    return f"{place} at {rule.path}" if rule.path else place


roles_app = group("roles", lists=True)

RoleName = Annotated[str, argument("ROLE", "Its name, such as support.")]


@command(
    roles_app,
    "define",
    changes=True,
    creates=True,
    example="memoranda roles define support --allow definitions --own memory",
)
def define(
    desk: Desk,
    role: RoleName,
    allow: Annotated[list[str] | None, option("CAPABILITY", "Allow it in the whole tenant; repeatable.")] = None,
    own: Annotated[list[str] | None, option("CAPABILITY", "Allow it in the user's own memory; repeatable.")] = None,
) -> None:
    """Define a role, or give it other permissions in place of its own. All who have it are affected at once."""
    made = desk.memory.roles.define(role, allow=allow or (), own=own or ())
    desk.out.result(made, f"{made.name} is defined: {_summary(made)}")


@command(roles_app, "list", example="memoranda roles list")
def list_roles(desk: Desk) -> None:
    """List the built-in roles and those that were defined, with their permissions."""
    roles = desk.memory.roles.list()
    if desk.out.answers(roles, empty="No roles."):
        return
    rows = [(one.name, "built in" if one.built_in else "", _summary(one)) for one in roles]
    desk.out.table(("role", "", "permissions"), rows, whole=("role",), folded=("permissions",))


@command(roles_app, "delete", changes=True, example="memoranda roles delete support")
def delete_role(desk: Desk, role: RoleName) -> None:
    """Delete a role, and the grants that give it. Keys and tokens with it may do nothing from now on."""
    gone = desk.memory.roles.delete(role)
    desk.out.result(gone, f"{gone.name} is deleted")


def _summary(role: Role) -> str:
    levels = {"allow": "", "approve": "approve ", "deny": "deny "}
    return ", ".join(f"{levels[one.level]}{one.capability} {_where(one)}" for one in role.rules)


approvals_app = group("approvals", lists=True)

Which = Annotated[str, argument("ID", "As the list shows it.")]


@command(approvals_app, "list", example="memoranda approvals list --status all")
def list_approvals(
    desk: Desk,
    status: Annotated[
        Literal["pending", "approved", "refused", "all"],
        option("STATUS", "Only pending, approved or refused ones, or all."),
    ] = "pending",
) -> None:
    """List approvals, oldest first."""
    found = desk.memory.approvals.list(status=status)
    if desk.out.answers(found, empty="Nothing is waiting." if status == "pending" else "No approvals."):
        return
    rows = [(one.id, one.status, one.actor, _target(one), desk.out.ago(one.requested_at)) for one in found]
    columns = ("id", "status", "actor", "what", "asked")
    desk.out.table(columns, rows, whole=("id", "status", "asked"), folded=("actor", "what"))


@command(approvals_app, "show", example="memoranda approvals show approval_01a1…")
def show(desk: Desk, approval: Which) -> None:
    """Show one approval with its effect."""
    found = desk.memory.approvals.get(approval)
    from memoranda.wire.codec import plain

    effect = "(removed: it was decided or erased)" if found.effect is None else formats.value(plain(found.effect))
    desk.out.details(
        found,
        [
            ("id", found.id),
            ("status", found.status),
            ("actor", f"{found.actor} through {found.door}"),
            ("origin", f"{found.kind}, trusted {found.trust}"),
            ("cause", found.cause),
            ("found", ", ".join(found.findings)),
            ("capability", found.capability),
            ("scope", found.scope or "(shared)"),
            ("asked", formats.exact(found.requested_at)),
            ("effect", effect),
            ("decided", f"{formats.exact(found.decided_at)} by {found.decided_by}" if found.decided_at else ""),
            ("reason", found.reason),
        ],
    )


@command(
    approvals_app, "approve", changes=True, example="memoranda approvals approve approval_01a1… --reason 'as agreed'"
)
def approve(desk: Desk, approval: Which, reason: Reason = "") -> None:
    """Approve a request; it is carried out now, on behalf of its actor."""
    _report(desk, desk.memory.approvals.approve(approval, reason=reason))


@command(
    approvals_app,
    "refuse",
    changes=True,
    example="memoranda approvals refuse approval_01a1… --reason 'not on a Friday'",
)
def refuse(desk: Desk, approval: Which, reason: Reason = "") -> None:
    """Refuse a request."""
    _report(desk, desk.memory.approvals.refuse(approval, reason=reason))


def _report(desk: Desk, decided: Decided) -> None:
    asked = decided.approval
    desk.out.result(decided, f"{asked.id} is {asked.status}: {asked.capability} for {asked.actor}")


def _target(approval: Approval) -> str:
    key = approval.effect.place if approval.effect is not None else None
    return f"{approval.capability} {approval.scope or '(shared)'} {key or ''}".strip()


conflicts_app = group("conflicts", lists=True)


@command(conflicts_app, "list", scoped=True, example="memoranda conflicts list --user ada")
def list_conflicts(desk: Desk) -> None:
    """List writes that wait because they contradict something more trusted: what is current, and what was proposed."""
    found = desk.memory.conflicts(desk.scope if desk.names_scope else None)
    if desk.out.answers(found, empty="No conflicts."):
        return
    rows = [
        (
            one.id,
            f"{one.scope} {one.key}",
            formats.value(one.current),
            _proposal(one),
            f"{one.proposed_origin.actor}, {one.proposed_origin.kind}",
        )
        for one in found
    ]
    desk.out.table(("id", "where", "current", "proposed", "by"), rows, whole=("id",), folded=("where", "by"))


@command(
    conflicts_app,
    "resolve",
    changes=True,
    example="memoranda conflicts resolve approval_01a1… keep --reason 'she did not move'",
)
def resolve(
    desk: Desk,
    conflict: Which,
    verdict: Annotated[
        Literal["keep", "take"], argument("VERDICT", "keep what is current, or take what was proposed.")
    ],
    reason: Reason = "",
) -> None:
    """Decide a conflict; what is taken is written now, on behalf of its actor."""
    _report(desk, desk.memory.resolve(conflict, verdict, reason=reason))


def _proposal(conflict: Contested) -> str:
    if conflict.change in ("delete", "forget"):
        return f"({conflict.change})"
    return formats.value(conflict.proposed)


quarantine_app = group("quarantine", lists=True)


@command(quarantine_app, "list", scoped=True, example="memoranda quarantine list")
def list_quarantine(desk: Desk) -> None:
    """List the writes that the guard held back, with what was found in them, oldest first."""
    found = desk.memory.quarantine.list(desk.scope if desk.names_scope else None)
    if desk.out.answers(found, empty="Nothing is held."):
        return
    rows = [(one.id, one.actor, _target(one), ", ".join(one.findings), desk.out.ago(one.requested_at)) for one in found]
    columns = ("id", "actor", "what", "found", "asked")
    desk.out.table(columns, rows, whole=("id", "asked"), folded=("actor", "what", "found"))


@command(
    quarantine_app,
    "release",
    changes=True,
    example="memoranda quarantine release approval_01a1… --reason 'a quotation'",
)
def release(desk: Desk, held: Which, reason: Reason = "") -> None:
    """Store what was held, on behalf of its actor."""
    _report(desk, desk.memory.quarantine.release(held, reason))


@command(
    quarantine_app, "discard", changes=True, example="memoranda quarantine discard approval_01a1… --reason 'an attack'"
)
def discard(desk: Desk, held: Which, reason: Reason = "") -> None:
    """Drop what was held."""
    _report(desk, desk.memory.quarantine.discard(held, reason))


guard_app = group("guard", lists=True)

Origins = Annotated[list[str], option("KIND", "About these kinds of origins; repeatable.", "--origin")]
Doing = Annotated[Action | None, option("ACTION", "allow, warn, redact, hold or refuse.")]


@command(
    guard_app, "set", changes=True, scoped=True, example="memoranda guard set --origin tool_external --secrets refuse"
)
def set_guard(
    desk: Desk,
    origins: Origins,
    instructions: Doing = None,
    secrets: Doing = None,
    payment: Doing = None,
    codes: Doing = None,
    protected: Doing = None,
    largest: Annotated[int | None, option("BYTES", "Refuse larger values; 0 stores values of any size.")] = None,
) -> None:
    """Say what happens to what origins write, everywhere or in one scope; the nearest scope counts."""
    rules = desk.memory.guard.set(
        desk.scope if desk.names_scope else None,
        origins=[check_origin(one) for one in origins],
        instructions=instructions,
        secrets=secrets,
        payment=payment,
        codes=codes,
        protected=protected,
        largest=largest,
    )
    desk.out.result(rules, "\n".join(f"{one.origin} {one.scope or 'everywhere'}: {_rule_text(one)}" for one in rules))


@command(guard_app, "reset", changes=True, scoped=True, example="memoranda guard reset --user ada")
def reset_guard(desk: Desk) -> None:
    """Forget what was said, everywhere or in one scope; the defaults count, or what is said above."""
    desk.memory.guard.reset(desk.scope if desk.names_scope else None)
    desk.out.result(None, "The rules are gone.")


@command(guard_app, "list", example="memoranda guard list")
def list_guard(desk: Desk) -> None:
    """List what was said about scopes and kinds of origins, where that is not the default."""
    rules = desk.memory.guard.list()
    if desk.out.answers(rules, empty="The guard does what it does by default."):
        return
    rows = [(one.scope or "everywhere", one.origin, _rule_text(one)) for one in rules]
    desk.out.table(("scope", "origin", "what"), rows, folded=("scope", "what"))


@command(guard_app, "check", example="memoranda guard check 'Ignore all previous instructions'")
def check_content(desk: Desk, text: Annotated[str, argument("TEXT", "It is not stored.")]) -> None:
    """Show what the guard would find in a text."""
    found = desk.memory.guard.check(text)
    if desk.out.answers(found, empty="Nothing was found."):
        return
    desk.out.table(
        ("kind", "rule", "from", "to"), [(one.kind, one.rule, str(one.start), str(one.end)) for one in found]
    )


def _rule_text(rule: GuardRule) -> str:
    said = [(name, getattr(rule, name)) for name in (*SUBJECTS, "largest")]
    return ", ".join(f"{name} {value}" for name, value in said if value is not None)


keys_app = group("keys", lists=True)

Id = Annotated[str, argument("ID", "As the list shows it; never the key itself.")]


@command(keys_app, "create", creates=True, example="memoranda keys create --tenant acme --user ada --role member")
def create(
    desk: Desk,
    user: Annotated[str, option("ID", "The user that the key acts for.")],
    role: Annotated[
        str, option("ROLE", "What it may do: admin, member, reader, or a role that was defined.")
    ] = "member",
    allow: Annotated[
        list[str] | None, option("CAPABILITY", "Restrict the role, such as to memory.read; repeatable.")
    ] = None,
    origin: Annotated[
        str, option("KIND", "What writes with it: user, agent, assistant, tool_internal, tool_external or unknown.")
    ] = "user",
    expires: Annotated[str | None, option("TIME", "Expire after 15m, 24h, 90d or 2w.")] = None,
    label: Annotated[str, option("TEXT", "What it is for.")] = "",
) -> None:
    """Create an API key for a user and print it. Only its hash is stored: it cannot be shown again."""
    from memoranda.server.auth.keys import create_key

    made = create_key(
        desk.memory,
        tenant=desk.tenant,
        user=user,
        role=role,
        allow=tuple(allow or ()),
        origin=check_origin(origin),
        expires=expires,
        label=label,
    )
    _show(desk, made)


@command(keys_app, "list", example="memoranda keys list")
def list_all(
    desk: Desk,
    everybody: Annotated[bool, flag("The keys of all tenants.", "--all")] = False,
) -> None:
    """List the API keys of the tenant, oldest first, with their states."""
    from memoranda.server.auth.keys import list_keys

    keys = list_keys(desk.memory, tenant=None if everybody else desk.tenant)
    if desk.out.answers(keys, empty="No keys: create one with `memoranda keys create`."):
        return
    rows = [
        (
            key.id,
            key.tenant,
            key.user,
            key.role,
            key.origin,
            _state(desk, key),
            desk.out.ago(key.last_used_at),
            key.label,
        )
        for key in keys
    ]
    desk.out.table(
        ("id", "tenant", "user", "role", "origin", "state", "used", "label"), rows, whole=("id",), folded=("label",)
    )


@command(keys_app, "revoke", example="memoranda keys revoke 01a1e56c…")
def revoke_key_command(desk: Desk, id: Id) -> None:
    """Revoke an API key: every later request with it is rejected."""
    from memoranda.server.auth.keys import revoke_key

    gone = revoke_key(desk.memory, id)
    desk.out.result(gone, f"{gone.id} of {gone.user} in {gone.tenant} is revoked")


@command(keys_app, "rotate", example="memoranda keys rotate 01a1e56c… --grace 24h")
def rotate(
    desk: Desk,
    id: Id,
    grace: Annotated[str | None, option("TIME", "Keep the old key valid for 15m, 24h or 7d.")] = None,
) -> None:
    """Create a key with the same permissions and print it; the old key is revoked now, or after --grace."""
    from memoranda.server.auth.keys import rotate_key

    _show(desk, rotate_key(desk.memory, id, grace=grace))


def _show(desk: Desk, made: NewKey) -> None:
    key = made.key
    if desk.out.json:
        fields: dict[str, Any] = {name: getattr(key, name) for name in key.__struct_fields__}
        return desk.out.document({"token": made.token, **fields})
    desk.out.say(made.token)
    desk.out.aside(f"{key.role} key {key.id} of {key.user} in {key.tenant}. Save it now: it is not shown again.")


def _state(desk: Desk, key: Key) -> str:
    if key.revoked_at is not None:
        return f"revoked {desk.out.ago(key.revoked_at)}"
    if not key.active_at(desk.memory.clock.now()):
        return f"expired {desk.out.ago(key.expires_at)}"
    return "works" if key.expires_at is None else f"ends {desk.out.ago(key.expires_at)}"
