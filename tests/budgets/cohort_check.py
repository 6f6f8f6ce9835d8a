"""What deciding who is served takes at a bind: ten sub-agents that have to be looked at."""

from typing import Final

from sidecar.core.binding.candidates import evaluate_slots
from sidecar.core.identifiers import Digest, Slot
from sidecar.core.rollout.facts import SlotRollout
from sidecar.core.rollout.serving import BindSubject
from sidecar.core.rollout.view import RolloutView
from tests.budgets.meter import Counts, calls_of
from tests.support.builders import a_catalogue
from tests.support.call_counting import CallCounter
from tests.support.operators import gated
from tests.unit.rollout.building import facts, flags, with_target

CHECKED: Final = 10
"""Sub-agents: as many as there may be (PF1-D-65)."""


def a_rollout(number: int) -> SlotRollout:
    """Return a slot whose active definition and target have both to be looked at: its flags are on, its ramp is 0."""
    old, new = facts(f"old{number}", ramp=10_000), with_target(facts(f"new{number}", ramp=0), f"old{number}")
    slot = Slot(f"slot{number}")
    return SlotRollout(
        slot=slot,
        revision=1,
        definitions={old.digest: old, new.digest: new},
        active=Digest(f"sha256:new{number}"),
        salt=slot,
    )


def checks_counted() -> CallCounter:
    """Judge ten slots, with two definitions and four flags each; return what that calls, in Python and in C."""
    rollouts = [a_rollout(number) for number in range(CHECKED)]
    view = RolloutView({each.slot: each for each in rollouts}, 1)
    names = [facts.definition_id for each in rollouts for facts in each.definitions.values()]
    catalogue, on = a_catalogue(*(gated(name) for name in names)), flags(*names)
    evaluate_slots(rollouts[0].slot, catalogue, on, view, BindSubject("user-1"))  # whatever is made on first use
    with CallCounter().counting() as counter:
        judged = [evaluate_slots(each.slot, catalogue, on, view, BindSubject("user-1")) for each in rollouts]
    assert [each.digest for each in judged] == [f"sha256:old{number}" for number in range(CHECKED)]
    return counter


def cohort_check() -> Counts:
    """Return the calls as a figure of the budgets."""
    return {"calls": calls_of(checks_counted())}
