"""What switching flags needs of a store that contains flags; other backends implement `FlagWriter`."""

from typing import Protocol, runtime_checkable

from sidecar.operations.rollout.store.ports import RolloutWrite, StoredFlag


class FlagWrite(RolloutWrite, frozen=True, kw_only=True):
    """A write that also switches a flag of the embedded backend.

    Attributes:
        flag: its new state. If the stored flag does not have the previous revision, the whole write is refused.
    """

    flag: StoredFlag


@runtime_checkable
class FlagStore(Protocol):
    """A writer whose flags are in the store of rollouts; `FlagWrite` switches them."""

    async def kept(self, name: str) -> StoredFlag | None:
        """Return a flag as stored; None: it was never created. Raises `StoreUnavailable`."""
        ...
