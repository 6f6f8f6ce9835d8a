"""`sidecar subagent when`: when a sub-agent was active for users; `sidecar end-turn`: end a turn for its parent."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sidecar.cli.output.drawing import Part, TextLine, clean, moment
from sidecar.cli.output.json_output import enum_word
from sidecar.cli.output.turn_timeline import utc
from sidecar.cli.subagent.client import OperatorClient, OperatorExit
from sidecar.cli.subagent.output.parsing import percent
from sidecar.cli.subagent.steps import StepWish, confirm
from sidecar.cli.subagent.views import OperatorCommands, operated, shown
from subagents.admin.v1 import admin_pb2
from subagents.dispatch.v1 import outcome_pb2
from subagents.lifecycle.v1 import activity_pb2 as pb

ENDING: Final = 30.0
"""Seconds: what runs in the turn is stopped, and all of it goes on record."""


def end_turn(operating: OperatorCommands, wish: StepWish) -> int:
    """End the turn that the wish names, and say what came of it; return the exit code."""
    danger = f"What runs in {clean(wish.name)} is stopped, and its parent cannot go on with it."

    def work(client: OperatorClient) -> OperatorExit:
        confirm(operating, wish, danger)
        request = admin_pb2.ForceEndTurnRequest(turn_id=wish.name, reason=wish.reason)
        answer = client.ask("ForceEndTurn", request, wish.name, ENDING)
        ended_as = enum_word(outcome_pb2.TurnCloseReason, answer.close_reason)
        if operating.as_json:
            operating.write_json(
                {
                    "turn_id": wish.name,
                    "ended_before": answer.ended_before,
                    "close_reason": ended_as,
                    "child_count": answer.child_count,
                }
            )
        else:
            when = "had ended before" if answer.ended_before else "has ended"
            said = f"{clean(wish.name)} {when}: {ended_as}; children: {answer.child_count}"
            operating.screen.show([[Part(said)]])
        return OperatorExit.DONE

    return operated(operating, work)


WHOLE: Final = 10_000


@dataclass(frozen=True, slots=True)
class ActivePeriodsOptions:
    """Whose time: of one user, or of a share in basis points; one of the two."""

    name: str
    user: str = ""
    share: int = 0
    slot: str = ""


def show_active_periods(operating: OperatorCommands, wish: ActivePeriodsOptions) -> int:
    """Show when it was; return the exit code."""
    request = pb.ListActivePeriodsRequest(definition_id=wish.name, slot=wish.slot)
    if wish.user:
        request.principal = wish.user
    else:
        request.share_basis_points = wish.share
    return shown(
        operating,
        lambda client: client.ask("ListActivePeriods", request, wish.name),
        lambda answer: period_lines(wish, answer),
    )


def period_lines(wish: ActivePeriodsOptions, answer: pb.ListActivePeriodsResponse) -> Iterator[TextLine]:
    """Yield when it was."""
    whom = "the user" if wish.user else "everybody" if wish.share == WHOLE else f"the first {percent(wish.share)}"
    yield [Part(f"{clean(wish.name)} in slot {clean(answer.slot)}, active for {whom}:", "bold")]
    for each in answer.periods:
        began = moment(utc(each.started_at)) if each.HasField("started_at") else "before that"
        ended = moment(utc(each.ended_at)) if each.HasField("ended_at") else "now"
        by = f", request {clean(each.request_id)}" if each.request_id else ""
        yield [Part(f"  from {began} to {ended}"), Part(f"  at {percent(each.ramp_basis_points)}{by}", "dim")]
    if not answer.periods:
        yield [Part("  never")]
    if answer.HasField("known_from"):
        yield [Part(f"  the audit is kept from {moment(utc(answer.known_from))} on", "dim")]
