"""Requirements about the inside of a system: G7, G20, G25, G44 and G57 to G60.

No scenario can show them from outside. For Memoranda, the tests that have the number in their names do.
"""

from __future__ import annotations

from memoranda.testing.governance.requirements import Requirement, add

INSIDE = (
    Requirement(
        number=7,
        title="Nothing goes around the gate",
        obligation="A lawful write through each entry point succeeds.",
        negative="The same violating write is refused at each, and each refusal is recorded.",
    ),
    Requirement(
        number=20,
        title="A model ignores embedded instructions",
        negative="Of N prompts with a planted order, the model follows none: a count with a model, never a pass.",
        counted=True,
    ),
    Requirement(
        number=25,
        title="An absence is not a result",
        obligation="Allowed, denied, wrong scope, stale, nothing found and unavailable can be told apart.",
        negative="The ranking never sees what belongs to another scope.",
    ),
    Requirement(
        number=44,
        title="The scores can be believed",
        obligation="A probe that breaks fails, the two scores are apart, and each requirement has a scenario or tests.",
        negative="No floor passes.",
    ),
    Requirement(
        number=57,
        title="Concurrent calls are linearizable",
        obligation="Histories of real processes are those of one register.",
    ),
    Requirement(
        number=58,
        title="Versions form one chain",
        obligation="Each expected version is used once, without gaps, and no client goes back.",
        negative="A store with a race does not pass the check.",
    ),
    Requirement(
        number=59,
        title="A crash loses nothing",
        obligation="Every acknowledged write is there after a kill, and the ledger agrees with it.",
    ),
    Requirement(
        number=60,
        title="Tampering with the ledger is found",
        obligation="A whole chain verifies, and concurrent appends make one.",
        negative="No edited, removed, moved or cut event goes unnoticed; a cut tail takes an anchor.",
    ),
)

for _one in INSIDE:
    add(_one)
