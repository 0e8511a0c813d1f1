"""Print every pattern that the modules of the package compile on import, and where."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import sys
from pathlib import Path
from typing import Any

_compile: Any = re._compile  # type: ignore[attr-defined]
_ROOT = str(Path(sys.argv[1]).resolve())
_seen: set[tuple[str, int, str, bool, int]] = set()


def _noting(pattern: Any, flags: Any) -> re.Pattern[Any]:
    compiled = _compile(pattern, flags)
    frame = sys._getframe(1)
    while frame.f_code.co_filename == re.__file__ and frame.f_back is not None:
        frame = frame.f_back
    file = frame.f_code.co_filename
    if file.startswith(_ROOT) and isinstance(pattern, str | bytes):
        text = pattern if isinstance(pattern, str) else pattern.decode("latin-1")
        place = Path(file).relative_to(_ROOT).as_posix()
        _seen.add((place, frame.f_lineno, text, isinstance(pattern, bytes), compiled.flags))
    return compiled


re._compile = _noting  # type: ignore[attr-defined]
package = importlib.import_module("memoranda")
for module in pkgutil.walk_packages(package.__path__, "memoranda."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
json.dump(sorted(_seen), sys.stdout)
