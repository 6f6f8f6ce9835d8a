"""How the outcome of a step looks on a screen."""

from typing import Any

from sidecar.cli.output.drawing import clean
from sidecar.cli.output.json_output import enum_word
from sidecar.cli.subagent.output.decommission_tables import next_for
from sidecar.cli.subagent.output.flag_tables import switch_lines
from sidecar.cli.subagent.output.gate_words import gate_words
from sidecar.cli.subagent.output.parsing import percent
from sidecar.cli.subagent.output.tables import ramp_word, short, state_word
from subagents.lifecycle.v1 import lifecycle_pb2 as pb


def is_lasting(result: Any) -> bool:
    """Say whether what was asked for is on record; only what stops somebody can hold without."""
    return not result.reached or pb.STOP_REACH_RECORD in result.reached


def result_lines(result: Any, method: str, *, dry_run: bool = False) -> list[tuple[str, str]]:
    """Return what came of a step, with a style for each line."""
    lines = [_head(result, method, dry_run=dry_run)]
    if result.HasField("flag"):
        lines += switch_lines(result.flag)
    lines += [(f"  gate {gate_words(each)}", "") for each in result.gate_answers]
    if result.reached:
        lines.append((f"  reached: {', '.join(enum_word(pb.StopReach, each) for each in result.reached)}", ""))
    if result.HasField("decommission"):
        lines.append((f"  next: {next_for(result.decommission, clean(result.definition_id))}", ""))
    lines += [(f"  do this, too: {clean(each)}", "yellow") for each in result.edits]
    lines += [(f"  warning: {clean(each)}", "yellow") for each in result.warnings]
    return lines


def _head(result: Any, method: str, *, dry_run: bool) -> tuple[str, str]:
    if not is_lasting(result):
        return _held(result, method), "yellow"
    if dry_run:
        head = "dry run, nothing was written; then it would be"
    elif result.repeated:
        head = "answered as before:"
    else:
        head = "done:" if result.changed else "nothing to do, it was so already:"
    active = ", active" if result.active else ""
    where = f"{state_word(result.state)}{active}{ramp_word(result)}"
    return f"  {head} {where} ({short(result.digest)}, revision {result.revision})", "green"


def _held(result: Any, method: str) -> str:
    """Return what holds here, and what the record says; of a ramp-down the answer does not know the ramp on record."""
    digest = short(result.digest)
    if method == "RampDown":
        return f"  held here: ramp 0 % at this sidecar; on record its ramp is still what it was ({digest})"
    stands = f"on record it is still {state_word(result.state)}, ramp {percent(result.ramp_basis_points)}"
    if not result.revision:
        stands = "what is on record of it is not known here"
    return f"  held here: off this sidecar's surface; {stands} ({digest})"
