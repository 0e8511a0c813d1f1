"""Scopes: their canonical text, their parts, and which scope covers which."""

from __future__ import annotations

import itertools
import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.errors import InvalidScope
from memoranda.model.names import why_not_a_name
from memoranda.model.scope import ENDING_KINDS, KINDS, Scope, below

characters = st.one_of(st.sampled_from("%/:.2F5f_ *ab"), st.characters(exclude_categories=("Cc", "Cf", "Cs", "Cn")))
ids = (
    st.text(characters, min_size=1, max_size=20)
    .map(lambda text: unicodedata.normalize("NFC", text))
    .filter(lambda text: why_not_a_name(text, longest=256) is None)
)
parts = st.dictionaries(st.sampled_from(KINDS), ids, max_size=len(KINDS))
scopes = st.builds(lambda tenant, given: Scope.of(tenant=tenant, **given), ids, parts)


def test_text_and_parts() -> None:
    scope = Scope.of(agent="emails", user="ada")
    assert scope.path == str(scope) == "user:ada/agent:emails"
    assert scope.parts == (("user", "ada"), ("agent", "emails"))
    assert scope.shape == ("user", "agent")
    assert scope.subject == "user:ada"
    assert Scope.parse("user:ada/agent:emails") == scope
    assert Scope.of(user="a/b").path == "user:a%2Fb"
    assert Scope.of(user="100%").path == "user:100%25"


def test_a_missing_id_is_refused_rather_than_left_out() -> None:
    assert Scope.of(user="a").path == "user:a"
    with pytest.raises(InvalidScope):
        Scope.of(user=None)  # type: ignore[arg-type]


class _Named(str):
    """A text that is not plain `str`, as a member of an enumeration is."""


def test_scopes_that_were_asked_for_before_are_never_mixed_up() -> None:
    for _ in range(2):  # the second time from memory
        assert Scope.of(user="1").path == "user:1"
        assert Scope.of(agent="1").path == "agent:1"
        assert Scope.of(user="a", agent="b").path == Scope.of(agent="b", user="a").path == "user:a/agent:b"
        assert Scope.of(user="b", agent="a").path == "user:b/agent:a"
        assert Scope.of(tenant="a", user="b") == Scope("a", "user:b")
        assert Scope.of(tenant="b", user="a") == Scope("b", "user:a")
        assert (Scope.of(tenant="user"), Scope.of(user="user")) == (Scope("user"), Scope("default", "user:user"))
        for number in (1, True, 1.0, None, b"1", ["1"], {"1": 1}):
            with pytest.raises(InvalidScope, match=r"the user id cannot be used: .* not text") as refused:
                Scope.of(user=number)  # type: ignore[arg-type]
            assert refused.value.__context__ is None
            with pytest.raises(InvalidScope, match="the tenant id cannot be used"):
                Scope.of(tenant=number, user="1")  # type: ignore[arg-type]


def test_what_only_equals_a_name_does_not_take_its_place() -> None:
    odd = Scope.of(tenant=_Named("odd"), user=_Named("odd"))
    plain = Scope.of(tenant="odd", user="odd")
    assert odd == plain
    assert type(plain.tenant) is type(plain.path) is type(odd.path) is str


def test_more_scopes_than_are_remembered_stay_themselves() -> None:
    many = [Scope.of(tenant=f"t{number % 7}", user=f"u{number}") for number in range(3_000)]
    assert [(one.tenant, one.path) for one in many] == [(f"t{n % 7}", f"user:u{n}") for n in range(3_000)]
    assert [Scope.of(tenant=f"t{number % 7}", user=f"u{number}") for number in range(3_000)] == many


@pytest.mark.parametrize("text", ["user:a%", "user:a%2f", "user:%61", "user:a%2", "user:a%252F/"])
def test_a_text_that_is_not_canonical_is_refused_every_time(text: str) -> None:
    for _ in range(2):
        with pytest.raises(InvalidScope):
            Scope.parse(text)


