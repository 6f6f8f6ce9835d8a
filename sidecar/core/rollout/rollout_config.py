"""The rollout config of a slot: its mode, and the allowed steps of its ramp.

Operators declare both for each sub-agent; the platform imposes neither. Separate steps change the rest (states,
ramps, the active definition, the rollback target). Source: PF1-D-2, D-19, D-40.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from sidecar.core.errors import TransitionRefused
from sidecar.core.identifiers import Digest
from sidecar.core.rollout.bucketing import WHOLE
from sidecar.core.rollout.events import RolloutEventKind
from sidecar.core.rollout.facts import RolloutMode, SlotRollout
from sidecar.core.rollout.step import Actor, Change, event_about, facts_of, next_revision, refuse_unless, with_events
from sidecar.core.rollout.transitions import PRE_FULL, PRE_RAMP

MOST_STEPS: Final = 100
"""Limits what a request can store; no real curve has nearly as many steps."""

MODES: Final = {"experiment": RolloutMode.EXPERIMENT, "cohort": RolloutMode.EXPERIMENT, "full": RolloutMode.FULL}
"""The modes that an operator may write. Source: TN-72."""


def configure(rollout: SlotRollout, digest: Digest, mode: RolloutMode, curve: tuple[int, ...], by: Actor) -> Change:
    """Declare mode and ramp curve of a slot. No ramp changes.

    Args:
        rollout: the rollout of the slot.
        digest: the digest of a definition of the slot, for the audit event. If the new mode admits the control arm, it
            must be that of the active definition.
        mode: the new mode.
        curve: the new curve, in basis points; empty: any step is allowed.
        by: the operator, and the reason.

    Raises:
        TransitionRefused: the curve is invalid (see `curve_problems`); or the mode admits the control arm, and
            another definition than that of `digest` is active.
    """
    facts = facts_of(rollout, digest)
    problem = next(curve_problems(curve), "")
    refuse_unless(not problem, f"the ramp curve {problem}")
    if rollout.active not in {None, digest} and admits_control(rollout, mode):
        raise TransitionRefused(
            f"it would let the control arm in to what is active in {rollout.slot}, and {facts.definition_id} is not:"
            " name that one"
        )
    # Without a difference there is no event and no new revision: a repeated request must not make the revision outdated
    # that another operator has read.
    if (mode, curve) == (rollout.mode, rollout.curve):
        return Change(rollout)
    after = msgspec.structs.replace(rollout, mode=mode, curve=curve)
    words = f"mode {rollout.mode} -> {mode}; ramp curve {curve_words(rollout.curve)} -> {curve_words(curve)}"
    event = event_about(after, facts, RolloutEventKind.CONFIGURED, by, to=facts.ramp, detail=words)
    moded = msgspec.structs.replace(event, mode="" if mode is rollout.mode else mode)
    return with_events(Change(next_revision(after)), moded)


def admits_control(rollout: SlotRollout, mode: RolloutMode) -> bool:
    """Return whether a mode admits users whom the present mode excludes: the control arm of the experiment."""
    return rollout.mode is RolloutMode.EXPERIMENT and mode is RolloutMode.FULL


def gates_of_mode(rollout: SlotRollout, mode: RolloutMode) -> tuple[str, ...]:
    """Return the gates of a mode: the gate of the present ramp if the mode admits the control arm, otherwise none."""
    if rollout.active is None or not admits_control(rollout, mode):
        return ()
    ramp = rollout.definitions[rollout.active].ramp
    # The control arm of the present ramp joins its users, so the gate of that ramp must pass again. At 0 % there are no
    # users to join.
    return () if ramp == 0 else (PRE_FULL if ramp == WHOLE else PRE_RAMP,)


def curve_problems(curve: tuple[int, ...]) -> Iterator[str]:
    """Yield the problems of a curve, as ends of sentences. An empty curve is valid: none is declared."""
    if len(curve) > MOST_STEPS:
        yield f"has {len(curve)} steps; {MOST_STEPS} are the most"
    if any(not 0 < step <= WHOLE for step in curve):
        yield "has a step that is not above 0 % and at most 100 %"
    if list(curve) != sorted(set(curve)):
        yield "does not rise: each step must be larger than the one before"
    if curve and curve[0] == WHOLE:
        yield "begins with 100 %; a first step is below 100 %"


def curve_words(curve: tuple[int, ...]) -> str:
    """Return a curve for display, e.g. `5 %, 25 %, 100 %`."""
    return ", ".join(f"{step / 100:g} %" for step in curve) or "none"
