"""API keys: made once, kept as hashes, found, listed, ended, replaced."""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import Conflict, Denied, InvalidDuration, InvalidScope, NotFound, Unauthenticated, UsageError
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import InvalidPolicy
from memoranda.model.scope import Scope
from memoranda.server.auth import keys
from memoranda.server.auth.keys import (
    SYSTEM_TENANT,
    KeyCache,
    create_key,
    find_key,
    first_key,
    list_keys,
    note_use,
    revoke_key,
    rotate_key,
)
from memoranda.testing import FakeClock


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def memory(clock, tmp_path):
    with memoranda.open(tmp_path / "keys.db", clock=clock, ledger="all", ledger_text=True) as memory:
        yield memory


def test_a_key_is_found_by_its_token(memory):
    made = create_key(memory, tenant="orchard", user="pippin", role="member", label="laptop")
    assert re.fullmatch(r"mk_[0-9a-f]+_[A-Za-z0-9_-]{43}", made.token)
    found = find_key(memory, made.token)
    assert found == made.key
    assert (found.tenant, found.user, found.role, found.label) == ("orchard", "pippin", "member", "laptop")
    assert made.token.split("_")[1] == found.id


def test_keys_differ_even_for_one_user(memory):
    made = [create_key(memory, tenant="orchard", user="pippin", role="reader") for _ in range(50)]
    assert len({one.token for one in made}) == len({one.key.id for one in made}) == 50
    assert len({one.token.split("_", 2)[2] for one in made}) == 50


def test_only_a_hash_is_kept(memory, tmp_path):
    made = create_key(memory, tenant="orchard", user="pippin", role="member")
    secret = made.token.split("_", 2)[2]
    memory.settle()
    memory.close()
    held = b"".join(file.read_bytes() for file in Path(tmp_path).iterdir())
    assert made.key.id.encode() in held and b"pippin" in held
    assert hashlib.sha256(made.token.encode()).hexdigest().encode() in held
    assert secret.encode() not in held


def test_no_ledger_and_no_repr_holds_a_token(memory):
    made = create_key(memory, tenant="orchard", user="pippin", role="member")
    find_key(memory, made.token)
    revoke_key(memory, made.key.id)
    memory.settle()
    secret = made.token.split("_", 2)[2]
    events = memory.in_tenant(SYSTEM_TENANT).ledger.tail(100)
    assert any(event.key == f"keys.{made.key.id}" for event in events)
    assert secret not in repr(events) and secret not in repr(made) and secret not in repr(list_keys(memory))
    assert made.key.id in repr(made)


def test_every_change_of_a_key_is_in_the_ledger_of_its_own_tenant(memory):
    made = create_key(memory, tenant="orchard", user="pippin", role="member")
    revoke_key(memory, made.key.id)
    memory.settle()
    written = [event for event in memory.in_tenant(SYSTEM_TENANT).ledger.tail(100) if event.effect == "set_fact"]
    assert [event.key for event in written] == [f"keys.{made.key.id}"] * 2
    assert memory.in_tenant("orchard").ledger.tail(100) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda token: token[:-1],
        lambda token: token + "A",
        lambda token: token[:-1] + ("A" if token[-1] != "A" else "B"),
        lambda token: token.swapcase(),
        lambda token: token.replace("mk_", "rk-"),
        lambda token: f" {token}",
        lambda token: f"{token}\n",
        lambda token: "mk_" + "0" * 32 + "_" + token.split("_", 2)[2],
        lambda token: token.split("_", 2)[2],
        lambda token: f"mk_{token.split('_')[1]}_",
        lambda token: f"mk_../keys_{'a' * 43}",
        lambda token: f"mk_first_{'a' * 43}",
        lambda token: "",
        lambda token: "\ud800" * 50,
        lambda token: "mk_" + "é" * 50,
    ],
)
def test_a_token_that_is_not_quite_right_is_refused_without_being_repeated(memory, change):
    token = create_key(memory, tenant="orchard", user="pippin", role="member").token
    wrong = change(token)
    with pytest.raises(Unauthenticated) as refused:
        find_key(memory, wrong)
    assert str(refused.value).startswith("the token of this request is not valid")
    if len(wrong) > 20:
        assert wrong.strip() not in f"{refused.value!r}{refused.value.details}"
    assert find_key(memory, token).user == "pippin"


