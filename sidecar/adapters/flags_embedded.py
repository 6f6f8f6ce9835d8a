"""The flag backend `embedded`: keeps flags in the sidecar's rollout store, and switches them there."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final

from msgspec.structs import replace

from sidecar.core.errors import RevisionConflict, StoreUnavailable
from sidecar.operations.ports import Clock
from sidecar.operations.rollout.store.ports import RolloutStore, StoredFlag
from sidecar.policy.protocols import FlagReport
from sidecar.policy.specs import FlagBackendSpec

AGAIN: Final = 1.0
"""Seconds between two reads while the store does not answer."""


class EmbeddedFlags:
    """A flag backend that reads flags from the rollout store. `EmbeddedFlagWriter` writes them."""

    def __init__(self, store: RolloutStore) -> None:
        """Subscribe to changes of the store. Before the first fetch, any flag counts as changed."""
        self._store = store
        self._fetched = ""
        # Set when the store may have changed since the last read in `changed`.
        self._hinted = asyncio.Event()
        store.on_change(self._hinted.set)

    async def fetch(self) -> FlagReport:
        """Read the flags. Raises `StoreUnavailable`."""
        flags = await self._store.flags()
        self._fetched = _revision(flags)
        on = frozenset(flag.name for flag in flags if flag.on)
        return FlagReport(on, self._fetched, frozenset(flag.name for flag in flags) - on)

    async def changed(self) -> None:
        """Wait until the flags differ from the last fetch. Other changes of the store are ignored."""
        while True:
            await self._hinted.wait()
            # Cleared before the read: a change during the read then sets the hint again.
            self._hinted.clear()
            try:
                if _revision(await self._store.flags()) != self._fetched:
                    return
            except StoreUnavailable:
                self._hinted.set()
                await asyncio.sleep(AGAIN)
            except asyncio.CancelledError:
                # The hint was cleared, but its change was perhaps not read. The next call must read again.
                self._hinted.set()
                raise

    async def close(self) -> None:
        """Do nothing: the sidecar closes the store."""


def _revision(flags: Sequence[StoredFlag]) -> str:
    content = "\x1e".join(f"{flag.name}\x1f{flag.revision}" for flag in flags)
    return f"sha256:{sha256(content.encode()).hexdigest()}"


def _without_store(settings: Mapping[str, Any]) -> EmbeddedFlags:
    raise ValueError("only a running sidecar has the store that these flags are kept in")


EMBEDDED_FLAGS: Final = FlagBackendSpec(
    name="embedded",
    contract="flag-backend/1",
    summary="Flags in the sidecar's own store; switched by the sidecar and with `sidecar subagent flag`",
    capabilities=frozenset({"push"}),
    factory=_without_store,
)


def kept_in(store: RolloutStore, spec: FlagBackendSpec) -> FlagBackendSpec:
    """Return a copy of the descriptor whose factory uses `store`, if it describes `embedded` or an instance of it.

    Any other descriptor is returned unchanged. A factory gets only settings, so it could not get the store otherwise.
    """
    if spec.factory is not EMBEDDED_FLAGS.factory:
        return spec
    return replace(spec, factory=lambda settings: EmbeddedFlags(store))


def sidecar_flag_backends() -> Sequence[FlagBackendSpec]:
    """Offer `embedded`."""
    return [EMBEDDED_FLAGS]


TRIES: Final = 5
"""Maximum number of attempts to switch a flag that other sidecars or operators change at the same time."""


class EmbeddedFlagWriter:
    """The `FlagWriter` of this backend.

    Args:
        store: the rollout store.
        clock: returns the time of a switch.
    """

    def __init__(self, store: RolloutStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Switch a flag, and create it if it does not exist. Raises `StoreUnavailable`."""
        # A write with an outdated revision is rejected, because several sidecars may switch the flag concurrently.
        for _ in range(TRIES):
            stored = await self.kept(name)
            if stored is not None and stored.on == on:
                return
            try:
                await self._store.set_flag(name, on, stored.revision if stored else 0, by, self._clock.now())
            except RevisionConflict:
                continue  # another replica, or an operator, switched the flag first
            return
        raise StoreUnavailable(f"the flag {name} is switched all the time", retry_after=timedelta(seconds=1))

    async def kept(self, name: str) -> StoredFlag | None:
        """Return a stored flag; None: it was never created. Raises `StoreUnavailable`."""
        return next((flag for flag in await self._store.flags() if flag.name == name), None)

    def edit_for(self, name: str, on: bool) -> str:
        """Return nothing, because `switch` makes the change."""
        return ""
