"""A run that is interrupted is recorded as ended."""

from __future__ import annotations

from typing import Any

import pytest

import memoranda
from memoranda.agent.models import Ask, Reply
from memoranda.api.memory import Memory

ASKS = """
machine desk
  ensures
    allowed to llm_call
  implements
    compute before
      1
    ask label, using: "anthropic:claude-sonnet-4-6"
      with task "A label"
"""


class Torn:
    """A model that is interrupted while it is asked."""

    name = "torn:model"

    def __init__(self, torn: type[BaseException] | None) -> None:
        self.torn = torn

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        if self.torn is not None:
            raise self.torn
        return Reply("Linden")


@pytest.mark.parametrize("torn", [KeyboardInterrupt, SystemExit, MemoryError])
def test_a_run_that_is_interrupted_is_recorded_as_failed(memory: Memory, torn: Any) -> None:
    model = Torn(torn)
    machine = memoranda.mashin.load(ASKS, memory=memory, model=model)
    if torn is MemoryError:
        # An exception of the model's own code is a failure of the step, and the run comes back.
        assert machine.run().error is not None
    else:
        with pytest.raises(torn):
            machine.run()
    [run] = memory.runs.list()
    assert run.status == "failed"
    assert memory.runs.verify(run.id).ok
    assert memory.runs.events(run.id)[-1].kind == "exec_end"
    if torn is not MemoryError:
        assert run.error is not None
        assert torn.__name__ in run.error["message"]
    model.torn = None
    assert machine.run().check().output == {"text": "Linden"}