def test_a_wrong_secret_and_an_unknown_id_look_the_same(memory):
    token = create_key(memory, tenant="orchard", user="pippin", role="member").token
    wrong_secret = token[:-4] + "0000"
    unknown = token.replace(token.split("_")[1], "0" * 32)
    said = []
    for wrong in (wrong_secret, unknown):
        with pytest.raises(Unauthenticated) as refused:
            find_key(memory, wrong)
        said.append((str(refused.value), refused.value.details))
    assert said[0] == said[1]


def test_the_id_of_one_key_and_the_secret_of_another_open_nothing(memory):
    one = create_key(memory, tenant="orchard", user="pippin", role="member").token
    other = create_key(memory, tenant="orchard", user="russet", role="admin").token
    with pytest.raises(Unauthenticated):
        find_key(memory, f"mk_{other.split('_')[1]}_{one.split('_', 2)[2]}")
    assert find_key(memory, other).user == "russet"


def test_a_key_ends_when_its_time_is_over(memory, clock):
    made = create_key(memory, tenant="orchard", user="pippin", role="member", expires="2h")
    clock.advance(7_199)
    assert find_key(memory, made.token).user == "pippin"
    clock.advance(1)
    with pytest.raises(Unauthenticated, match="expired"):
        find_key(memory, made.token)


def test_a_key_may_end_at_a_moment(memory, clock):
    moment = clock.now() + timedelta(days=3)
    assert create_key(memory, tenant="t", user="u", role="reader", expires=moment).key.expires_at == moment
    with pytest.raises(UsageError, match="in the past"):
        create_key(memory, tenant="t", user="u", role="reader", expires=clock.now())


def test_a_revoked_key_opens_nothing_from_then_on(memory):
    made = create_key(memory, tenant="orchard", user="pippin", role="member")
    kept = create_key(memory, tenant="orchard", user="pippin", role="member")
    gone = revoke_key(memory, made.key.id)
    assert gone.revoked_at is not None
    assert revoke_key(memory, made.key.id) == gone
    with pytest.raises(Unauthenticated, match="revoked"):
        find_key(memory, made.token)
    assert find_key(memory, kept.token).id == kept.key.id


def test_another_process_sees_a_revocation_at_once(memory, tmp_path, clock):
    made = create_key(memory, tenant="orchard", user="pippin", role="member")
    with memoranda.open(tmp_path / "keys.db", clock=clock) as other:
        assert find_key(other, made.token).user == "pippin"
        revoke_key(memory, made.key.id)
        with pytest.raises(Unauthenticated):
            find_key(other, made.token)


def test_a_known_key_is_not_read_again_until_a_key_changes(memory, monkeypatch):
    reads, made_of = [], []
    get = ScopedMemory.get

    def counting(place, key, **options):
        reads.append(key)
        return get(place, key, **options)

    monkeypatch.setattr(ScopedMemory, "get", counting)
    made = create_key(memory, tenant="orchard", user="pippin", role="member")
    keys = KeyCache(memory, lambda key: made_of.append(key) or key)

    def find():
        return keys.find(made.token, memory.clock.now(), memory.mark(tenant=SYSTEM_TENANT))

    assert find() == made.key
    assert reads.count(f"keys.{made.key.id}") == 1
    reads.clear()
    assert [find() for _ in range(2)] == [made.key] * 2
    assert reads == []
    memory.scope(user="pippin").set("tree", "apple")
    assert find() is made_of[0]
    assert reads == [], "it was written elsewhere"
    create_key(memory, tenant="orchard", user="other", role="member")
    reads.clear()
    assert find() is made_of[0]
    assert len(reads) == 1
    rotate_key(memory, made.key.id, grace="1h")
    assert find().expires_at == memory.clock.now() + timedelta(hours=1)
    assert len(made_of) == 2


