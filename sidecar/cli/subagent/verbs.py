"""What each verb of `sidecar subagent` asks for, from how the rollout stands; whom `rollback --to …` means."""

from datetime import datetime
from typing import Any, Final

from sidecar.cli.output.drawing import clean
from sidecar.cli.subagent.client import CannotOperate, OperatorExit
from sidecar.cli.subagent.output.parsing import percent
from sidecar.cli.subagent.output.tables import curve_word, mode_word, state_word
from sidecar.cli.subagent.steps import StepTarget, StepWish, Verb, take, take_unread
from sidecar.cli.subagent.views import OperatorCommands, stamp
from sidecar.core.rollout.remedies import NOBODY
from sidecar.core.rollout.rollout_config import MODES
from subagents.lifecycle.v1 import reading_pb2 as pb


def successor(found: StepTarget, to: str) -> tuple[str, dict[str, Any]]:
    """Return who serves after a rollback, in words and as fields of the request.

    Whether that one can serve says the sidecar; of several digests of one id the one is meant that was active before.

    Args:
        found: what is rolled back, and its slot.
        to: an id, a digest, or `none`.

    Raises:
        CannotOperate: the slot has none such, or several.
    """
    if to == NOBODY:
        return "nobody takes its place, until one is activated", {"leave_empty": True}
    named = [each for each in found.slot.definitions if to in {each.definition_id, each.digest}]
    live = [each for each in named if each.state == pb.LIFECYCLE_STATE_PROMOTE and each.HasField("activated_at")]
    meant = live or named
    if len(meant) == 1:
        return f"{clean(meant[0].definition_id)} takes its place", {"target_digest": meant[0].digest}
    said = f"has several definitions {clean(to)}" if meant else f"has no definition {clean(to)}"
    has = ", ".join(f"{clean(each.definition_id)} {clean(each.digest)}" for each in meant or found.slot.definitions)
    raise CannotOperate(
        f"{clean(found.slot.slot)} {said}: {has}",
        OperatorExit.NOT_ASKED,
        advice=f"give --to one of these digests, or --to {NOBODY}",
    )


WHOLE: Final = 10_000
FURTHER: Final = "and what the policies say"


def promote(operating: OperatorCommands, wish: StepWish, *, to_test: bool = False) -> int:
    """Bring a definition into `test`, and from there into `promote`; return the exit code."""

    def verbs(found: StepTarget) -> list[Verb]:
        state, test = found.definition.state, {"target_state": pb.LIFECYCLE_STATE_TEST}
        first = Verb("Transition", "dev -> test; asks no gate", test, suffix=".test")
        if to_test:
            return [first]
        source = "test" if state == pb.LIFECYCLE_STATE_DEV else state_word(state)
        plan = f"{source} -> promote, at 0 %; asks the gate pre_merge, {FURTHER}"
        last = Verb("Transition", plan, {"target_state": pb.LIFECYCLE_STATE_PROMOTE})
        return [first, last] if state == pb.LIFECYCLE_STATE_DEV else [last]

    return take(operating, wish, verbs)


def ramp(operating: OperatorCommands, wish: StepWish, points: int) -> int:
    """Set a ramp; return the exit code."""

    def verbs(found: StepTarget) -> list[Verb]:
        before = found.definition.ramp_basis_points
        gate = "pre_full" if points == WHOLE else "pre_ramp"
        asks = f"asks the gate {gate}, {FURTHER}" if points > before else f"asks no gate, {FURTHER}"
        danger = f"{clean(wish.name)} will serve everybody." if points == WHOLE > before else ""
        plan = f"ramp {percent(before)} -> {percent(points)}; {asks}"
        return [Verb("SetRamp", plan, {"ramp_basis_points": points}, danger)]

    return take(operating, wish, verbs)


