"""The steps of the `sidecar subagent` commands.

For each command a function builds its requests, with their plans in words; the console uses these, too. The functions
below them, e.g. `promote`, take the steps and are the commands.
"""

from datetime import datetime
from typing import Any, Final

from sidecar.cli.output.drawing import clean
from sidecar.cli.subagent.client import CannotOperate, OperatorExit
from sidecar.cli.subagent.output.parsing import is_named, percent
from sidecar.cli.subagent.output.states import EFFECTS
from sidecar.cli.subagent.output.tables import curve_word, mode_word
from sidecar.cli.subagent.step_target import StepOptions, StepTarget, to_promote
from sidecar.cli.subagent.steps import Verb, take, take_without_read
from sidecar.cli.subagent.views import OperatorCommands, stamp
from sidecar.core.rollout.remedies import NO_DEFINITION
from sidecar.core.rollout.rollout_config import MODES
from subagents.lifecycle.v1 import reading_pb2 as pb


def successor(target: StepTarget, to: str) -> tuple[str, dict[str, Any]]:
    """Return which definition serves after a rollback, as text and as fields of the request.

    The sidecar checks whether the definition can serve. If several digests share an id, the ones that were active
    before take precedence.

    Args:
        target: the definition to roll back, and its slot.
        to: an id, a digest, or `none`.

    Raises:
        CannotOperate: the slot has no such definition, or several.
    """
    if to == NO_DEFINITION:
        return "the slot stays empty until a definition is activated", {"leave_empty": True}
    named = [each for each in target.slot.definitions if to == each.definition_id or is_named(each.digest, to)]
    # Only a promoted definition that was active before can serve again at once.
    live = [each for each in named if each.state == pb.LIFECYCLE_STATE_PROMOTE and each.HasField("activated_at")]
    meant = live or named
    if len(meant) == 1:
        return f"{clean(meant[0].definition_id)} serves again", {"target_digest": meant[0].digest}
    message = f"has several definitions {clean(to)}" if meant else f"has no definition {clean(to)}"
    has = ", ".join(f"{clean(each.definition_id)} {clean(each.digest)}" for each in meant or target.slot.definitions)
    raise CannotOperate(
        f"{clean(target.slot.slot)} {message}: {has}",
        OperatorExit.NOT_ASKED,
        advice=f"give --to one of these digests, or --to {NO_DEFINITION}",
    )


WHOLE: Final = 10_000
"""A ramp of 100 %, in basis points."""
POLICIES: Final = "and the lifecycle policies"


def promotion(target: StepTarget, *, to_test: bool = False) -> list[Verb]:
    """Return the steps to `test` and then to `promote`; those that the definition has behind it are left out."""
    state, test = target.definition.state, {"target_state": pb.LIFECYCLE_STATE_TEST}
    # A suffix, because both steps are sent under the id of the command, and an id may be used for one step only.
    first = Verb("Transition", "in development -> in test; needs no gate", test, suffix=".test")
    if to_test:
        return [first]
    source = EFFECTS[pb.LIFECYCLE_STATE_TEST if state == pb.LIFECYCLE_STATE_DEV else state]
    plan = f"{source} -> promoted, at 0 %; needs the gate pre_merge, {POLICIES}"
    last = Verb("Transition", plan, {"target_state": pb.LIFECYCLE_STATE_PROMOTE})
    return [first, last] if state == pb.LIFECYCLE_STATE_DEV else [last]


def ramping(target: StepTarget, name: str, points: int) -> list[Verb]:
    """Return the step to a ramp, in basis points. Only the step to 100 % asks for a confirmation."""
    before = target.definition.ramp_basis_points
    gate = "pre_full" if points == WHOLE else "pre_ramp"
    needs = f"needs the gate {gate}, {POLICIES}" if points > before else f"needs no gate, {POLICIES}"
    # `WHOLE > before`: the same step once more changes nothing, and needs no confirmation.
    danger = f"{clean(name)} will serve all users." if points == WHOLE > before else ""
    plan = f"ramp {percent(before)} -> {percent(points)}; {needs}"
    return [Verb("SetRamp", plan, {"ramp_basis_points": points}, danger)]


def rolling_back(target: StepTarget, name: str, to: str = "") -> list[Verb]:
    """Return the step that rolls a definition back. `to`: the successor. Raises `CannotOperate`, as `successor`."""
    after, fields = successor(target, to) if to else (_recorded_successor(target), {})
    danger = f"{clean(name)} will be rolled back permanently; {after}."
    return [Verb("RollBack", f"rollback; {after}; needs no gate", fields, danger)]


def activation() -> list[Verb]:
    """Return the step that lets a promoted definition serve its empty slot again."""
    return [Verb("Activate", f"activate in the empty slot, at its last ramp; needs {POLICIES.removeprefix('and ')}")]


def acknowledgement(target: StepTarget, breach_id: str = "") -> list[Verb]:
    """Return the step that acknowledges a breach; empty: the open one."""
    breach = breach_id or target.definition.breach.breach_id
    message = clean(target.definition.breach.reason)
    plan = f"acknowledge breach {clean(breach)}" + (f" ({message})" if message else "")
    # An empty id would be an invalid request; with any text, the sidecar answers that there is no such breach.
    return [Verb("AcknowledgeBreach", plan, {"breach_id": breach or "none"})]


