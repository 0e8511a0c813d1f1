"""Test classes that say what stores, embedders and vector indexes must do; subclass them to test your own.

    from memoranda.testing.conformance import Capability, StoreConformance

    class TestMyStore(StoreConformance):
        capabilities = frozenset(Capability)

        @pytest.fixture
        def store(self, tmp_path):
            return MyStore(tmp_path / "memory.db")

        @pytest.fixture
        def reopen_store(self, tmp_path):
            return lambda: MyStore(tmp_path / "memory.db")

The names of the tests are the sentences of the contract. Every test that says what must not be visible also says what
must be, so a store that forgets everything passes none of them.
"""

import pkgutil

import pytest

# So that a failed assertion shows the values on both sides; this must happen before the modules are imported.
pytest.register_assert_rewrite(*(f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__)))

from memoranda.testing.conformance.base import Capability, requires  # noqa: E402  after the line above
from memoranda.testing.conformance.store import StoreConformance  # noqa: E402  after the line above

__all__ = ["Capability", "StoreConformance", "requires"]