def test_a_known_key_that_is_revoked_elsewhere_or_expires_is_refused_at_once(memory, tmp_path, clock):
    revoked, expiring = (
        create_key(memory, tenant="orchard", user="pippin", role="member", expires=end) for end in (None, "2h")
    )
    with memoranda.open(tmp_path / "keys.db", clock=clock) as other:
        keys = KeyCache(other, lambda key: key)
        assert keys.find(revoked.token, clock.now(), other.mark(tenant=SYSTEM_TENANT)) == revoked.key
        assert keys.find(expiring.token, clock.now(), other.mark(tenant=SYSTEM_TENANT)) == expiring.key
        revoke_key(memory, revoked.key.id)
        with pytest.raises(Unauthenticated, match="revoked"):
            keys.find(revoked.token, clock.now(), other.mark(tenant=SYSTEM_TENANT))
        assert keys.find(expiring.token, clock.now(), other.mark(tenant=SYSTEM_TENANT)) == expiring.key
        clock.advance(7_200)
        with pytest.raises(Unauthenticated, match="expired"):
            keys.find(expiring.token, clock.now(), other.mark(tenant=SYSTEM_TENANT))


def test_who_revokes_a_whole_token_is_not_told_it_back(memory):
    made = create_key(memory, tenant="orchard", user="pippin", role="member")
    with pytest.raises(NotFound) as missing:
        revoke_key(memory, made.token)
    assert made.token not in f"{missing.value!r}{missing.value.details}"
    assert revoke_key(memory, made.key.id).user == "pippin"


def test_a_rotated_key_has_the_same_rights_and_the_old_one_ends(memory, clock):
    old = create_key(
        memory, tenant="orchard", user="pippin", role="member", allow=("memory.read",), expires="10d", label="ci"
    )
    clock.advance(86_400)
    new = rotate_key(memory, old.key.id)
    assert new.token != old.token
    assert (new.key.tenant, new.key.user, new.key.role, new.key.allow, new.key.label) == (
        "orchard",
        "pippin",
        "member",
        ("memory.read",),
        "ci",
    )
    assert new.key.expires_at == clock.now() + timedelta(days=10)
    with pytest.raises(Unauthenticated, match="revoked"):
        find_key(memory, old.token)
    assert find_key(memory, new.token).id == new.key.id
    with pytest.raises(Conflict):
        rotate_key(memory, old.key.id)


def test_a_rotated_key_works_on_through_its_time_of_grace(memory, clock):
    old = create_key(memory, tenant="orchard", user="pippin", role="member")
    new = rotate_key(memory, old.key.id, grace="24h")
    clock.advance(86_399)
    assert find_key(memory, old.token).user == find_key(memory, new.token).user == "pippin"
    clock.advance(1)
    with pytest.raises(Unauthenticated, match="expired"):
        find_key(memory, old.token)
    assert find_key(memory, new.token).user == "pippin"


def test_grace_never_makes_a_key_live_longer(memory, clock):
    old = create_key(memory, tenant="orchard", user="pippin", role="member", expires="1h")
    rotate_key(memory, old.key.id, grace="24h")
    clock.advance(3_600)
    with pytest.raises(Unauthenticated, match="expired"):
        find_key(memory, old.token)


def test_keys_are_listed_by_tenant_oldest_first(memory, clock):
    made = []
    for tenant, user in (("orchard", "pippin"), ("mill", "russet"), ("orchard", "cox")):
        made.append(create_key(memory, tenant=tenant, user=user, role="reader").key)
        clock.advance(1)
    assert list_keys(memory) == made
    assert [key.user for key in list_keys(memory, tenant="orchard")] == ["pippin", "cox"]
    assert list_keys(memory, tenant="nowhere") == []


