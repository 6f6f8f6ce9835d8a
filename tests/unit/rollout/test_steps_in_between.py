"""Steps in whose middle something happens: another attempt of the same request, or a store that is lost."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest

from sidecar.adapters.rollout_memory import MemoryRollouts
from sidecar.core.errors import RevisionConflict, TransitionRefused
from sidecar.core.identifiers import DefinitionId
from sidecar.core.rollout import transitions
from sidecar.core.rollout.facts import Breach, FlagPair, Override, SlotRollout
from sidecar.core.rollout.states import LifecycleState
from sidecar.operations.rollout.requests import AcknowledgeBreach, StepAnswer
from sidecar.operations.rollout.steps.step_flags import FlagSwitching
from sidecar.operations.rollout.steps.take_step import ExecuteStep
from sidecar.operations.rollout.stored_answers import AuditContext
from sidecar.operations.rollout.views.snapshot import NOT_SHOWN
from tests.support.requirement import requirement
from tests.support.stopping import SHOP, ReplicaForTests, Rollouts
from tests.unit.rollout.building import NOW, by, facts, rollout


class Overtaken(MemoryRollouts):
    """A store in whose first read of the rollouts something else happens first."""

    first: Callable[[], Awaitable[object]] | None = None

    async def rollouts(self) -> Sequence[SlotRollout]:
        """Let it happen, then read."""
        happens, self.first = self.first, None
        if happens is not None:
            await happens()
        return await super().rollouts()


def taking(store: MemoryRollouts, rollouts: Rollouts) -> ExecuteStep:
    """Return the operation of a replica whose steps ask nobody."""
    nothing = cast("Any", None)
    return ExecuteStep(
        store=store,
        clock=rollouts.clock,
        audit_context=lambda: AuditContext("5", ()),
        proofs=nothing,
        policies=nothing,
        gates=nothing,
        flags=FlagSwitching(writer_of=nothing, snapshot=nothing, shown=dict),
        by_hand=nothing,
        decommissioning=nothing,
    )


def breached() -> Rollouts:
    """Return a rollout that was ramped down by a breach."""
    rollouts = Rollouts()
    rollouts.serve(SHOP, ramp=0, breach=Breach("floor-1", NOW, "unsafe"))
    return rollouts


def note(request_id: str = "note-1") -> AcknowledgeBreach:
    """Return an acknowledgement of revision 1."""
    name = DefinitionId(SHOP.definition.id)
    return AcknowledgeBreach(
        definition_id=name, request_id=request_id, reason="seen", breach_id="floor-1", expected_revision=1
    )


@requirement("PF1-T-21")
async def test_two_attempts_of_one_request_at_once_are_both_told_what_was_done() -> None:
    """The slower one finds the revision gone, and the answer there."""
    rollouts = breached()
    store = Overtaken(rollouts.clock, rollouts.contents)
    twin = taking(MemoryRollouts(rollouts.clock, rollouts.contents), rollouts)
    store.first = lambda: twin(note(), "ada")

    answer = await taking(store, rollouts)(note(), "ada")

    assert (answer.repeated, answer.changed, answer.revision) == (True, True, 2)
    assert rollouts.happened() == ["breach_acknowledged"]


async def test_a_request_that_somebody_else_has_overtaken_is_in_conflict() -> None:
    """Nothing is kept under its id: it is not known what would have been answered."""
    rollouts = breached()
    store = Overtaken(rollouts.clock, rollouts.contents)
    other = taking(MemoryRollouts(rollouts.clock, rollouts.contents), rollouts)
    store.first = lambda: other(note("note-2"), "bob")

    with pytest.raises(RevisionConflict, match="revision 2, not 1"):
        await taking(store, rollouts)(note(), "ada")

    assert set(rollouts.contents.answers) == {"note-2"}


async def answered_while(rollouts: Rollouts, replica: ReplicaForTests, *, away: bool) -> StepAnswer:
    """Take a step after which the store is away, or is not."""
    answer = await taking(replica.store, rollouts)(note(), "ada")
    replica.away(store=away)
    return await replica.views.shown(answer)


@pytest.mark.parametrize(("away", "warnings"), [(False, ()), (True, (NOT_SHOWN,))])
async def test_an_answer_says_if_the_binds_here_do_not_show_the_step_yet(away: bool, warnings: tuple[str, ...]) -> None:
    """The store is lost between the commit and the look that follows: it is done, and not shown."""
    rollouts = breached()
    replica = await rollouts.replica()

    answer = await answered_while(rollouts, replica, away=away)

    assert (answer.changed, answer.warnings) == (True, warnings)
    breach = replica.views.current().slots[SHOP.definition.slot].definitions[SHOP.digest].breach
    assert breach is not None
    assert bool(breach.acknowledged_by) is not away


def with_override(state: LifecycleState = LifecycleState.PROMOTE, **fields: Any) -> SlotRollout:
    """Return a rollout with an override of the step from 0 to 5 %."""
    granted = Override("pre_ramp", 0, 500, "ada", "known", NOW.replace(year=2030))
    return rollout(facts("shop", state, overrides=(granted,), **fields), active="shop")


def test_an_override_lets_one_step_pass_and_is_used_up() -> None:
    """Down again, and up again: the gate has to say yes this time."""
    raised = transitions.set_ramp(with_override(), facts("shop").digest, 500, by()).rollout
    assert raised.definitions[facts("shop").digest].overrides == ()
    other = transitions.set_ramp(with_override(), facts("shop").digest, 900, by()).rollout
    assert len(other.definitions[facts("shop").digest].overrides) == 1


@pytest.mark.parametrize("state", [LifecycleState.DEV, LifecycleState.ROLLBACK])
def test_there_is_nothing_to_override_where_there_is_no_step(state: LifecycleState) -> None:
    """Neither before it is promoted nor after it was rolled back."""
    of = rollout(facts("shop", state))
    with pytest.raises(TransitionRefused, match="does not need pre_ramp"):
        transitions.override(of, facts("shop").digest, by(), gate="pre_ramp", to=500, expires_at=NOW.replace(year=2030))


def test_no_flags_are_said_to_be_on_where_there_are_none() -> None:
    """A definition whose entry dropped its flag before its first step."""
    of = rollout(facts("shop", flag=None, flags=FlagPair.NONE, activated_at=None))
    change = transitions.set_ramp(of, facts("shop").digest, 500, by())
    assert [str(each.what) for each in change.events] == ["ramp_set", "activated"]
    assert change.rollout.definitions[facts("shop").digest].flags is FlagPair.NONE
