"""An entry: a text or JSON content that `remember` writes and `recall` finds."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from recollect.model.fact import Origin
from recollect.model.scope import Scope


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Content in (tenant, scope, collection, namespace), with the metadata that recall filters by."""

    id: str
    scope: Scope
    collection: str
    namespace: str = ""
    content: Any
    metadata: dict[str, Any]
    created_at: datetime
    expires_at: datetime | None = None
    origin: Origin = Origin()
