"""Shares of origins: whatever is ranked, no origin has more than its share while others match."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memoranda.model.trust import RANK_OF, Origin
from memoranda.retrieval.influence import Origins, bound_list, crowd_of
from memoranda.retrieval.rank import crowd_in

LOW, MEDIUM = RANK_OF["low"], RANK_OF["medium"]
# The trust of a row, its origin, and whether it matches; fully trusted rows may have no origin.
rows = st.lists(
    st.sampled_from([(0, "x"), (1, "tool"), (1, "page"), (2, "agent"), (2, "model"), (3, "crm"), (3, "")]).flatmap(
        lambda one: st.tuples(st.just(one), st.booleans())
    ),
    max_size=40,
)


def told(given: tuple[int, str]) -> tuple[int, tuple[str, ...]]:
    return given[0], (given[1],) if given[1] else ()


@given(rows, st.integers(1, 12))
def test_g54_no_origin_has_more_than_its_share_while_others_match(
    given: list[tuple[tuple[int, str], bool]], limit: int
) -> None:
    origins, matching = [told(one) for one, _ in given], [is_match for _, is_match in given]
    places = bound_list(origins, matching, limit)
    assert places == sorted(set(places)), "in the order of the ranking, each once"
    assert len(places) <= limit
    chosen = [origins[place] for place in places]
    left = [place for place in range(len(given)) if place not in places]
    trusted = any(is_match and trust >= MEDIUM for (trust, _), is_match in zip(origins, matching, strict=True))
    low = sum(trust <= LOW for trust, _ in chosen)
    if trusted:
        assert low <= math.ceil(limit / 3)
    of_origin = Counter(origin for trust, origin in chosen if trust >= MEDIUM and origin)
    for origin, count in of_origin.items():
        if count > math.ceil(limit / 2):
            others = [place for place in left if matching[place] and origins[place][1] != origin]
            full = [origins[place] for place in others if origins[place][0] >= MEDIUM]
            assert all(of_origin[other] >= math.ceil(limit / 2) for _, other in full if other)
            assert all(other for _, other in full), "what has no origin is never left out for one"
    if len(places) < limit:
        assert all(origins[place][0] <= LOW for place in left), "nothing else is left out while there are places"


def test_an_answer_in_which_no_origin_has_too_much_has_no_crowd() -> None:
    assert crowd_of([(3, 0)] * 6, 6) is None
    assert crowd_of([(1, 1), (1, 2), (2, 3), (2, 3), (2, 3), (3, 0)], 6) is None
    assert crowd_of([(1, 1), (1, 2), (1, 2), (3, 0)], 6) == (True, ())
    assert crowd_of([(2, 3)] * 4 + [(1, 1)], 6) == (False, (3,))


def test_words_of_a_crowd_do_not_become_less_telling(make_shelf, make_rows, ask) -> None:
    index = make_shelf(["The harbour fees go to GULL", "The fees of the library rise", "Jon has a boat"])
    calm = ask(index, "harbour fees", limit=3)
    tool = Origin(actor="tool:web", kind="tool_external", trust="low")
    flood = [f"Harbour fees are {chr(97 + n % 26)}{chr(97 + n // 26)}xx by now" for n in range(200)]
    index.add(make_rows(flood, first=10, origin=tool))
    found = ask(index, "harbour fees", limit=3)
    crowd = crowd_in(index, found, 3)
    assert crowd is not None and crowd.is_low
    assert np.count_nonzero(crowd.others(Origins(index.trust, index.origin))) == 3
    again = ask(index, "harbour fees", limit=3, crowd=crowd)
    assert 1 in [one.sequence for one in again] and 1 not in [one.sequence for one in found]
    (fact,) = [one for one in again if one.sequence == 1]
    assert abs((fact.why.lexical or 0) - (calm[0].why.lexical or 0)) < 0.05
