"""Implements `sidecar subagent active-periods` (when a definition was active for users) and `sidecar end-turn`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sidecar.cli.output.drawing import Part, TextLine, clean, timestamp, utc
from sidecar.cli.output.json_output import enum_word
from sidecar.cli.subagent.client import OperatorClient, OperatorExit
from sidecar.cli.subagent.output.parsing import percent
from sidecar.cli.subagent.step_target import StepOptions
from sidecar.cli.subagent.steps import confirm
from sidecar.cli.subagent.views import OperatorCommands, print_answer, run_command
from subagents.admin.v1 import admin_pb2
from subagents.dispatch.v1 import outcome_pb2
from subagents.lifecycle.v1 import activity_pb2 as pb

ENDING: Final = 30.0
"""Time limit in seconds. The sidecar stops the turn's running calls and records their outcomes before it answers."""


def end_turn(commands: OperatorCommands, options: StepOptions) -> int:
    """End the turn that `options.name` identifies and print the result. Returns the exit code."""
    danger = f"The running calls of {clean(options.name)} will be stopped, and its parent cannot continue it."

    def work(client: OperatorClient) -> OperatorExit:
        # Before the request: an ended turn cannot be opened again.
        confirm(commands, options, danger)
        request = admin_pb2.ForceEndTurnRequest(turn_id=options.name, reason=options.reason)
        answer = client.ask("ForceEndTurn", request, options.name, ENDING)
        ended_as = enum_word(outcome_pb2.TurnCloseReason, answer.close_reason)
        if commands.as_json:
            commands.write_json(
                {
                    "turn_id": options.name,
                    "ended_before": answer.ended_before,
                    "close_reason": ended_as,
                    "child_count": answer.child_count,
                }
            )
        else:
            when = "had ended before" if answer.ended_before else "has ended"
            message = f"{clean(options.name)} {when}: {ended_as}; children: {answer.child_count}"
            commands.screen.show([[Part(message)]])
        return OperatorExit.DONE

    return run_command(commands, work)


WHOLE: Final = 10_000
"""All users, in basis points."""


@dataclass(frozen=True, slots=True)
class ActivePeriodsOptions:
    """The definition, and the users to report on: one user, or a share of all users; exactly one of the two.

    Attributes:
        name: the id of the definition.
        user: the principal of the user.
        share: basis points. The share contains the users whom a ramp reaches first.
        slot: empty: the only slot that has the definition.
    """

    name: str
    user: str = ""
    share: int = 0
    slot: str = ""


def show_active_periods(commands: OperatorCommands, options: ActivePeriodsOptions) -> int:
    """Print the periods in which a definition was active. Returns the exit code."""
    request = pb.ListActivePeriodsRequest(definition_id=options.name, slot=options.slot)
    if options.user:
        request.principal = options.user
    else:
        request.share_basis_points = options.share
    return print_answer(
        commands,
        lambda client: client.ask_all("ListActivePeriods", request, "periods", options.name),
        lambda answer: period_lines(options, answer),
    )


def period_lines(options: ActivePeriodsOptions, answer: pb.ListActivePeriodsResponse) -> Iterator[TextLine]:
    """Yield a line for each period."""
    users = (
        "the user" if options.user else "all users" if options.share == WHOLE else f"the first {percent(options.share)}"
    )
    yield [Part(f"{clean(options.name)} in slot {clean(answer.slot)}, active for {users}:", "bold")]
    for each in answer.periods:
        # The audit does not contain the begin of a period that is older than the audit.
        began = timestamp(utc(each.started_at)) if each.HasField("started_at") else "before that"
        ended = timestamp(utc(each.ended_at)) if each.HasField("ended_at") else "now"
        request = f", request {clean(each.request_id)}" if each.request_id else ""
        yield [Part(f"  from {began} to {ended}"), Part(f"  at {percent(each.ramp_basis_points)}{request}", "dim")]
    if not answer.periods:
        yield [Part("  never")]
    if answer.HasField("known_from"):
        yield [Part(f"  the audit begins at {timestamp(utc(answer.known_from))}", "dim")]
