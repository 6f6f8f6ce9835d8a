"""Between the words of the model and those of the sidecar: values only, no rule is in here."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

import msgspec

from sidecar.core.identifiers import Commit, DefinitionId, Digest, Slot, Vertical
from sidecar.core.rollout.decommission_facts import (
    Choice,
    CleanupStep,
    CodeStatus,
    CompletedStep,
    Decision,
    Decommission,
    Subject,
)
from sidecar.core.rollout.events import RolloutEvent, TransitionEvent
from sidecar.core.rollout.facts import Breach, DefinitionFacts, FlagPair, Override, RolloutMode, SlotRollout, Tombstone
from sidecar.core.rollout.rollback import Successor
from sidecar.core.rollout.rollout_config import MODES
from sidecar.core.rollout.states import LifecycleState
from sidecar.operations.rollout import requests
from sidecar.operations.rollout.store.ports import RolloutWrite
from sidecar.policy.lifecycle import Step
from tests.support.simulation.ports import BEGIN
from tests.support.simulation.rollout import model_values, wishes
from tests.support.simulation.rollout.wishes import Wish

NOT_RECORDED: Final = "?"
"""In the place of a target of which nothing is recorded, not even that there is none."""


def asked_of(wish: Wish) -> requests.StepRequest:
    """Return a wish as the sidecar is asked."""
    common = {
        "definition_id": DefinitionId(wish.name),
        "request_id": wish.request_id,
        "reason": wish.reason,
        "digest": wish.content,
        "expected_revision": wish.revision,
        "dry_run": wish.dry_run,
        "actor_role": wish.role,
    }
    own: dict[str, dict[str, object]] = {
        wishes.TO_TEST: {"step": Step.TO_TEST},
        wishes.PROMOTE: {"step": Step.PROMOTE},
        wishes.SET_RAMP: {"to": wish.to},
        wishes.RAMP_DOWN: {"breach_id": wish.breach},
        wishes.ACKNOWLEDGE: {"breach_id": wish.breach},
        wishes.ROLL_BACK: {"to": _named(wish.instead)},
        wishes.OVERRIDE: {"gate": wish.gate, "to": wish.to, "expires_at": BEGIN + timedelta(seconds=wish.until)},
        wishes.CONFIGURE: {"mode": MODES.get(wish.mode), "curve": wish.curve},
        wishes.TAKE: {"step": _step(wish.step), "code": wish.code or None, "confirmed": wish.word},
        wishes.DECIDE: {"matter": wish.matter, "choice": wish.choice},
    }
    return msgspec.convert({**common, **own.get(wish.kind, {})}, _KINDS[wish.kind])


_KINDS: Final[dict[str, type[requests.StepRequest]]] = {
    wishes.TO_TEST: requests.Transition,
    wishes.PROMOTE: requests.Transition,
    wishes.SET_RAMP: requests.SetRamp,
    wishes.RAMP_DOWN: requests.RampDown,
    wishes.ACKNOWLEDGE: requests.AcknowledgeBreach,
    wishes.OVERRIDE: requests.OverrideGate,
    wishes.ROLL_BACK: requests.RollBack,
    wishes.ACTIVATE: requests.Activate,
    wishes.KILL: requests.Kill,
    wishes.RETIRE_FLAGS: requests.RetireFlags,
    wishes.CONFIGURE: requests.Configure,
    wishes.BEGIN: requests.BeginDecommission,
    wishes.TAKE: requests.TakeDecommissionStep,
    wishes.DECIDE: requests.DecideDecommission,
    wishes.UNDO: requests.UndoDecommission,
}


def _named(instead: str) -> Successor | None:
    return Successor(None if instead == wishes.NOBODY else Digest(instead)) if instead else None


def _step(number: int) -> CleanupStep:
    return CleanupStep(model_values.STEPS[max(number, 1) - 1])


def slot_of(rollout: SlotRollout, now: float) -> model_values.Slot:
    """Return what is on record of a slot in the words of the model; waivers that are over are left out."""
    return model_values.Slot(
        name=rollout.slot,
        revision=rollout.revision,
        active=rollout.active,
        definitions=tuple(_definition(facts, now) for facts in rollout.definitions.values()),
        curve=rollout.curve,
        experiment=rollout.mode is RolloutMode.EXPERIMENT,
        salt="" if rollout.salt == rollout.slot else rollout.salt,
    )


def _definition(facts: DefinitionFacts, now: float) -> model_values.Definition:
    recorded = facts.target_recorded == (facts.activated_at is not None)
    return model_values.Definition(
        name=facts.definition_id,
        content=facts.digest,
        shape=facts.shape,
        flag=facts.flag,
        state=str(facts.state),
        ramp=facts.ramp,
        served=facts.activated_at is not None,
        flags=str(facts.flags),
        unnamed=facts.flag_dropped,
        killed=facts.killed is not None,
        breach=facts.breach.breach_id if facts.breach else "",
        noted=bool(facts.breach and facts.breach.acknowledged_by),
        behind=facts.target if recorded else NOT_RECORDED,
        waivers=frozenset(
            model_values.Waiver(
                each.gate, each.from_ramp, each.to_ramp, round((each.expires_at - BEGIN).total_seconds(), 3)
            )
            for each in facts.overrides
            if (each.expires_at - BEGIN).total_seconds() > now
        ),
        leaving=None if facts.decommission is None else leaving_of(facts.decommission),
    )


def leaving_of(record: Decommission) -> model_values.Leaving:
    """Return what is on record of a decommission in the words of the model."""
    modules = record.taken(CleanupStep.MODULES)
    return model_values.Leaving(
        began=round((record.began_at - BEGIN).total_seconds(), 6),
        taken=frozenset(model_values.STEPS.index(each.step) + 1 for each in record.steps),
        code=str(modules.code) if modules is not None and modules.code is not None else "",
        evals=str(record.evals.choice) if record.evals else "",
        tools=str(record.tools.choice) if record.tools else "",
    )


def without_what_is_over(slot: model_values.Slot, now: float) -> model_values.Slot:
    """Return a slot of the model without waivers that are over, so that it can be compared."""
    kept = slot
    for each in slot.definitions:
        if any(waiver.until <= now for waiver in each.waivers):
            waivers = frozenset(waiver for waiver in each.waivers if waiver.until > now)
            kept = kept.put(replace(each, waivers=waivers))
    return kept


QUARTER: Final = 90 * 24 * 3600.0
"""Seconds."""


def rollout_of(slot: model_values.Slot, window: float = QUARTER) -> SlotRollout:
    """Return a slot of the model as it is kept; what was done before was done a few seconds ago.

    Args:
        slot: as the model has it.
        window: of decommissions, in seconds.
    """
    return SlotRollout(
        slot=Slot(slot.name),
        revision=slot.revision,
        definitions={Digest(each.content): _facts(slot, each, window) for each in slot.definitions},
        active=None if slot.active is None else Digest(slot.active),
        mode=RolloutMode.EXPERIMENT if slot.experiment else RolloutMode.FULL,
        curve=slot.curve,
        salt=slot.salt or slot.name,
    )


def _facts(slot: model_values.Slot, it: model_values.Definition, window: float) -> DefinitionFacts:
    ago = BEGIN - timedelta(seconds=5)
    leaving = None if it.leaving is None else _decommission(it.leaving, window)
    return DefinitionFacts(
        digest=Digest(it.content),
        definition_id=DefinitionId(it.name),
        commit=Commit(it.content),
        vertical=Vertical(slot.name),
        shape=it.shape,
        state=LifecycleState(it.state),
        ramp=it.ramp,
        activated_at=ago if it.served else None,
        flag=it.flag,
        flags=FlagPair(it.flags),
        flag_dropped=it.unnamed,
        confirmed_on=it.flag if it.flag and it.flags == "on" else "",
        killed=Tombstone(ago, "ada", "before") if it.killed else None,
        breach=Breach(it.breach, ago, "before", "ada" if it.noted else "") if it.breach else None,
        target=None if it.behind is None else Digest(it.behind),
        target_recorded=it.served,
        overrides=tuple(
            Override(each.gate, each.since, each.to, "ada", "before", BEGIN + timedelta(seconds=each.until))
            for each in sorted(it.waivers, key=lambda waiver: (waiver.gate, waiver.since, waiver.to))
        ),
        decommission_began_at=None if leaving is None else leaving.began_at,
        decommission=leaving,
    )


def _decommission(leaving: model_values.Leaving, window: float) -> Decommission:
    at = BEGIN + timedelta(seconds=leaving.began)
    choices = {
        matter: Decision(choice=Choice(choice), at=at, by="ada", reason="before")
        for matter, choice in ((Subject.EVALS, leaving.evals), (Subject.TOOLS, leaving.tools))
        if choice
    }
    steps = tuple(
        CompletedStep(
            step=_step(number),
            at=at,
            by="ada",
            reason="before",
            confirmed="looked" if number in (3, 5) else "",
            code=CodeStatus(leaving.code) if number == 3 else None,
        )
        for number in sorted(leaving.taken)
    )
    return Decommission(
        began_at=at,
        due_at=at + timedelta(seconds=window),
        by="ada",
        reason="before",
        steps=steps,
        evals=choices.get(Subject.EVALS),
        tools=choices.get(Subject.TOOLS),
    )


def rows_of(change: RolloutWrite) -> tuple[TransitionEvent | RolloutEvent, ...]:
    """Return everything that a change writes into the audit."""
    return (*change.transitions, *change.events)


def moves_of(transitions: tuple[TransitionEvent, ...]) -> tuple[tuple[str, str, str, str, int], ...]:
    """Return transitions in the words of the model."""
    return tuple(
        (
            str(each.digest),
            str(each.source_state),
            str(each.target_state),
            str(each.trigger),
            round(each.cohort.ramp_step_percent * 100),
        )
        for each in transitions
    )


RAMPS: Final = ("ramp_set", "ramped_down")
"""Events that are about a ramp."""


def happened_of(events: tuple[RolloutEvent, ...]) -> tuple[tuple[str, str, int, int], ...]:
    """Return events in the words of the model."""
    return tuple(
        (str(each.what), str(each.digest), *((each.before, each.after) if each.what in RAMPS else (0, 0)))
        for each in events
    )
