"""Find out for which surface a hint was written."""

from __future__ import annotations

import re

PYTHON = re.compile(
    r"\bmemory\.(?!(?:db|read|write|approve)\b)\w+|\bmemoranda\.(?!roles\b|example\b)\w+|\bscope\.\w+\(|\brun\.waiting"
    r"|\bfact\.version|\b(?:load|open|function|asyncio\.run|remember|remember_text|export_workflow)\("
    r"|\b(?:Limits|Behaviour|Budget|Scope|Rule|Quota|Anchor|Policy|RunSummary)[(.]|(?<=[a-z_])=(?:…|\[|\{|True\b|False\b)"
    r"|\b[a-z_]+=\""
)
"""What only Python understands: calls of its API, its classes and keyword arguments."""
COMMANDS = re.compile(r"\bmemoranda [a-z]+|\bpip install|(?<![\w-])--[a-z]")
"""What is typed at a prompt."""
ON_THE_COMMAND_LINE = re.compile(r" \(`[^`]+` on the command line\)")
"""How a text for every surface may name a command."""
