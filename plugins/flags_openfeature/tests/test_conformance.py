"""The flag backend `openfeature` passes the suite that every flag backend has to, over three real providers."""

from pathlib import Path

import pytest

from plugins.flags_openfeature.tests.benches import FileBench, FlagdBench, OfrepBench
from sidecar_conformance.flag_backend import FlagBackendSuite

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:openfeature")


class TestFlagdFile(FlagBackendSuite):
    """flagd's file mode. A file does not hang."""

    closed = frozenset({"hang"})

    @pytest.fixture
    def bench(self, tmp_path: Path) -> FileBench:
        """Make one."""
        return FileBench(tmp_path)


class TestFlagdInProcess(FlagBackendSuite):
    """flagd's in-process mode."""

    @pytest.fixture
    def bench(self) -> FlagdBench:
        """Make one."""
        return FlagdBench()


class TestOfrep(FlagBackendSuite):
    """OFREP over HTTP, which pushes nothing."""

    closed = frozenset({"push"})

    @pytest.fixture
    def bench(self, tmp_path: Path) -> OfrepBench:
        """Make one."""
        return OfrepBench(tmp_path)