def test_the_last_use_is_kept_to_the_hour(memory, clock):
    made = create_key(memory, tenant="orchard", user="pippin", role="reader")
    assert list_keys(memory)[0].last_used_at is None
    used = clock.now()
    note_use(memory, made.key.id)
    clock.advance(3_599)
    note_use(memory, made.key.id)
    assert list_keys(memory)[0].last_used_at == used
    clock.advance(1)
    note_use(memory, made.key.id)
    assert list_keys(memory)[0].last_used_at == clock.now()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"role": "owner"}, UsageError),
        ({"role": ""}, UsageError),
        ({"tenant": ""}, InvalidScope),
        ({"user": ""}, InvalidScope),
        ({"user": None}, InvalidScope),
        ({"user": "pip\u200bpin"}, InvalidScope),
        ({"user": "cafe\u0301"}, InvalidScope),
        ({"user": "x" * 201}, UsageError),
        ({"tenant": SYSTEM_TENANT}, UsageError),
        ({"allow": ("memory.everything",)}, InvalidPolicy),
        ({"expires": "soon"}, InvalidDuration),
        ({"expires": "0s"}, InvalidDuration),
        ({"label": "a\nb"}, UsageError),
    ],
)
def test_a_key_that_nobody_could_use_is_not_made(memory, given, error):
    right: dict[str, Any] = {"tenant": "orchard", "user": "pippin", "role": "member"}
    with pytest.raises(error):
        create_key(memory, **{**right, **given})
    assert list_keys(memory) == []
    create_key(memory, **right)
    assert len(list_keys(memory)) == 1


def test_whoever_acts_for_somebody_reaches_no_keys(memory):
    made = create_key(memory, tenant="orchard", user="pippin", role="member")
    narrow = memory.acting_as("agent:mail", policy=memoranda.Policy.of(allow=("*",)))
    for attempt in (
        lambda: create_key(narrow, tenant="orchard", user="x", role="admin"),
        lambda: list_keys(narrow),
        lambda: revoke_key(narrow, made.key.id),
        lambda: find_key(narrow, made.token),
    ):
        with pytest.raises(Denied):
            attempt()
    assert [key.id for key in list_keys(memory)] == [made.key.id]


# the first key


def test_the_first_start_makes_an_admin_key_and_the_next_ones_do_not(memory):
    made = first_key(memory)
    assert made is not None
    assert (made.key.tenant, made.key.user, made.key.role) == ("default", "admin", "admin")
    assert find_key(memory, made.token).id == made.key.id
    assert first_key(memory) is None
    assert len(list_keys(memory)) == 1


def test_no_first_key_is_made_where_somebody_has_one(memory):
    create_key(memory, tenant="orchard", user="pippin", role="reader")
    assert first_key(memory) is None
    assert [key.role for key in list_keys(memory)] == ["reader"]


def test_a_key_that_was_revoked_does_not_come_back_with_a_restart(memory):
    made = first_key(memory)
    assert made is not None
    revoke_key(memory, made.key.id)
    assert first_key(memory) is None
    with pytest.raises(Unauthenticated):
        find_key(memory, made.token)


def test_of_servers_that_start_at_once_one_makes_the_first_key(run_child, tmp_path):
    script = """
        import sys, memoranda
        from memoranda.server.auth.keys import first_key
        with memoranda.open(sys.argv[1]) as memory:
            print("ready", flush=True)
            input()
            made = first_key(memory)
            print("made" if made else "none")
    """
    memoranda.open(tmp_path / "first.db").close()
    children = [run_child(script, tmp_path / "first.db") for _ in range(4)]
    for child in children:
        assert child.hear() == "ready"
    for child in children:
        child.say("go")
    assert sorted(line for child in children for line in child.finish()) == ["made", "none", "none", "none"]
    with memoranda.open(tmp_path / "first.db") as memory:
        assert len(list_keys(memory)) == 1


@pytest.mark.parametrize("token", ["correct-horse-battery", f"mk_myown_{'s' * 30}"])
def test_an_admin_key_of_ones_own_works_from_the_first_start_on(memory, token):
    assert first_key(memory, admin_key=token) is None
    found = find_key(memory, token)
    assert (found.tenant, found.user, found.role) == ("default", "admin", "admin")
    assert first_key(memory, admin_key=token) is None
    assert len(list_keys(memory)) == 1
    for wrong in (token + "x", token[:-1], token.upper()):
        with pytest.raises(Unauthenticated):
            find_key(memory, wrong)


