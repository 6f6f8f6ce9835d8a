"""The effect of each step on a rollout, and the policies and gates that decide about it.

`take_step` calls this with the rollout that it has just read. All of it is pure: if another replica changes the
rollout before the write, the store refuses the write.
"""

from sidecar.core.errors import TransitionRefused
from sidecar.core.identifiers import Digest
from sidecar.core.rollout import transitions
from sidecar.core.rollout.facts import DefinitionFacts, RolloutMode, SlotRollout
from sidecar.core.rollout.rollback import roll_back
from sidecar.core.rollout.rollout_config import configure, gates_of_mode
from sidecar.core.rollout.step import Actor, Change
from sidecar.operations.rollout.requests import (
    AcknowledgeBreach,
    Activate,
    Configure,
    OverrideGate,
    RampDown,
    RetireFlags,
    RollBack,
    SetRamp,
    StepRequest,
    Transition,
)
from sidecar.operations.rollout.steps.phases import phases_of
from sidecar.policy.lifecycle import Step


def changed(asked: StepRequest, rollout: SlotRollout, facts: DefinitionFacts, by: Actor) -> Change:
    """Return the change that a step makes to a rollout, except for decommissions. Raises `TransitionRefused`."""
    digest: Digest = facts.digest
    match asked:
        case Transition(step=Step.TO_TEST):
            change = transitions.to_test(rollout, digest, by)
        case Transition():
            change = transitions.promote(rollout, digest, by)
        case SetRamp(to=to):
            change = transitions.set_ramp(rollout, digest, to, by)
        case Configure(mode=mode, curve=curve):
            change = configure(rollout, digest, mode, curve, by)
        case RampDown(breach_id=breach_id):
            change = transitions.ramp_down(rollout, digest, breach_id, by)
        case AcknowledgeBreach(breach_id=breach_id):
            change = transitions.acknowledge(rollout, digest, breach_id, by)
        case OverrideGate(gate=gate, to=to, expires_at=expires_at):
            change = transitions.override(rollout, digest, by, gate=gate, to=to, expires_at=expires_at)
        case RollBack(to=named):
            change = roll_back(rollout, digest, by, named)
        case Activate():
            change = transitions.activate(rollout, digest, by)
        case RetireFlags():
            change = transitions.retire_flags(rollout, digest, by)
        case _:
            raise TransitionRefused(f"{type(asked).__name__} is not a step")
    return change


def asked_of_policies(asked: StepRequest, rollout: SlotRollout) -> Step | None:
    """Return the step that policies are asked about; None: no policy is called."""
    if isinstance(asked, Configure) and asked.curve == rollout.curve and asked.mode is RolloutMode.EXPERIMENT:
        return None  # only the control arm changes, which exposes no further users
    return phases_of(asked).policies


def gates_of(asked: StepRequest, rollout: SlotRollout, facts: DefinitionFacts) -> tuple[str, ...]:
    """Return the platform's gates of a step."""
    if not phases_of(asked).gates:
        return ()
    match asked:
        case Transition(step=Step.PROMOTE):
            return (transitions.PRE_MERGE,)
        case SetRamp(to=to):
            # By the size of the step: the last one, to 100 %, has another gate than the others.
            return transitions.gates_of_step(facts, to)
        case Configure(mode=mode):
            return gates_of_mode(rollout, mode)
        case _:
            return ()
