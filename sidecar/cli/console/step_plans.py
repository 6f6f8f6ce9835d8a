"""Decides which steps the console offers for a definition, and turns a form into the requests of its step."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sidecar.cli.console.step_form import StepForm
from sidecar.cli.subagent.decommission import VOUCHED, beginning, completing, deciding, next_step, undoing
from sidecar.cli.subagent.flag import killing_by_flag, pausing, switching_on
from sidecar.cli.subagent.kill import kill_danger
from sidecar.cli.subagent.output.decommission_tables import step_word
from sidecar.cli.subagent.output.parsing import basis_points, curve_of, window_end
from sidecar.cli.subagent.output.states import is_paused
from sidecar.cli.subagent.step_target import StepTarget
from sidecar.cli.subagent.steps import Verb
from sidecar.cli.subagent.verbs import (
    WHOLE,
    acknowledgement,
    activation,
    configuration,
    overriding,
    promotion,
    ramping,
    ramping_down,
    retirement,
    rolling_back,
)
from sidecar.core.rollout.decommission_facts import Choice, CodeStatus
from sidecar.core.rollout.rollout_config import MODES
from subagents.lifecycle.v1 import reading_pb2

KILL: Final = "kill"
KILL_FLAG_OFF: Final = "kill-flag-off"
KILL_FLAG, COHORT_FLAG = range(2)
"""The positions of the two flags in `DefinitionStatus.flags`."""
ON: Final = reading_pb2.FLAG_VALUE_ON
OFF: Final = reading_pb2.FLAG_VALUE_OFF
MATTERS: Final = ("evals", "tools")
"""What a decommission decides on: whether the definition's evaluations and tools are retained."""
EARLY: Final = frozenset({reading_pb2.LIFECYCLE_STATE_DEV, reading_pb2.LIFECYCLE_STATE_TEST})
"""The states before the promotion."""
PROMOTED: Final = reading_pb2.LIFECYCLE_STATE_PROMOTE
KILLABLE: Final = frozenset({PROMOTED, reading_pb2.LIFECYCLE_STATE_TEST})


def _value(each: Any, flag: int) -> int:
    """Return the value of a flag (`KILL_FLAG` or `COHORT_FLAG`) as the sidecar read it last."""
    # A definition may have no flags.
    return int(each.flags[flag].value) if len(each.flags) > flag else reading_pb2.FLAG_VALUE_UNSPECIFIED


def _flag_is(each: Any, flag: int, value: int) -> bool:
    """Return whether the ramp has switched the flags on, and the flag has this value now."""
    ramped = each.state == PROMOTED and each.flag_pair == reading_pb2.FLAG_PAIR_SWITCHED_ON
    return ramped and _value(each, flag) == value


def _may_begin(each: Any) -> bool:
    return each.state == reading_pb2.LIFECYCLE_STATE_ROLLBACK and not each.HasField("decommission")


def _is_leaving(each: Any) -> bool:
    return each.HasField("decommission") and not each.decommission.HasField("finished_at")


def failed_gates(each: Any) -> list[str]:
    """Return the gates (external checks) that an operator may override, because their last answer was a fail."""
    fail = reading_pb2.GATE_VERDICT_FAIL
    return [answer.gate for answer in each.last_gate_answers if answer.verdict == fail and not answer.overridden]


@dataclass(frozen=True, slots=True)
class Step:
    """One kind of step.

    Attributes:
        label: the text of its button.
        may: returns whether to offer it for a slot and one of its definitions. The sidecar decides again when the step
            is taken.
    """

    label: str
    may: Callable[[Any, Any], bool]


# In the order of the buttons on the page.
STEPS: Final[Mapping[str, Step]] = {
    "promote": Step("Promote", lambda _, each: each.state in EARLY),
    "ramp": Step("Ramp", lambda _, each: each.state == PROMOTED),
    # `> 1`: a definition has two flags or none; a pause switches the cohort flag, the second.
    "pause": Step("Pause", lambda _, each: each.active and len(each.flags) > 1 and not is_paused(each)),
    "resume": Step("End pause", lambda _, each: is_paused(each)),
    "acknowledge": Step("Acknowledge breach", lambda _, each: each.HasField("breach")),
    "override": Step("Override a gate", lambda _, each: bool(failed_gates(each))),
    "activate": Step("Activate", lambda slot, each: not slot.active_digest and each.state == PROMOTED),
    "configure": Step("Mode and curve", lambda _, each: each.state == PROMOTED),
    "kill-flag-on": Step("Kill flag on", lambda _, each: _flag_is(each, KILL_FLAG, OFF)),
    "cohort-flag-on": Step("Cohort flag on", lambda _, each: _flag_is(each, COHORT_FLAG, OFF) and not is_paused(each)),
    # Not for the active definition, for which the same switch is offered as "Pause".
    "cohort-flag-off": Step("Cohort flag off", lambda _, each: _flag_is(each, COHORT_FLAG, ON) and not each.active),
    "retire-flags": Step("Retire flags", lambda _, each: bool(each.flags) and each.ramp_basis_points == WHOLE),
    "ramp-down": Step("Ramp down for a breach", lambda _, each: each.ramp_basis_points > 0),
    "roll-back": Step("Roll back", lambda _, each: each.state == PROMOTED),
    "begin-decommission": Step("Begin decommission", lambda _, each: _may_begin(each)),
    "complete-cleanup": Step("Complete a step of the cleanup", lambda _, each: _is_leaving(each)),
    "decide-cleanup": Step("Evals and tools", lambda _, each: _is_leaving(each)),
    "undo-decommission": Step("Undo decommission", lambda _, each: _is_leaving(each)),
    KILL_FLAG_OFF: Step("Kill flag off", lambda _, each: each.state in KILLABLE and _value(each, KILL_FLAG) == ON),
    KILL: Step("Kill", lambda _, each: each.state in KILLABLE),
}


