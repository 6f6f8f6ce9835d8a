"""Flags read from the store of rollouts; hints of the store bring changes at once."""

import asyncio
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from sidecar.core.errors import StoreUnavailable
from sidecar.operations.rollout.store.ports import RolloutStore, StoredFlag
from sidecar.policy.protocols import FlagReport

AGAIN: Final = 1.0
"""Seconds until a store that did not answer is looked at again."""


class EmbeddedFlags:
    """A flag backend over the store of rollouts. Nothing is set here, see `EmbeddedFlagWriter`."""

    def __init__(self, store: RolloutStore) -> None:
        """Have hints come; the first change may be anything."""
        self._store = store
        self._fetched = ""
        self._hinted = asyncio.Event()
        store.on_change(self._hinted.set)

    async def fetch(self) -> FlagReport:
        """Read the flags. Raises `StoreUnavailable`."""
        flags = await self._store.flags()
        self._fetched = _revision(flags)
        on = frozenset(flag.name for flag in flags if flag.on)
        return FlagReport(on, self._fetched, frozenset(flag.name for flag in flags) - on)

    async def changed(self) -> None:
        """Return once the flags differ from what was fetched last; other changes of the store are none."""
        while True:
            await self._hinted.wait()
            self._hinted.clear()
            try:
                if _revision(await self._store.flags()) != self._fetched:
                    return
            except StoreUnavailable:
                self._hinted.set()
                await asyncio.sleep(AGAIN)
            except asyncio.CancelledError:
                self._hinted.set()  # whoever waits next looks again
                raise

    async def close(self) -> None:
        """Do nothing: the store is the sidecar's."""


def _revision(flags: Sequence[StoredFlag]) -> str:
    content = "\x1e".join(f"{flag.name}\x1f{flag.revision}" for flag in flags)
    return f"sha256:{sha256(content.encode()).hexdigest()}"