def test_another_admin_key_of_ones_own_takes_the_place_of_the_one_before(memory):
    mine = create_key(memory, tenant="default", user="pippin", role="member")
    first_key(memory, admin_key="correct-horse-battery")
    first_key(memory, admin_key="staple-correct-horse")
    with pytest.raises(Unauthenticated, match="revoked"):
        find_key(memory, "correct-horse-battery")
    assert find_key(memory, "staple-correct-horse").role == "admin"
    assert find_key(memory, mine.token).user == "pippin"


def test_an_admin_key_that_was_revoked_stops_the_start(memory):
    first_key(memory, admin_key="correct-horse-battery")
    revoke_key(memory, list_keys(memory)[0].id)
    with pytest.raises(UsageError, match="MEMORANDA_ADMIN_KEY"):
        first_key(memory, admin_key="correct-horse-battery")


def _traces(token: str) -> list[str]:
    """Return texts that an attacker could derive from a guessed key without a secret, each long enough to be unique."""
    texts = [token, *token.split("_"), *token.split("-")]
    whole = token.encode()
    hashes = [hashlib.new(name, whole).hexdigest() for name in ("sha256", "sha512", "sha1", "md5", "blake2b")]
    return [text for text in texts if len(text) > 4] + [one[:12] for one in hashes]


@pytest.mark.parametrize("token", ["correct-horse-battery", f"mk_hunter22_{'secret' * 5}"])
def test_the_id_of_a_chosen_key_says_nothing_about_the_key(memory, tmp_path, token):
    first_key(memory, admin_key=token)
    [key] = list_keys(memory)
    assert find_key(memory, token).id == key.id
    note_use(memory, key.id)
    place = memory.in_tenant(SYSTEM_TENANT)
    names = [event.key or "" for event in place.ledger.events()]
    assert any(key.id in name for name in names)
    said = " ".join([repr(key), *names])
    assert [trace for trace in _traces(token) if trace in said] == []
    with memoranda.open(tmp_path / "other.db") as other:
        first_key(other, admin_key=token)
        assert list_keys(other)[0].id != key.id


def test_a_chosen_key_of_the_first_release_gets_an_id_that_says_nothing(memory, monkeypatch):
    monkeypatch.setattr(keys, "_own_id", lambda secret, digest: f"own{digest[:32]}")
    first_key(memory, admin_key="staple-correct-horse")
    first_key(memory, admin_key="correct-horse-battery")
    memory.at(Scope(SYSTEM_TENANT)).delete("id_secret")
    monkeypatch.undo()
    released = find_key(memory, "correct-horse-battery")
    note_use(memory, released.id)
    assert any(trace in released.id for trace in _traces("correct-horse-battery"))  # the check below can fail

    assert first_key(memory) is None
    found = find_key(memory, "correct-horse-battery")
    assert (found.role, found.created_at) == ("admin", released.created_at)
    with pytest.raises(Unauthenticated, match="revoked"):
        find_key(memory, "staple-correct-horse")
    listed = list_keys(memory)
    assert len(listed) == 2
    for token in ("correct-horse-battery", "staple-correct-horse"):
        assert not any(trace in key.id for key in listed for trace in _traces(token))
    first_key(memory, admin_key="correct-horse-battery")
    assert list_keys(memory) == listed


@pytest.mark.parametrize(
    "token", ["short", "with blank in it", "a.b.cdefghijklmnop", "ключключключключ", "tab\tinside-it-all"]
)
def test_an_admin_key_that_no_header_can_hold_is_refused_without_being_repeated(memory, token):
    with pytest.raises(UsageError, match="MEMORANDA_ADMIN_KEY") as refused:
        first_key(memory, admin_key=token)
    assert token not in f"{refused.value!r}{refused.value.hint}{refused.value.details}"
    assert list_keys(memory) == []
