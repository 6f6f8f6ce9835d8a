"""What switching flags needs: of a backend that can be written, and of a store that keeps flags itself."""

from typing import Protocol, runtime_checkable

from sidecar.operations.rollout.store.ports import RolloutWrite, StoredFlag


class FlagWriter(Protocol):
    """Switches flags where a backend lets itself be written; None in its place: somebody else has to."""

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Set a flag, creating it if need be; setting what is set changes nothing. Raises `StoreUnavailable`."""
        ...

    def edit_for(self, name: str, on: bool) -> str:
        """Say in one line what a person has to change; empty if `switch` does it."""
        ...


class FlagWrite(RolloutWrite, frozen=True, kw_only=True):
    """A write that switches a flag of the embedded backend, too.

    Attributes:
        flag: as it is to be; the one that is there has the revision before, or the write is refused whole.
    """

    flag: StoredFlag


@runtime_checkable
class KeepsFlags(Protocol):
    """A writer whose flags are kept in the store of rollouts: `FlagWrite` switches them."""

    async def kept(self, name: str) -> StoredFlag | None:
        """Return a flag as it is kept; None: nobody has created it. Raises `StoreUnavailable`."""
        ...
