"""The JSONata library as the rest sees it: its parts, imported without what the import would change for everybody else.

The library has few types, so its parts are `Any` here, and nothing outside of this package touches them.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

# The import sets the recursion limit of the whole process to ten times Python's own.
_limit = sys.getrecursionlimit()
_main = import_module("jsonata.jsonata")
sys.setrecursionlimit(_limit)

Jsonata: Any = _main.Jsonata
JException: Any = import_module("jsonata.jexception").JException
Functions: Any = import_module("jsonata.functions").Functions
Utils: Any = import_module("jsonata.utils").Utils
Signs: Any = import_module("jsonata.parser").Parser.Symbol
NULL: Any = Utils.NULL_VALUE
"""JSON's null, which is a value; None is what the library has where there is none."""
