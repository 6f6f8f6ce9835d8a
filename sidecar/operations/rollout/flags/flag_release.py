"""Switches off the flags of rolled-back and killed definitions, where the backend is writable.

No user is affected: a definition in `rollback` serves no user, whatever its flags say. But a flag that stayed on would
be permanent drift. The task retries in the background until it succeeds, so neither an unavailable backend nor a killed
sidecar leaves a flag on. It waits until every living replica shows the rollback: a replica that did not know of the
rollback would take the switched-off kill flag for a kill. Source: PF1-FR-5a, PF1-D-25.
"""

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Final

from msgspec import Struct

from sidecar.core.errors import StoreUnavailable
from sidecar.core.flag_states import FlagSnapshot, FlagValue
from sidecar.core.identifiers import Vertical
from sidecar.core.rollout.facts import DefinitionFacts
from sidecar.core.rollout.states import LifecycleState
from sidecar.core.rollout.view import RolloutView
from sidecar.operations.record.timed_access import read_within
from sidecar.operations.rollout.store.ports import RolloutRecorder, RolloutStore
from sidecar.policy.protocols import FlagWriter

INTERVAL: Final = timedelta(seconds=5)
LONGEST: Final = 2.0
"""Seconds for one access to the store or to a flag's backend."""
ACTOR: Final = "rollback"
"""The actor that the backend records for these switches."""


class ReleaseFlags(Struct, frozen=True):
    """Switches the flags of withdrawn definitions off, repeatedly until they are off.

    Attributes:
        store: has the versions of the other replicas.
        views: the present view.
        snapshot: all flags, as last fetched.
        writer_of: the writer of a vertical's flags.
        recorder: receives failures of a backend.
    """

    store: RolloutStore
    views: Callable[[], RolloutView]
    snapshot: Callable[[], FlagSnapshot]
    writer_of: Callable[[Vertical], FlagWriter]
    recorder: RolloutRecorder

    async def run(self) -> None:
        """Make passes periodically; the supervisor owns this loop."""
        while True:
            await self.look()
            await asyncio.sleep(INTERVAL.total_seconds())

    async def look(self) -> None:
        """Switch off the flags that are still on; a later pass repeats what failed."""
        view = self.views()
        flags = self.snapshot()
        waiting = [each for each in _still_on(view, flags) if not self.writer_of(each[1]).edit_for(each[0], False)]
        if waiting and await self._all_show(view.version):
            for name, vertical in waiting:
                # Checked again for each flag: the switches take time, and a new definition may need the flag by now.
                if (name, vertical) in _still_on(self.views(), self.snapshot()):
                    await self._switch_off(name, vertical)

    async def _all_show(self, version: int) -> bool:
        """Return whether every replica uses `version`.

        With an older view, a replica would take the switch for a kill.
        """
        replicas = await read_within(self.store.replicas(), LONGEST)
        # Last, so that it shows a change that was made while the replicas were read.
        newest = await read_within(self.store.version(), LONGEST)
        # Without the store it is unknown which views the replicas use, so nothing is switched.
        # A newer version may have given a flag to another definition, so the flags must be chosen again.
        if isinstance(replicas, StoreUnavailable) or newest != version:
            return False
        return all(each.version >= version for each in replicas if each.alive)

    async def _switch_off(self, name: str, vertical: Vertical) -> None:
        try:
            async with asyncio.timeout(LONGEST):
                await self.writer_of(vertical).switch(name, False, ACTOR)
        except Exception as error:  # noqa: BLE001  boundary to a backend: the next pass tries again
            self.recorder.anomaly("flag_not_released", f"{name}: {type(error).__name__}")


def _still_on(view: RolloutView, flags: FlagSnapshot) -> Iterator[tuple[str, Vertical]]:
    """Yield flags that are on although only definitions in `rollback` use them, cohort flags first."""
    everything = [facts for rollout in view.slots.values() for facts in rollout.definitions.values()]
    # Flags are named after ids, and a major change keeps the id: the new content may still use the same flags.
    needed = {name for each in everything if each.state is not LifecycleState.ROLLBACK for name in _flag_names(each)}
    released: dict[str, Vertical] = {}
    for each in everything:
        if each.withdrawn:
            released |= {name: each.vertical for name in _flag_names(each) if name not in needed}
    # Only flags that are known to be on: an unreachable flag may be off already.
    yield from ((name, owner) for name, owner in released.items() if flags.value(name, owner) is FlagValue.ON)


def _flag_names(facts: DefinitionFacts) -> tuple[str, ...]:
    return () if facts.flag is None else (f"{facts.cohort_flag}", facts.flag)
