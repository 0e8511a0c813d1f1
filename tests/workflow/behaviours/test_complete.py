"""Every number of the checklist is a test here, so that none is lost."""

from __future__ import annotations

import re
from pathlib import Path

_NAME = re.compile(r"^def test_((?:\d\d_|t\d+_)+)", re.M)


def test_every_behaviour_and_every_claim_has_a_test_of_its_number() -> None:
    names = [found for file in Path(__file__).parent.glob("test_*.py") for found in _NAME.findall(file.read_text())]
    numbers = {number for name in names for number in name.strip("_").split("_")}
    wanted = {f"{number:02}" for number in range(1, 57)} | {f"t{number}" for number in range(1, 21)}
    assert numbers == wanted
