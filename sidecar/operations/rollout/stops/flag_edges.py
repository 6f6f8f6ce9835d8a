"""Watches for the on-to-off edge of a kill flag and kills the definition it belongs to.

An edge is: confirmed on while the definition was in an active state, then confirmed off. Values in between do not
matter; an unreachable backend confirms neither. A first reading of off is no edge, unless the record says that the flag
was confirmed on: then it was switched off while no sidecar was watching. The cohort flag has no edge: off means an
exposure of 0.

A confirmation counts only from the time at which binds here know the state it belongs to: an answer to an earlier fetch
may show the flag as it was before the sidecar itself switched it. Source: PF1-FR-9, TN-56, TN-57, TN-82, DESIGN section
8.
"""

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Final

from msgspec import Struct

from sidecar.core.errors import StoreUnavailable, SubagentsError
from sidecar.core.flag_states import FlagSnapshot, FlagValue
from sidecar.core.identifiers import Digest, Slot, Vertical
from sidecar.core.rollout.facts import DefinitionFacts, FlagPair
from sidecar.core.rollout.view import RolloutView
from sidecar.operations.flag_snapshot import FlagContactChanged
from sidecar.operations.ports import Clock
from sidecar.operations.rollout.requests import Kill
from sidecar.operations.rollout.stops.kills import KillDefinition
from sidecar.operations.rollout.store.ports import RolloutRecorder

KILL_SWITCH: Final = "kill-switch"
"""Actor of a kill that a flag requested: its backend does not say who switched it."""
INTERVAL: Final = timedelta(seconds=1)
SETTLES_IN: Final = timedelta(seconds=30)
"""How long after a switch a backend may return the old state to another sidecar.

An off that is an edge only by the record counts only if the flag was switched on at least this long ago.
"""


class _Watched(Struct):
    """The known state of the kill flag of one definition.

    Attributes:
        flag, vertical: as named when the watch began. Another name or vertical may mean another backend, and begins
            anew.
        since: monotonic seconds at which its state became known here.
        pair: the stage of the definition's two flags when the watch began.
        on: it was confirmed on since then.
    """

    flag: str
    vertical: Vertical
    since: float
    pair: FlagPair
    on: bool = False


class KillFlagWatcher:
    """Watches the kill flag of every definition that it can kill.

    Args:
        flags, view: as binds read them.
        kill: the operation.
        clock: dates edges.
        recorder: receives refused kills.
        settles_in: see `SETTLES_IN`.
    """

    def __init__(
        self,
        flags: Callable[[], FlagSnapshot],
        view: Callable[[], RolloutView],
        kill: KillDefinition,
        clock: Clock,
        recorder: RolloutRecorder,
        settles_in: timedelta = SETTLES_IN,
    ) -> None:
        """Begin without observations."""
        self._flags = flags
        self._view = view
        self._kill = kill
        self._clock = clock
        self._recorder = recorder
        self._settles_in = settles_in
        self._watched: dict[Digest, _Watched] = {}
        self._fallen: dict[Digest, Kill] = {}
        self._news = asyncio.Event()

    def observe(self, change: FlagContactChanged | None = None) -> None:
        """Read the present flags; called for every change of the snapshot, so that no edge is missed.

        Reads memory only; neither waits nor raises.
        """
        view, flags = self._view(), self._flags()
        present = {facts.digest: (slot, facts) for slot, facts in _killable(view)}
        for digest in [each for each in self._watched if each not in present]:
            # A definition that can no longer be killed; if it can be later, its observation begins anew.
            del self._watched[digest]
        for digest, (slot, facts) in present.items():
            # An edge is kept until the kill has succeeded: a flag that is switched on again in between does not undo
            # it.
            if digest not in self._fallen and self._fell(facts, flags):
                self._fallen[digest] = _kill_of(slot, facts)
                self._news.set()

    async def run(self) -> None:
        """Check periodically, and kill the definitions whose flags fell; the supervisor owns this loop."""
        while True:
            await self.look()
            try:
                async with asyncio.timeout(INTERVAL.total_seconds()):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def look(self) -> None:
        """Check once, and kill the definitions whose flags fell."""
        self.observe()
        # After `observe`: an edge that is noticed during the kills below sets the event again.
        self._news.clear()
        for digest, asked in list(self._fallen.items()):
            if await self._kill_for_edge(asked):
                self._fallen.pop(digest, None)
                self._watched.pop(digest, None)

    def _fell(self, facts: DefinitionFacts, flags: FlagSnapshot) -> bool:
        """Note the flag of a definition; return whether it fell."""
        watched = self._watched.get(facts.digest)
        same_flag = watched is not None and (watched.flag, watched.vertical) == (facts.flag, facts.vertical)
        # A new stage of the pair begins a new observation: values that were fetched before the sidecar switched the
        # flag say nothing about the new stage.
        if watched is None or not same_flag or watched.pair is not facts.flags:
            on = watched is not None and same_flag and watched.on
            watched = _Watched(str(facts.flag), facts.vertical, self._clock.monotonic(), facts.flags, on)
            self._watched[facts.digest] = watched
        value = flags.value(watched.flag, facts.vertical)
        # Neither confirms anything. If an unreachable backend counted as off, its outage would kill every sub-agent; if
        # it reset `on`, an outage between on and off would hide a kill.
        if value is FlagValue.UNREACHABLE or not flags.told_since(watched.since, facts.vertical):
            return False
        if value is FlagValue.ON:
            # Stays true over outages: what counts is the last confirmed value before the off.
            watched.on = True
        return value is FlagValue.OFF and (watched.on or self._was_on(facts, flags))

    def _was_on(self, facts: DefinitionFacts, flags: FlagSnapshot) -> bool:
        """Return whether the record shows that the flag was on at this backend, long enough ago."""
        if facts.activated_at is None or not facts.flag or facts.confirmed_on != facts.flag:
            return False
        # Another backend confirmed the flag. The present one may never have had it on, and its off is no edge.
        if facts.confirmed_by not in {"", flags.routes.backend_of(facts.vertical)}:
            return False
        return self._clock.now() - (facts.confirmed_at or facts.activated_at) >= self._settles_in

    async def _kill_for_edge(self, asked: Kill) -> bool:
        """Kill a definition because its flag fell; return False if the store was needed and unavailable: try again."""
        try:
            await self._kill(asked, KILL_SWITCH)
        except StoreUnavailable:
            return False
        except SubagentsError as refused:
            # A refusal is final: the record says that there is nothing to kill. Trying again would report it every
            # second.
            self._recorder.anomaly("kill_switch_refused", f"{asked.definition_id}: {refused.reason}")
        return True


def _kill_of(slot: Slot, facts: DefinitionFacts) -> Kill:
    return Kill(
        definition_id=facts.definition_id,
        request_id=f"{KILL_SWITCH}/{facts.digest}",
        reason=f"the kill flag {facts.flag} was switched off",
        slot=slot,
        digest=facts.digest,
    )


def _killable(view: RolloutView) -> Iterator[tuple[Slot, DefinitionFacts]]:
    """Yield the definitions that their kill flag can kill, by slot."""
    for slot in sorted(view.slots):
        for facts in view.slots[slot].definitions.values():
            if facts.killable and facts.digest not in view.killed:
                yield slot, facts
