"""The parts of the library `jsonata-python` that we use, as `Any`: it is hardly typed.

Only the `jsonata` modules use them.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

# Importing the library multiplies the recursion limit of the whole process by ten.
_limit = sys.getrecursionlimit()
_main = import_module("jsonata.jsonata")
sys.setrecursionlimit(_limit)

Jsonata: Any = _main.Jsonata
JException: Any = import_module("jsonata.jexception").JException
Functions: Any = import_module("jsonata.functions").Functions
Utils: Any = import_module("jsonata.utils").Utils
Signature: Any = import_module("jsonata.signature").Signature
Parser: Any = import_module("jsonata.parser").Parser
Signs: Any = Parser.Symbol
Tokenizer: Any = import_module("jsonata.tokenizer").Tokenizer
NULL: Any = Utils.NULL_VALUE
"""JSON's null, which is a value; the library uses None for a missing value."""
