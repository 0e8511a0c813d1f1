"""A line of a block in, what it says without its looks out: so that two lines are known to say the same."""

from __future__ import annotations

import hashlib
import re
import unicodedata

_BULLETS = re.compile(r"^\s*(?:(?:[-*•+]|\d+[.)])\s+)+")
_UNSEEN = frozenset({"Mn", "Cf", "Cs", "Cn"})


def canonical(line: str) -> str:
    """Return what two lines have in common that say the same in the same words.

    Bullets, case, accents, white space, invisible characters and the last full stop do not count; other words do.

    >>> canonical("-  Lives in PORTO. ") == canonical("* lives in Pôrto")
    True
    """
    wide = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", line).casefold())
    seen = "".join(sign for sign in wide if unicodedata.category(sign) not in _UNSEEN)
    return " ".join(bare(seen).split()).rstrip(" .;,!")


def bare(line: str) -> str:
    """Return a line without the bullet that it begins with."""
    return _BULLETS.sub("", line)


def digest(line: str) -> str:
    """Return what stands for a line where its text is not kept."""
    return hashlib.sha256(canonical(line).encode("utf-8", "replace")).hexdigest()[:32]
