"""Gauges of the present rollouts, from memory alone.

The collector of metrics calls this in its own time, possibly while the store is down; a gauge therefore never reads
the store.

Source: PF1-D-51, TN-71.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from sidecar.core.identifiers import DefinitionId, Digest
from sidecar.core.rollout.bucketing import WHOLE
from sidecar.core.rollout.decommission_facts import Decommission
from sidecar.core.rollout.drift import drifts_of
from sidecar.core.rollout.facts import DefinitionFacts, SlotRollout
from sidecar.core.rollout.states import LifecycleState
from sidecar.operations.ports import Clock, Definitions
from sidecar.operations.rollout.views.rollout_reading import ReadsFlagBackends, current_cards
from sidecar.operations.rollout.views.snapshot import RolloutViews
from sidecar.operations.turn.state.open_turns import Turn

NEVER: Final = 1e9
"""The age in seconds of a backend that was never reached: larger than any limit of an alert."""


class RolloutGauges(Struct, frozen=True, kw_only=True):
    """The values of the rollout's gauges, read from memory when metrics are collected. Never waits.

    A definition id is represented by one of its digests: the active one, otherwise the one that was loaded last.

    Attributes:
        loaded: the configuration.
        turns: returns the turns that are open here; a callable, because the gauges are created before the turns.
    """

    views: RolloutViews
    loaded: Definitions
    flags: ReadsFlagBackends
    turns: Callable[[], Iterable[Turn]]
    clock: Clock

    def definitions(self) -> Mapping[tuple[str, ...], float]:
        """Return 1 for each (subagent_id, slot, vertical, state, active), for joins with other series."""
        rows: dict[tuple[str, ...], float] = {}
        for rollout, facts in self._one_per_id():
            active = "yes" if rollout.active == facts.digest else "no"
            rows[str(facts.definition_id), str(rollout.slot), str(facts.vertical), facts.state.value, active] = 1.0
        return rows

    def ramps(self) -> Mapping[tuple[str, ...], float]:
        """Return the ramp of each definition in `promote`, 0 to 1, by id; 0 if it was killed here."""
        ramps: dict[tuple[str, ...], float] = {}
        killed = self.views.current().killed
        for _, facts in self._one_per_id():
            if facts.state is LifecycleState.PROMOTE:
                # Binds here serve no user of it already; the record follows.
                ramps[str(facts.definition_id),] = 0.0 if facts.digest in killed else facts.ramp / WHOLE
        return ramps

    def pinned(self) -> Mapping[tuple[str, ...], float]:
        """Return how many turns that are open here hold a definition, by id; 0 if none does."""
        # Zeros first: a series that disappears cannot be told from one that is not collected.
        counts: dict[tuple[str, ...], float] = {(str(facts.definition_id),): 0.0 for _, facts in self._one_per_id()}
        for turn in self.turns():
            # Ended turns are kept in memory for some time, but hold no definition any more.
            if turn.ending.closed is None:
                for tool in turn.surface.tools:
                    key = (str(tool.card.definition.id),)
                    counts[key] = counts.get(key, 0.0) + 1
        return counts

    def drift(self) -> Mapping[tuple[str, ...], float]:
        """Return how many contradictions of configuration, flags and rollout there are, by id."""
        cards, flags = current_cards(self.loaded), self.flags.current()
        counts: dict[tuple[str, ...], float] = {}
        for rollout, facts in _all(self.views.current().slots.values()):
            configured = facts.digest in cards
            deprecated = configured and cards[facts.digest].definition.deprecated
            # Digests of one id are added up below: each may contradict the configuration in its own way.
            drifts = drifts_of(rollout, facts, flags, configured=configured, deprecated=deprecated)
            key = (str(facts.definition_id),)
            counts[key] = counts.get(key, 0.0) + sum(1 for _ in drifts)
        return counts

    def flag_ages(self) -> Mapping[tuple[str, ...], float]:
        """Return seconds since the last confirmed contact, by backend; `NEVER`: there was none."""
        ages = self.flags.ages()
        return {(name,): NEVER if age is None else age.total_seconds() for name, age in ages.items()}

    def cleanups_pending(self) -> float:
        """Return how many decommissions have begun and not ended. Source: PF1-OBS-5."""
        return float(sum(record.finished_at is None for record in self._decommissions()))

    def cleanups_overdue(self) -> float:
        """Return how many of them have outlived their window. Source: PF1-AC-7b."""
        now = self.clock.now()
        return float(sum(record.overdue(now) for record in self._decommissions()))

    def _decommissions(self) -> Iterator[Decommission]:
        for _, facts in _all(self.views.current().slots.values()):
            if facts.decommission is not None:
                yield facts.decommission

    def _one_per_id(self) -> Iterator[tuple[SlotRollout, DefinitionFacts]]:
        """Yield one definition for each id: its active digest, or else the newest one."""
        for rollout in self.views.current().slots.values():
            newest: dict[DefinitionId, Digest] = {}
            for facts in rollout.definitions.values():
                # One value for each id: two digests with the same labels would give one series with two values.
                if newest.get(facts.definition_id) != rollout.active or rollout.active is None:
                    newest[facts.definition_id] = facts.digest
            yield from ((rollout, rollout.definitions[digest]) for digest in newest.values())


def _all(rollouts: Iterable[SlotRollout]) -> Iterator[tuple[SlotRollout, DefinitionFacts]]:
    return ((rollout, facts) for rollout in rollouts for facts in rollout.definitions.values())