def configure(operating: OperatorCommands, wish: StepWish, mode: str, curve: tuple[int, ...] | None) -> int:
    """Declare mode and ramp curve of a slot; what is empty or None stays. Returns the exit code."""

    def verbs(found: StepTarget) -> list[Verb]:
        slot = found.slot
        wanted = pb.RolloutMode.Value(f"ROLLOUT_MODE_{MODES[mode].name}") if mode else slot.mode
        steps = list(slot.curve_basis_points) if curve is None else list(curve)
        admits = slot.mode == pb.ROLLOUT_MODE_EXPERIMENT and wanted == pb.ROLLOUT_MODE_FULL
        asks = f"the control arm comes in; asks the gate of the present ramp, {FURTHER}" if admits else "no ramp moves"
        plan = f"mode {mode_word(wanted)}, ramp curve {curve_word(steps)}; {asks}"
        return [Verb("ConfigureRollout", plan, {"mode": wanted, "curve_basis_points": steps})]

    return take(operating, wish, verbs)


def ramp_down(operating: OperatorCommands, wish: StepWish, breach_id: str) -> int:
    """Set a ramp to 0 because of a breach; return the exit code."""
    plan = f"ramp -> 0 % at once, because of breach {clean(breach_id)}; asks nobody"
    return take_unread(operating, wish, Verb("RampDown", plan, {"breach_id": breach_id}))


def roll_back(operating: OperatorCommands, wish: StepWish, to: str = "") -> int:
    """Take a definition back for good; return the exit code. `to`: who serves then; empty: its recorded target."""

    def verbs(found: StepTarget) -> list[Verb]:
        who, fields = successor(found, to) if to else (_comes_back(found), {})
        danger = f"{clean(wish.name)} goes back for good; {who}."
        return [Verb("RollBack", f"rollback; {who}; asks nobody", fields, danger)]

    return take(operating, wish, verbs)


def activate(operating: OperatorCommands, wish: StepWish) -> int:
    """Put a definition back into an empty slot; return the exit code."""
    plan = f"activate in the empty slot, at its own last ramp; asks {FURTHER.removeprefix('and ')}"
    return take(operating, wish, lambda found: [Verb("Activate", plan)])


def override(operating: OperatorCommands, wish: StepWish, gate: str, points: int, until: datetime) -> int:
    """Let one `fail` pass; return the exit code."""

    def verbs(found: StepTarget) -> list[Verb]:
        step = f"{percent(found.definition.ramp_basis_points)} to {percent(points)}"
        plan = f"let one fail of {clean(gate)} pass for the step from {step}, until {until:%Y-%m-%d %H:%M:%S} UTC"
        fields = {"gate": gate, "ramp_basis_points": points, "expires_at": stamp(until)}
        return [Verb("OverrideGate", plan, fields)]

    return take(operating, wish, verbs)


def acknowledge(operating: OperatorCommands, wish: StepWish, breach_id: str) -> int:
    """Take note of a breach; empty: of the one that is open. Returns the exit code."""

    def verbs(found: StepTarget) -> list[Verb]:
        breach = breach_id or found.definition.breach.breach_id
        said = clean(found.definition.breach.reason)
        plan = f"acknowledge breach {clean(breach)}" + (f" ({said})" if said else "")
        return [Verb("AcknowledgeBreach", plan, {"breach_id": breach or "none"})]

    return take(operating, wish, verbs)


def retire_flags(operating: OperatorCommands, wish: StepWish) -> int:
    """Let the flags of a definition that serves everybody go; return the exit code."""

    def verbs(found: StepTarget) -> list[Verb]:
        names = ", ".join(clean(flag.name) for flag in found.definition.flags) or "no flags"
        danger = (
            f"{clean(wish.name)} will count as always on: {names} decide nothing any more, also not as a kill switch."
        )
        return [Verb("RetireFlags", f"retire {names}", danger=danger)]

    return take(operating, wish, verbs)


def _comes_back(found: StepTarget) -> str:
    if not found.definition.active:
        return "it is not active, so nobody takes its place"
    its = [each for each in found.slot.definitions if each.digest == found.definition.target_digest]
    if its and its[0].state != pb.LIFECYCLE_STATE_PROMOTE:
        return f"its recorded target {clean(its[0].definition_id)} is in {state_word(its[0].state)}: --to names another"
    return f"{clean(its[0].definition_id)} takes its place" if its else "nobody takes its place"
