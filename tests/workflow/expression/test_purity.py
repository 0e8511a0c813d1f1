"""Nothing that an expression can write reaches a file, a socket or an object of Python."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda.workflow.jsonata import compile
from memoranda.workflow.jsonata_functions import NAMES, REFUSED


def test_every_function_is_one_that_reaches_nothing() -> None:
    """A function that the library adds later fails here, until it has been reviewed."""
    assert set(NAMES) == set(
        """abs append assert average base64decode base64encode boolean ceil clone contains count decodeUrl
        decodeUrlComponent distinct each encodeUrl encodeUrlComponent error exists filter floor formatBase
        formatInteger formatNumber fromMillis join keys length lookup lowercase map match max merge millis min not
        now number pad parseInteger power random reduce replace reverse round shuffle sift single sort split spread
        sqrt string substring substringAfter substringBefore sum toMillis trim type uppercase uuid zip""".split()
    )
    assert not REFUSED & set(NAMES)
    assert frozenset({"eval"}) == REFUSED


class Holder:
    secret = "seen"

    def reveal(self) -> str:
        return self.secret


@pytest.mark.parametrize(
    "text",
    ["$input.__class__", "$input.holder.secret", "$input.holder.reveal", "$lookup($input.holder, 'secret')"],
)
def test_no_expression_reaches_an_object_of_python(text: str) -> None:
    variables: dict[str, Any] = {"input": {"holder": Holder(), "plain": {"secret": "seen"}}}
    assert not compile(text).evaluate(variables)
    assert compile("$input.plain.secret").evaluate(variables) == "seen"
