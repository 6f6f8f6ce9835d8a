"""Names the state of a definition: by its effect for screens, and by the names of the protos for `--json`."""

from collections.abc import Iterable
from typing import Final

from sidecar.cli.output.json_output import enum_word
from sidecar.cli.subagent.output.parsing import percent
from subagents.lifecycle.v1 import reading_pb2 as pb

EFFECTS: Final[dict[int, str]] = {
    pb.LIFECYCLE_STATE_DEV: "in development",
    pb.LIFECYCLE_STATE_TEST: "in test",
    pb.LIFECYCLE_STATE_PROMOTE: "promoted",
    pb.LIFECYCLE_STATE_ROLLBACK: "rolled back",
}
EFFECT_STYLE: Final = {
    "live": "green",
    "target": "green",
    "rolled": "red",
    "killed": "red",
    "paused": "yellow",
    "in": "cyan",
    "decommissioning": "yellow",
    "decommissioned": "dim",
}
"""The style of an effect, by its first word."""


def state_word(state: int) -> str:
    """Return the protos' name of a lifecycle state, e.g. `promote`. Screens show `effect` instead."""
    return enum_word(pb.LifecycleState, state)


def effect(state: int, ramp: int | None = None, *, active: bool = False, killed: bool = False) -> str:
    """Return what a lifecycle state means for users, e.g. `live 25 %`. `ramp`: in basis points; None: not shown."""
    if state == pb.LIFECYCLE_STATE_PROMOTE and active:
        return "live" if ramp is None else f"live {percent(ramp)}"
    return "killed" if killed and state == pb.LIFECYCLE_STATE_ROLLBACK else EFFECTS.get(state, state_word(state))


def definition_effect(each: pb.DefinitionStatus, slot: Iterable[pb.DefinitionStatus] = ()) -> str:
    """Return the effect of a definition's state. `slot`: its slot's definitions, to find the active one's target."""
    # First: a decommissioned definition keeps the state `rollback`, which would hide the removal.
    if each.HasField("decommission"):
        return "decommissioned" if each.decommission.HasField("finished_at") else "decommissioning"
    # Before the state: a paused definition is still promoted and active in the record.
    if is_paused(each):
        return f"paused at {percent(each.ramp_basis_points)}"
    # The target serves the users outside the ramp, so "promoted" alone would hide that it is in use.
    if each.state == pb.LIFECYCLE_STATE_PROMOTE and any(
        one.active and one.target_digest == each.digest for one in slot
    ):
        return "target"
    return effect(each.state, each.ramp_basis_points, active=each.active, killed=each.HasField("killed"))


def is_paused(each: pb.DefinitionStatus) -> bool:
    """Return whether the ramp switched the flags on and the cohort flag, the second of the two, is off now.

    Before the ramp has switched them on, an "off" means nothing: the definition does not serve yet.
    """
    cohort = each.flags[1].value if len(each.flags) > 1 else pb.FLAG_VALUE_UNSPECIFIED
    switched = each.active and each.flag_pair == pb.FLAG_PAIR_SWITCHED_ON
    return bool(switched and cohort == pb.FLAG_VALUE_OFF)


def standing(each: pb.DefinitionStatus) -> str:
    """Return the word for `standing` in `--json`: the lifecycle state, `killed`, or the state of the decommission.

    Scripts depend on these words, so they are those of the protos and not those of the screen.
    """
    if each.HasField("decommission"):
        return "decommissioned" if each.decommission.HasField("finished_at") else "decommissioning"
    return "killed" if each.HasField("killed") else state_word(each.state)


def effect_style(state: str) -> str:
    """Return the style of an effect."""
    return EFFECT_STYLE.get(state.partition(" ")[0], "")


def state_in_contract(each: pb.DefinitionStatus) -> str:
    """Return the lifecycle state in the words of the protos, e.g. `promote, active, ramp 25 %`."""
    active = ", active" if each.active else ""
    # A rolled-back definition keeps its last ramp on record, but it serves no user.
    ramp = "" if each.state == pb.LIFECYCLE_STATE_ROLLBACK else f", ramp {percent(each.ramp_basis_points)}"
    return f"{state_word(each.state)}{active}{ramp}"
