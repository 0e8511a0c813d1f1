"""The promises of each replaceable part, as test classes to subclass.

    from memoranda.testing.conformance import Capability, StoreConformance

    class TestMyStore(StoreConformance):
        capabilities = frozenset(Capability)

        @pytest.fixture
        def store(self, tmp_path):
            return MyStore(tmp_path / "memory.db")

        @pytest.fixture
        def reopen_store(self, tmp_path):
            return lambda: MyStore(tmp_path / "memory.db")

The names of the tests are the sentences of the contract. Every sentence that says what must not be seen also says,
in the same test, what must: a store that forgets everything passes none of the files here.
"""

import pytest

# So that a broken promise shows the values on both sides; it has to be said before the promises are imported.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{theme}"
        for theme in (
            "approvals", "base", "batches", "blocks", "collections", "definitions", "embedder", "embedders", "entries",
            "entry_lives", "entry_rules", "erasure", "expiry", "facts", "history", "idempotency", "ledger",
            "permissions", "quotas", "recall", "records", "runs", "schemas", "scopes", "sessions", "transfer",
            "vector_index",
        )
    )
)  # fmt: skip

from memoranda.testing.conformance.base import Capability, requires  # noqa: E402  after the line above
from memoranda.testing.conformance.store import StoreConformance  # noqa: E402  after the line above

__all__ = ["Capability", "StoreConformance", "requires"]
