"""Keeps stops (kills and ramp-downs) in memory. `TombstonesInFile` uses it, and processes that may lose their stops."""

from collections.abc import Iterable, Sequence

from sidecar.core.identifiers import Digest
from sidecar.operations.rollout.store.ports import LocalStop, StopKey, StopKind


class TombstonesInMemory:
    """Implements `Tombstones` in memory.

    The methods that read return the same objects until a stop changes, so that binds can compare them quickly.
    """

    def __init__(
        self,
        stops: Iterable[LocalStop] = (),
        recorded: Iterable[StopKey] = (),
        held: frozenset[Digest] = frozenset(),
    ) -> None:
        """Begin with known stops.

        Args:
            stops: all stops, oldest first.
            recorded: the keys of those that the rollout store has.
            held: digests of definitions that count as killed although there is no stop to record.
        """
        self._held = held
        self._kills: dict[StopKey, LocalStop] = {}
        self._pending: dict[StopKey, LocalStop] = {}
        for stop in stops:
            self.remember(stop)
        for key in recorded:
            self._pending.pop(key, None)
        self._update_digests()

    async def add(self, stop: LocalStop) -> None:
        """Remember a stop."""
        self.remember(stop)

    def remember(self, stop: LocalStop) -> bool:
        """Add a stop. Return false if it was known before."""
        # A kill is known forever. A ramp-down is known only until it is recorded, and may then be requested again.
        known = self._kills if stop.kind is StopKind.KILL else self._pending
        if stop.key in known:
            return False
        known[stop.key] = self._pending[stop.key] = stop
        self._update_digests()
        return True

    def all(self) -> frozenset[Digest]:
        """Return the digests of all definitions that were killed at this sidecar."""
        return self._killed

    def ramped_down(self) -> frozenset[Digest]:
        """Return the digests of all definitions whose ramp counts as 0 % at this sidecar."""
        return self._ramped_down

    def pending(self) -> Sequence[LocalStop]:
        """Return the stops that the rollout store does not have yet, oldest first."""
        return tuple(self._pending.values())

    def pending_again(self, killed: frozenset[Digest]) -> None:
        """Mark the recorded kills of these definitions as pending again."""
        # Before the other pending stops, because they are older and must be recorded first.
        again = {key: stop for key, stop in self._kills.items() if stop.digest in killed}
        self._pending = {**again, **self._pending}

    def needed(self) -> tuple[Sequence[LocalStop], Sequence[StopKey]]:
        """Return what a compacted file must contain: the stops that still count, and the keys of the recorded ones."""
        # A recorded ramp-down no longer counts here: the rollout store then has the ramp of 0 %.
        # A pending kill is in both dictionaries, and must not be written twice.
        stops = (*self._kills.values(), *(each for key, each in self._pending.items() if key not in self._kills))
        return sorted(stops, key=lambda each: each.at), tuple(key for key in self._kills if key not in self._pending)

    async def recorded(self, stop: LocalStop) -> None:
        """Mark a stop as recorded."""
        self.settled(stop)

    def settled(self, stop: LocalStop) -> bool:
        """Mark a stop as recorded. Return false if it was marked before."""
        if self._pending.pop(stop.key, None) is None:
            return False
        self._update_digests()
        return True

    def _update_digests(self) -> None:
        self._killed = self._held.union(key.digest for key in self._kills)
        self._ramped_down = frozenset(key.digest for key in self._pending if key.kind is StopKind.RAMP_DOWN)
