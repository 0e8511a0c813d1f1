"""What a context leaves out because another item says the same."""

from __future__ import annotations

import pytest

import memoranda

TOLD = "one two three four five six seven eight nine ten"


@pytest.mark.parametrize(
    ("other", "is_left_out"),
    [
        ("TEN nine, eight seven six five four three two one!", True),  # the same words
        (TOLD + " eleven twelve", True),  # 10 of 12
        (TOLD.removesuffix(" ten"), True),  # 9 of 10
        (TOLD.removesuffix(" nine ten"), False),  # 8 of 10, which is not more than four fifths
        (TOLD + " eleven twelve thirteen", False),  # 10 of 13
    ],
)
def test_an_item_is_left_out_if_more_than_four_fifths_of_the_words_are_said(other: str, is_left_out: bool) -> None:
    with memoranda.open(":memory:") as memory:
        ada = memory.scope(user="ada")
        ada.blocks.update("core", TOLD, expected_updated_at=None)
        ref = f"entry:{ada.remember(other).id}"
        context = ada.context("one two three")
        assert (ref in [item.ref for item in context.items]) is not is_left_out
        assert [(one.ref, one.why) for one in context.left_out] == ([(ref, "duplicate")] if is_left_out else [])
