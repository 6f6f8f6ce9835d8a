"""Telling what took effect, through a store that is away in the middle of it."""

from collections.abc import Sequence
from datetime import datetime

from sidecar.adapters.rollout_memory import MemoryRollouts
from sidecar.core.errors import StoreUnavailable
from sidecar.core.rollout.events import TransitionEvent
from sidecar.operations.rollout.audit.effective_transitions import EffectiveTransitions
from tests.support.requirement import requirement
from tests.support.stopping import REWARDS, SHOP, Rollouts, a_kill


class LosesTheSecond(MemoryRollouts):
    """Is away when it is told of a second transition."""

    told = 0

    async def became_effective(self, event_ids: Sequence[str], at: datetime) -> Sequence[str]:
        """Note it, unless it is the second one."""
        self.told += 1
        if self.told == 2:
            raise StoreUnavailable("away in the middle")
        return await super().became_effective(event_ids, at)


@requirement("PF1-D-48")
async def test_who_loses_the_store_while_telling_what_took_effect_goes_on_where_it_was() -> None:
    """Two transitions, and the store is away after the first: in the end both are told of, each once."""
    rollouts = Rollouts()
    rollouts.serve(SHOP, REWARDS)
    replica = await rollouts.replica()
    for card in (SHOP, REWARDS):
        await replica.stops.kill(a_kill(card, f"kill {card.definition.id}"), "alice")
    store = LosesTheSecond(rollouts.clock, rollouts.contents)
    effective = EffectiveTransitions(store, rollouts.clock, replica.stops.first.recorder)
    effective.bound(replica.views.current())

    await effective.look()
    await effective.look()

    reported = [event.event_id for (event,) in replica.recorder.of("transitioned")]
    assert sorted(reported) == sorted(f"{card.digest}/rollback" for card in (SHOP, REWARDS))
    assert all(row.effective_at for row in rollouts.contents.audit.values() if isinstance(row.body, TransitionEvent))
