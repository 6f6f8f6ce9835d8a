"""Keeps stops (kills and ramp-downs) in memory: for a process that may lose them, and as a part of the file's class."""

from collections.abc import Iterable, Sequence

from sidecar.core.identifiers import Digest
from sidecar.operations.rollout.store.ports import LocalStop, StopKey, StopKind


class TombstonesInMemory:
    """Implements the interface `Tombstones` in memory.

    Reads return the same objects until something changes, so that binds can compare them cheaply.
    """

    def __init__(
        self,
        stops: Iterable[LocalStop] = (),
        recorded: Iterable[StopKey] = (),
        held: frozenset[Digest] = frozenset(),
    ) -> None:
        """Begin with known stops; `held` counts as killed here, without anything to record."""
        self._held = held
        self._kills: dict[StopKey, LocalStop] = {}
        self._pending: dict[StopKey, LocalStop] = {}
        for stop in stops:
            self.remember(stop)
        for key in recorded:
            self._pending.pop(key, None)
        self._settle()

    async def add(self, stop: LocalStop) -> None:
        """Remember a stop."""
        self.remember(stop)

    def remember(self, stop: LocalStop) -> bool:
        """Add a stop immediately; return False if it was known."""
        known = self._kills if stop.kind is StopKind.KILL else self._pending
        if stop.key in known:
            return False
        known[stop.key] = self._pending[stop.key] = stop
        self._settle()
        return True

    def all(self) -> frozenset[Digest]:
        """Return every definition that was killed here."""
        return self._killed

    def ramped_down(self) -> frozenset[Digest]:
        """Return every definition that counts as being at 0 % here."""
        return self._down

    def pending(self) -> Sequence[LocalStop]:
        """Return stops that are not on record yet, oldest first."""
        return tuple(self._pending.values())

    def pending_again(self, killed: frozenset[Digest]) -> None:
        """Mark settled kills as pending."""
        # Kills first: they are older than everything that is still pending, and must be recorded first.
        again = {key: stop for key, stop in self._kills.items() if stop.digest in killed}
        self._pending = {**again, **self._pending}

    def needed(self) -> tuple[Sequence[LocalStop], Sequence[StopKey]]:
        """Return the stops that still count, and which of them are recorded: everything that must be kept."""
        stops = (*self._kills.values(), *(each for key, each in self._pending.items() if key not in self._kills))
        return sorted(stops, key=lambda each: each.at), tuple(key for key in self._kills if key not in self._pending)

    async def recorded(self, stop: LocalStop) -> None:
        """Mark a stop as recorded."""
        self.settled(stop)

    def settled(self, stop: LocalStop) -> bool:
        """Mark a stop as recorded immediately; return False if it was marked before."""
        if self._pending.pop(stop.key, None) is None:
            return False
        self._settle()
        return True

    def _settle(self) -> None:
        self._killed = self._held.union(key.digest for key in self._kills)
        self._down = frozenset(key.digest for key in self._pending if key.kind is StopKind.RAMP_DOWN)
