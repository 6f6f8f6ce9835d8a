"""Formats the result of a step of a rollout, for the command line and the console.

`result` is the message `StepResult`; `method` is the RPC that took the step, e.g. `SetRamp`.
"""

from typing import Any

from sidecar.cli.output.drawing import clean
from sidecar.cli.output.json_output import enum_word
from sidecar.cli.subagent.output.decommission_tables import next_for
from sidecar.cli.subagent.output.flag_tables import switch_lines
from sidecar.cli.subagent.output.gate_words import gate_words
from sidecar.cli.subagent.output.parsing import percent
from sidecar.cli.subagent.output.states import effect
from sidecar.cli.subagent.output.tables import short
from subagents.lifecycle.v1 import lifecycle_pb2 as pb
from subagents.lifecycle.v1.flags_pb2 import FLAG_KIND_COHORT
from subagents.lifecycle.v1.reading_pb2 import FLAG_VALUE_OFF


def is_lasting(result: Any) -> bool:
    """Return whether the step is recorded. Only a kill or a ramp-down can be in effect without being recorded.

    `reached` lists the places that a kill or ramp-down has reached; for every other step it is empty.
    """
    return not result.reached or pb.STOP_REACH_RECORD in result.reached


def result_lines(result: Any, method: str, *, dry_run: bool = False) -> list[tuple[str, str]]:
    """Return the result of a step, with a style for each line. `dry_run`: the step was only checked."""
    lines = [_head(result, method, dry_run=dry_run)]
    if result.HasField("flag"):
        lines += switch_lines(result.flag)
    lines += [(f"  gate {gate_words(each)}", "") for each in result.gate_answers]
    if result.reached:
        lines.append((f"  reached: {', '.join(enum_word(pb.StopReach, each) for each in result.reached)}", ""))
    if result.HasField("decommission"):
        lines.append((f"  next: {next_for(result.decommission, clean(result.definition_id))}", ""))
    lines += [(f"  also required: {clean(each)}", "yellow") for each in result.edits]
    lines += [(f"  warning: {clean(each)}", "yellow") for each in result.warnings]
    return lines


def _head(result: Any, method: str, *, dry_run: bool) -> tuple[str, str]:
    """Return the first line: whether the step was taken, and the state of the definition after it."""
    if not is_lasting(result):
        return _local_stop(result, method), "yellow"
    if dry_run:
        head = "dry run, nothing was written; the step would lead to:"
    elif result.repeated:
        head = "already taken with this request id:"
    else:
        head = "done:" if result.changed else "no change, this was already the state:"
    return f"  {head} {_effect(result, method)} ({short(result.digest)}, revision {result.revision})", "green"


def _effect(result: Any, method: str) -> str:
    # "Paused" is no lifecycle state: the state stays `promote`, and only the cohort flag is off.
    if (
        result.HasField("flag")
        and result.active
        and result.flag.kind == FLAG_KIND_COHORT
        and result.flag.after == FLAG_VALUE_OFF
    ):
        return f"paused at {percent(result.ramp_basis_points)}"
    return effect(result.state, result.ramp_basis_points, active=result.active, killed=method == "Kill")


def _local_stop(result: Any, method: str) -> str:
    """Return what is in effect at this sidecar only, and what the record still has, as far as the answer tells.

    A kill contains the recorded state if the sidecar could read it. A ramp-down never contains the recorded ramp.
    """
    digest = short(result.digest)
    if method == "RampDown":
        return f"  in effect at this sidecar only: ramp 0 %; the recorded ramp is unchanged ({digest})"
    recorded = "its recorded state is unknown here"
    # Without a revision the sidecar could not read the record.
    if result.revision:
        # Without `active`, which a stop clears in the answer: `effect` would not show the ramp.
        recorded = f"the record still has: {effect(result.state)}, ramp {percent(result.ramp_basis_points)}"
    return f"  in effect at this sidecar only: killed; {recorded} ({digest})"