def test_the_shared_scope_is_empty() -> None:
    shared = Scope.of()
    assert (shared.path, shared.parts, shared.shape, shared.subject, str(shared)) == ("", (), (), "", "(shared)")
    assert Scope.parse("") == shared
    assert not shared.ends


@given(scopes)
def test_every_scope_is_its_text(scope: Scope) -> None:
    assert Scope.parse(scope.path, tenant=scope.tenant) == scope
    assert Scope.of(tenant=scope.tenant, **dict(scope.parts)) == scope
    assert hash(Scope.parse(scope.path, tenant=scope.tenant)) == hash(scope)
    assert msgspec.json.decode(msgspec.json.encode(scope), type=Scope) == scope


@given(parts)
def test_ids_come_back_as_they_were_given_in_the_order_of_kinds(given_parts: dict[str, str]) -> None:
    scope = Scope.of(**given_parts)
    assert dict(scope.parts) == given_parts
    assert list(scope.shape) == [kind for kind in KINDS if kind in given_parts]


@given(st.lists(parts, min_size=2, max_size=2, unique_by=lambda one: tuple(sorted(one.items()))))
def test_two_scopes_never_have_one_text(pair: list[dict[str, str]]) -> None:
    assert Scope.of(**pair[0]).path != Scope.of(**pair[1]).path


@given(st.text(st.sampled_from("user:agent/%2F5 ab"), max_size=20))
def test_any_text_is_a_scope_or_refused(text: str) -> None:
    try:
        scope = Scope.parse(text)
    except InvalidScope as error:
        assert error.hint
    else:
        assert scope.path == text
        assert Scope.of(**dict(scope.parts)).path == text


def test_covers_is_at_and_below() -> None:
    ada = Scope.of(user="ada")
    assert ada.covers(ada)
    assert ada.covers(Scope.of(user="ada", agent="x"))
    assert Scope.of().covers(ada)
    for other in (Scope.of(), Scope.of(user="adam"), Scope.of(user="ada/agent:x"), Scope.of(agent="x"),
                  Scope.of(tenant="other", user="ada")):  # fmt: skip
        assert not ada.covers(other)
    assert not Scope.of(tenant="other").covers(ada)


@given(scopes, scopes)
def test_covers_agrees_with_the_parts(one: Scope, other: Scope) -> None:
    expected = one.tenant == other.tenant and other.parts[: len(one.parts)] == one.parts
    assert one.covers(other) == expected
    below_it = Scope(one.tenant, other.path)
    assert one.covers(below_it) == (other.parts[: len(one.parts)] == one.parts)


@given(scopes, parts)
def test_the_range_below_a_scope_holds_what_it_covers(scope: Scope, more: dict[str, str]) -> None:
    inner = Scope.of(tenant=scope.tenant, **(more | dict(scope.parts)))
    low, high = below(scope.path)
    strictly_below = scope.covers(inner) and inner != scope
    if scope.path:
        assert (low <= inner.path < high) == strictly_below


def test_scopes_that_end() -> None:
    assert {"session", "run", "tree"} == ENDING_KINDS
    assert Scope.of(user="ada", run="r").ends
    assert not Scope.of(user="ada").ends
    assert not Scope.of(tree="t", agent="x").ends  # an agent in a tree lasts; its tree ends


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(KINDS[:4], 2)))
def test_kinds_stand_in_one_order(first: str, second: str) -> None:
    text = f"{first}:a/{second}:b"
    if KINDS.index(first) < KINDS.index(second):
        assert Scope.parse(text).path == text
    else:
        with pytest.raises(InvalidScope):
            Scope.parse(text)


def test_scopes_are_checked_wherever_they_come_from() -> None:
    assert msgspec.json.decode(b'{"tenant":"t","path":"user:a"}', type=Scope) == Scope.of(tenant="t", user="a")
    for bad in (b'{"tenant":"","path":""}', b'{"tenant":"t","path":"x:a"}', b'{"tenant":"t","path":"user:a%"}'):
        with pytest.raises((InvalidScope, msgspec.ValidationError)):
            msgspec.json.decode(bad, type=Scope)
