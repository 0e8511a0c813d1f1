"""What was forgotten is gone from the next prompt of the same conversation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memoranda import Memory
from memoranda.chat.turn import MOST_MESSAGES

Say = Callable[..., Any]


def test_a_deleted_line_and_a_forgotten_entry_are_gone_from_the_next_prompt(
    memory: Memory, say: Say, write: Any, scripted: Any
) -> None:
    ada = memory.scope(user="ada")
    write("core", "- The shed code is 4711-KILN\n- Grows beans")
    write("archival", "- The spare key 4711-KILN hangs in the barn\n- Bed 3 has ants", agent="gardener")
    model = scripted(*(f"Bed {number} is dug." for number in range(40)), "They dug.", "Yes.", "No.")
    say("Which beds?", model=model)
    assert "4711-KILN" in model.shown and "Grows beans" in model.shown
    gone = ada.forget(identifier="4711-KILN")
    assert gone.lines == 1
    say("Which beds now?", model=model)
    assert "4711-KILN" not in model.shown and "Grows beans" in model.shown
    ada.undo(gone)
    say("And now?", model=model)
    assert "4711-KILN" in model.shown
    ada.forget(about="the shed code")
    seen = len(model.asked)
    for number in range(MOST_MESSAGES // 2):  # long enough for a summary
        say(f"Bed {number}?", model=model)
        shown = str([(ask.instructions, ask.messages) for ask in model.asked[seen:]])
        assert "4711-KILN" not in shown and "Grows beans" in shown
