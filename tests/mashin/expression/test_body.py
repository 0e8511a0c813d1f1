"""The body of a computation: names for values, line by line, and a last expression."""

from __future__ import annotations

import pytest
from computations import computed

from memoranda.errors import SourceError

SCOPE = {"steps": {"find": {"results": [{"content": "A"}, {"content": "B"}]}}, "input": {"n": 2}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2", 3),
        ("let a = 1\nlet b = a + 1\na + b", 3),
        (
            'let docs = steps.find.results\n{\n  context: docs.map(d => d.content).join("\\n\\n"),\n  n: docs.length }',
            {"context": "A\n\nB", "n": 2},
        ),
        ("let a = 1\n{a}", {"a": 1}),
        ("let a = [1, 2]\n[a.length]", [2]),
        ("let a = 1\n(a)", 1),
        ("let a = 1\n-a", -1),
        ("let a = find.results\n  .map(d => d.content)\n  .join('+')\na", "A+B"),
        ("let a = 1 +\n  2\na", 3),
        ("let a = n is 2\n  and n < 3\n  ? 'two'\n  : 'other'\na", "two"),
        ("let double = x => x * 2\n[1, 2].map(double)", [2, 4]),
        ("let double = x => x * 2\ndouble(n)", 4),
        ("let add = (a, b) => a + b\nn |> add(3)", 5),
        ("// a comment\nlet a = 1 // and one here\n\n\na // and here", 1),
        ("let let_it = 1\r\nlet_it", 1),
        ("let a = 1 // one\ra", 1),
    ],
)
def test_a_body_has_the_value_of_its_last_line(text: str, value: object) -> None:
    assert computed(text).value(SCOPE) == value


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("", ["missing"]),
        ("// nothing", ["missing"]),
        ("let a = 1", ["missing"]),
        ("let", ["missing", "expected"]),
        ("let = 1\n2", ["expected"]),
        ("let a 1\n2", ["expected"]),
        ("let a =\n", ["missing", "expected"]),
        ("let not = 1\n2", ["reserved_name"]),
        ("let a = 1\nlet a = 2\na", ["duplicate"]),
        ("1\n2", ["unexpected"]),
        (
            "let a = 1 +* 2\nlet b = nope()\nlet c = 'open\nb.mop()",
            ["unexpected_token", "unknown_function", "unclosed_quote", "unknown_method"],
        ),
        ("let f = x => f(x)\nf(1)", ["unknown_function"]),
    ],
)
def test_every_fault_of_every_line_is_found(text: str, codes: list[str]) -> None:
    with pytest.raises(SourceError) as caught:
        computed(text)
    assert [found.code for found in caught.value.diagnostics] == codes
