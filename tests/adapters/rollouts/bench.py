"""What a database brings to be held to the rules of `sidecar/operations/rollout/store/ports.py`."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Protocol, Self

from sidecar.operations.record.checkpoint_ports import AuditChain
from sidecar.operations.rollout.audit.retention import RolloutArchive
from sidecar.operations.rollout.store.ports import RolloutStore
from tests.adapters.rollouts.building import moment
from tests.support.second_place import SettableClock


class WholeStore(RolloutStore, RolloutArchive, AuditChain, Protocol):
    """What every database of rollouts offers."""


class RolloutBench(ABC):
    """One database, which is empty when it is entered and gone afterwards.

    Attributes:
        clock: of every store.
        shared: several processes can have it.
    """

    shared = True

    def __init__(self) -> None:
        """Begin with a clock."""
        self.clock = SettableClock(moment())

    @abstractmethod
    async def open(self, instance: str) -> WholeStore:
        """Return the database as one more process sees it."""

    async def listen(self, store: WholeStore) -> None:
        """Let the hints of a store come, where somebody has to listen for them."""
        return

    @abstractmethod
    async def silence(self, instance: str, seconds: float) -> None:
        """Let `instance` have been silent for so long."""

    async def __aenter__(self) -> Self:
        """Make an empty database."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Close everything that was opened."""
        return