CLEANUP: Final = frozenset({"complete-cleanup", "decide-cleanup", "undo-decommission"})
"""Steps of a decommission that has begun."""
PERMANENT: Final = frozenset({KILL, KILL_FLAG_OFF, "roll-back", "ramp-down", "retire-flags", "begin-decommission"})
"""Steps that cannot be undone, or that take a definition from all users at once; their buttons look dangerous."""


def possible(slot: Any, each: Any) -> list[str]:
    """Return the steps to offer for a definition."""
    return [name for name, step in STEPS.items() if step.may(slot, each)]


def unread_plan(form: StepForm, sidecars: int) -> list[Verb]:
    """Return the requests of a stop; empty if the step is no stop.

    A stop (a kill, a pause or a ramp-down) does not read the rollout, because a store that is unavailable must not
    delay it.

    Args:
        form: the form of the step.
        sidecars: the number of sidecars that a kill is sent to.

    Raises:
        ValueError: the form does not say enough.
    """
    if form.step == KILL:
        return [Verb("Kill", "kill; needs no gate and no store", danger=kill_danger(form.definition_id, sidecars))]
    if form.step == KILL_FLAG_OFF:
        return killing_by_flag(form.definition_id)
    if form.step in {"pause", "cohort-flag-off"}:
        return pausing()
    if form.step != "ramp-down":
        return []
    if not form.breach:
        raise ValueError("Give the id of the breach, as the monitoring system reports it.")
    return ramping_down(form.breach)


def plan(target: StepTarget, form: StepForm, now: datetime) -> list[Verb]:
    """Return the requests of a step that reads the rollout, with the plans that the command line prints for them.

    Raises:
        ValueError: the form does not say enough.
        CannotOperate: the slot does not have the successor that a rollback names.
    """
    name = form.definition_id
    plans: Mapping[str, Callable[[], list[Verb]]] = {
        "promote": lambda: promotion(target),
        "ramp": lambda: ramping(target, name, basis_points(form.percent)),
        "resume": lambda: switching_on(target),
        "kill-flag-on": lambda: switching_on(target, "kill"),
        "cohort-flag-on": lambda: switching_on(target),
        "begin-decommission": lambda: beginning(name),
        "complete-cleanup": lambda: _cleanup_step(target, form),
        "decide-cleanup": lambda: _decision(form),
        "undo-decommission": lambda: undoing(name),
        "configure": lambda: _configuration(target, form),
        "override": lambda: _override(target, form, now),
        "retire-flags": lambda: retirement(target, name),
        "acknowledge": lambda: acknowledgement(target),
        "activate": activation,
        "roll-back": lambda: rolling_back(target, name, form.to),
    }
    # The plans are functions because only the requested one may raise, e.g. for a missing percentage.
    return plans[form.step]()


def _configuration(target: StepTarget, form: StepForm) -> list[Verb]:
    if form.mode not in MODES and not form.curve:
        raise ValueError("Give a mode, a ramp curve, or both.")
    return configuration(target, form.mode, curve_of(form.curve) if form.curve else None)


def _override(target: StepTarget, form: StepForm, now: datetime) -> list[Verb]:
    # The form offers only these, but a client can post another name.
    if form.gate not in failed_gates(target.definition):
        raise ValueError("Choose a gate whose last answer was a fail.")
    return overriding(target, form.gate, basis_points(form.percent), window_end(form.until, now))


def _cleanup_step(target: StepTarget, form: StepForm) -> list[Verb]:
    number = next_step(target.definition)
    if number == reading_pb2.CLEANUP_STEP_MODULES and form.code not in set(CodeStatus):
        raise ValueError("Say whether its modules are deleted or only marked deprecated.")
    if number in VOUCHED and not form.checked:
        raise ValueError(f"Say what you checked: a sidecar cannot verify step {step_word(number)}.")
    code = CodeStatus(form.code) if number == reading_pb2.CLEANUP_STEP_MODULES else CodeStatus.GONE
    return completing(form.definition_id, number, code, form.checked)


def _decision(form: StepForm) -> list[Verb]:
    if form.matter not in MATTERS or form.choice not in set(Choice):
        raise ValueError("Choose evals or tools, and whether they are retained or removed.")
    return deciding(form.matter, Choice(form.choice))
