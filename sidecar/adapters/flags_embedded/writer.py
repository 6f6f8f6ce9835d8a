"""Switches embedded flags."""

from datetime import timedelta
from typing import Final

from sidecar.core.errors import RevisionConflict, StoreUnavailable
from sidecar.operations.ports import Clock
from sidecar.operations.rollout.store.ports import RolloutStore, StoredFlag

TRIES: Final = 5


class EmbeddedFlagWriter:
    """A writer of flags over the store of rollouts.

    Args:
        clock: says when a flag was switched.
    """

    def __init__(self, store: RolloutStore, clock: Clock) -> None:
        """Join the parts."""
        self._store = store
        self._clock = clock

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Set a flag, creating it if need be. Raises `StoreUnavailable`."""
        for _ in range(TRIES):
            stored = await self.kept(name)
            if stored is not None and stored.on == on:
                return
            try:
                await self._store.set_flag(name, on, stored.revision if stored else 0, by, self._clock.now())
            except RevisionConflict:
                continue  # another replica, or an operator, was quicker
            return
        raise StoreUnavailable(f"the flag {name} is switched all the time", retry_after=timedelta(seconds=1))

    async def kept(self, name: str) -> StoredFlag | None:
        """Return a flag as it is kept; None: nobody has created it. Raises `StoreUnavailable`."""
        return next((flag for flag in await self._store.flags() if flag.name == name), None)

    def edit_for(self, name: str, on: bool) -> str:
        """Return nothing: `switch` does it."""
        return ""
