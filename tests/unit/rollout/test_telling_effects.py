"""Telling what took effect, through a store that is away in the middle of it."""

from collections.abc import Sequence
from datetime import datetime

import msgspec
import pytest

from sidecar.adapters.rollout_memory import MemoryRollouts
from sidecar.core.errors import StoreUnavailable
from sidecar.core.rollout.events import TransitionEvent
from sidecar.core.rollout.states import LifecycleState
from sidecar.operations.rollout.audit.effective_transitions import EffectiveTransitions
from sidecar.operations.rollout.store.ports import RolloutWrite
from tests.adapters.rollouts.building import a_transition
from tests.support.requirement import requirement
from tests.support.stopping import REWARDS, SHOP, Rollouts, a_kill


class FailsOnce(MemoryRollouts):
    """Fails at one of the notes of a transition.

    Attributes:
        failing: the number of the note that fails, from 1.
        carried_out: the note is made, and only its answer is lost.
    """

    failing = 2
    carried_out = False
    notes = 0

    async def became_effective(self, event_ids: Sequence[str], at: datetime) -> Sequence[str]:
        """Note it, unless it is the one that fails."""
        self.notes += 1
        if self.notes == self.failing:
            if self.carried_out:
                await super().became_effective(event_ids, at)
            raise StoreUnavailable("away in the middle")
        return await super().became_effective(event_ids, at)


@pytest.mark.parametrize(("failing", "carried_out"), [(2, False), (3, True)])
@requirement("PF1-D-48")
async def test_who_loses_the_store_while_telling_what_took_effect_goes_on_where_it_was(
    failing: int, carried_out: bool
) -> None:
    """Two transitions, and the store is away after the first: in the end both are told of, each once."""
    rollouts = Rollouts()
    rollouts.serve(SHOP, REWARDS)
    replica = await rollouts.replica()
    for card in (SHOP, REWARDS):
        await replica.stops.kill(a_kill(card, f"kill {card.definition.id}"), "alice")
    store = FailsOnce(rollouts.clock, rollouts.contents)
    store.failing, store.carried_out = failing, carried_out
    effective = EffectiveTransitions(store, rollouts.clock, replica.stops.first.recorder)
    effective.bound(replica.views.current())

    await effective.look()
    await effective.look()

    reported = [event.event_id for (event,) in replica.recorder.of("transitioned")]
    assert sorted(reported) == sorted(f"{card.digest}/rollback" for card in (SHOP, REWARDS))
    assert all(row.effective_at for row in rollouts.contents.audit.values() if isinstance(row.body, TransitionEvent))


@pytest.mark.parametrize("carried_out", [False, True])
@requirement("PF1-D-48")
async def test_a_store_that_fails_between_transitions_of_a_replaced_definition_gets_the_rest_in_the_next_pass(
    carried_out: bool,
) -> None:
    """A definition was replaced before any bind. Both of its transitions are noted, and each is reported once."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    states = (LifecycleState.TEST, LifecycleState.PROMOTE)
    replaced = [msgspec.structs.replace(a_transition(target=each), slot=SHOP.definition.slot) for each in states]
    rollouts.contents.write(RolloutWrite(slot=SHOP.definition.slot, expected_revision=1, transitions=tuple(replaced)))
    replica = await rollouts.replica()
    store = FailsOnce(rollouts.clock, rollouts.contents)
    store.carried_out = carried_out
    store.failing = 4  # the first two notes are those of the definition that is served
    effective = EffectiveTransitions(store, rollouts.clock, replica.stops.first.recorder)
    effective.bound(replica.views.current())

    await effective.look()
    before = [event.event_id for (event,) in replica.recorder.of("transitioned")]
    await effective.look()
    await effective.look()

    after = [event.event_id for (event,) in replica.recorder.of("transitioned")]
    assert (before, after) == ([replaced[0].event_id], [each.event_id for each in replaced])
    assert all(row.effective_at for row in rollouts.contents.audit.values())