def configuration(target: StepTarget, mode: str, curve: tuple[int, ...] | None) -> list[Verb]:
    """Return the step that declares mode and ramp curve of a slot; an empty mode or a curve of None is kept."""
    slot = target.slot
    new_mode = pb.RolloutMode.Value(f"ROLLOUT_MODE_{MODES[mode].name}") if mode else slot.mode
    # The request declares mode and curve together, so a value that is to be kept is sent again.
    new_curve = list(slot.curve_basis_points) if curve is None else list(curve)
    admits = slot.mode == pb.ROLLOUT_MODE_EXPERIMENT and new_mode == pb.ROLLOUT_MODE_FULL
    effect = (
        f"the control arm is admitted; needs the gate of the current ramp, {POLICIES}" if admits else "no ramp moves"
    )
    plan = f"mode {mode_word(new_mode)}, ramp curve {curve_word(new_curve)}; {effect}"
    return [Verb("ConfigureRollout", plan, {"mode": new_mode, "curve_basis_points": new_curve})]


def ramping_down(breach_id: str) -> list[Verb]:
    """Return the step that sets a ramp to 0 because of a breach."""
    plan = f"ramp -> 0 % immediately, because of breach {clean(breach_id)}; needs no gate"
    return [Verb("RampDown", plan, {"breach_id": breach_id})]


def overriding(target: StepTarget, gate: str, points: int, until: datetime) -> list[Verb]:
    """Return the permission of one step, to a ramp in basis points, although one gate failed."""
    step = f"{percent(target.definition.ramp_basis_points)} to {percent(points)}"
    plan = f"override one fail of {clean(gate)} for the step from {step}, until {until:%Y-%m-%d %H:%M:%S} UTC"
    fields = {"gate": gate, "ramp_basis_points": points, "expires_at": stamp(until)}
    return [Verb("OverrideGate", plan, fields)]


def retirement(target: StepTarget, name: str) -> list[Verb]:
    """Return the step that releases the flags of a definition that serves all users."""
    names = ", ".join(clean(flag.name) for flag in target.definition.flags) or "no flags"
    danger = f"{clean(name)} will count as always on: {names} no longer gate it, not even as a kill switch."
    return [Verb("RetireFlags", f"retire {names}", danger=danger)]


def promote(commands: OperatorCommands, options: StepOptions, *, to_test: bool = False) -> int:
    """Move a definition to `test`, and from there to `promote`. Returns the exit code."""
    return take(commands, options, lambda target: promotion(target, to_test=to_test), to_promote)


def ramp(commands: OperatorCommands, options: StepOptions, points: int) -> int:
    """Set a ramp, in basis points. Returns the exit code."""
    return take(commands, options, lambda target: ramping(target, options.name, points))


def configure(commands: OperatorCommands, options: StepOptions, mode: str, curve: tuple[int, ...] | None) -> int:
    """Declare mode and ramp curve of a slot. Returns the exit code."""
    return take(commands, options, lambda target: configuration(target, mode, curve))


def ramp_down(commands: OperatorCommands, options: StepOptions, breach_id: str) -> int:
    """Set a ramp to 0 because of a breach. Returns the exit code."""
    # `*`: the list has exactly one step.
    return take_without_read(commands, options, *ramping_down(breach_id))


def roll_back(commands: OperatorCommands, options: StepOptions, to: str = "") -> int:
    """Roll a definition back permanently. `to`: the successor; empty: the recorded target. Returns the exit code."""
    return take(commands, options, lambda target: rolling_back(target, options.name, to))


def activate(commands: OperatorCommands, options: StepOptions) -> int:
    """Let a promoted definition serve its empty slot again. Returns the exit code."""
    return take(commands, options, lambda _: activation())


def override(commands: OperatorCommands, options: StepOptions, gate: str, points: int, until: datetime) -> int:
    """Permit one step although one gate failed. Returns the exit code."""
    return take(commands, options, lambda target: overriding(target, gate, points, until))


def acknowledge(commands: OperatorCommands, options: StepOptions, breach_id: str) -> int:
    """Acknowledge a breach. `breach_id`: empty means the open breach. Returns the exit code."""
    return take(commands, options, lambda target: acknowledgement(target, breach_id))


def retire_flags(commands: OperatorCommands, options: StepOptions) -> int:
    """Retire the flags of a definition that serves all users. Returns the exit code."""
    return take(commands, options, lambda target: retirement(target, options.name))


def _recorded_successor(target: StepTarget) -> str:
    """Return what happens to the slot if the rollback names no successor, in words."""
    if not target.definition.active:
        return "it is not active, so the slot does not change"
    targets = [each for each in target.slot.definitions if each.digest == target.definition.target_digest]
    if targets and targets[0].state != pb.LIFECYCLE_STATE_PROMOTE:
        name, effect = clean(targets[0].definition_id), EFFECTS[targets[0].state]
        return f"its recorded target {name} is {effect}: choose another with --to"
    return f"{clean(targets[0].definition_id)} serves again" if targets else "the slot becomes empty"
