"""What switching flags needs of a store that holds flags itself; other backends implement `FlagWriter`."""

from typing import Protocol, runtime_checkable

from sidecar.operations.rollout.store.ports import RolloutWrite, StoredFlag


class FlagWrite(RolloutWrite, frozen=True, kw_only=True):
    """A write that switches a flag of the embedded backend, too.

    Attributes:
        flag: as it is to be; the one that is there has the revision before, or the write is refused whole.
    """

    flag: StoredFlag


@runtime_checkable
class FlagStore(Protocol):
    """A writer whose flags are kept in the store of rollouts: `FlagWrite` switches them."""

    async def kept(self, name: str) -> StoredFlag | None:
        """Return a flag as stored; None: it was never created. Raises `StoreUnavailable`."""
        ...
