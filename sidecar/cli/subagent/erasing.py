"""Implements `sidecar erase`: erases the content of one user, through the running sidecar or in the record's file."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sidecar.cli.output.drawing import Part, clean
from sidecar.cli.subagent.client import CannotOperate, OperatorClient, OperatorExit
from sidecar.cli.subagent.step_target import StepOptions
from sidecar.cli.subagent.steps import confirm
from sidecar.cli.subagent.views import OperatorCommands, run_command, with_errors
from sidecar.core.errors import SubagentsError
from sidecar.core.identifiers import TurnId
from sidecar.operations.record.erase_user import ErasureReport
from subagents.admin.v1 import admin_pb2

ERASING: Final = 3600.0
"""Time limit in seconds. The sidecar rewrites the database file, which takes long for a large record."""
HOW_TO_ERASE_OFFLINE: Final = "if no sidecar runs on this SQLite record, --offline erases in its file"


@dataclass(frozen=True, slots=True)
class EraseOptions:
    """The user, the reason, and how to run.

    Attributes:
        principal: the user.
        preview: only count the content.
        yes: do not ask for a confirmation.
    """

    principal: str
    reason: str
    preview: bool = False
    yes: bool = False


Erase = Callable[[bool], ErasureReport]
"""Erases the content, or only counts it if the argument is True."""


def erase(commands: OperatorCommands, options: EraseOptions) -> int:
    """Erase the content of a user through the sidecar and print the result. Returns the exit code."""

    def work(client: OperatorClient) -> OperatorExit:
        try:
            return _erase(commands, options, lambda preview: _erase_at(client, options, preview=preview))
        except CannotOperate as problem:
            # Only if no sidecar answered. A sidecar that refuses sends a reason; --offline must not evade its refusal.
            if problem.code is OperatorExit.NOT_ASKED and problem.uncertain and not problem.reason:
                raise CannotOperate(
                    problem.message, problem.code, advice=HOW_TO_ERASE_OFFLINE, uncertain=problem.uncertain
                ) from None
            raise

    return run_command(commands, work)


def erase_offline(commands: OperatorCommands, options: EraseOptions, offline: Erase) -> int:
    """Erase the content of a user in the file of the record and print the result. Returns the exit code."""

    def work() -> OperatorExit:
        try:
            return _erase(commands, options, offline)
        except SubagentsError as problem:
            raise CannotOperate(problem.message, OperatorExit.REFUSED, problem.reason) from None

    return with_errors(commands, work)


def _erase(commands: OperatorCommands, options: EraseOptions, erase: Erase) -> OperatorExit:
    # Counted first: the operator confirms a number, and open turns are reported before anything is erased.
    preview_report = erase(True)
    if options.preview or preview_report.open_turns:
        return _print_report(commands, options, preview_report)
    danger = (
        f"The content of {preview_report.turns} turns of {clean(options.principal)} and all conversations will be "
        "erased permanently."
    )
    confirm(commands, StepOptions(options.principal, options.reason, yes=options.yes), danger)
    # A turn of the user that began since the count stops the erasure; the report then lists it as open.
    return _print_report(commands, options, erase(False))


def _erase_at(client: OperatorClient, options: EraseOptions, *, preview: bool) -> ErasureReport:
    """Erase, or only count, through the sidecar; return the final report."""
    request = admin_pb2.EraseUserRequest(principal=options.principal, reason=options.reason, preview=preview)
    # Each message has the counts so far; the last one is the result.
    messages = list(client.messages("EraseUser", request, ERASING))
    if not messages:
        raise CannotOperate("the sidecar closed the stream without a result", OperatorExit.NOT_ASKED, uncertain=True)
    report = messages[-1]
    return ErasureReport(
        looked_at=report.turns_read,
        turns=report.turn_count,
        open_turns=tuple(TurnId(each) for each in report.open_turn_ids),
        facts=report.fact_count,
        conversations=report.conversation_count if report.HasField("conversation_count") else None,
        done=report.done,
    )


def _print_report(commands: OperatorCommands, options: EraseOptions, report: ErasureReport) -> OperatorExit:
    """Print a report; return the exit code that it means."""
    if commands.as_json:
        commands.write_json(
            {
                "turn_count": report.turns,
                "open_turns": list(report.open_turns),
                "fact_count": report.facts,
                "conversation_count": report.conversations,
                "done": report.done,
            }
        )
    else:
        commands.screen.show([[Part(line)] for line in lines_of(report, preview=options.preview)])
    # A script must not take "nothing was erased" for success.
    if report.open_turns:
        return OperatorExit.REFUSED
    return OperatorExit.PARTIAL if report.done and report.conversations is None else OperatorExit.DONE


def lines_of(report: ErasureReport, *, preview: bool) -> list[str]:
    """Return the lines about an erasure, or with `preview` about its extent."""
    if report.open_turns:
        which = ", ".join(clean(each) for each in report.open_turns)
        erased = f"{report.facts} facts were erased, then turns began" if report.facts else "nothing was erased"
        return [
            f"{erased}: {len(report.open_turns)} turns are open: {which}",
            "next: repeat the command once they have ended; `sidecar end-turn` ends a turn through a running sidecar",
        ]
    if preview:
        return [f"{report.turns} turns would lose their content, and all conversations would be removed"]
    lines = [f"erased the content of {report.turns} turns ({report.facts} facts)"]
    if report.conversations is None:
        lines.append("the episode memory cannot erase: remove the conversations in its own store")
    else:
        lines.append(f"removed {report.conversations} conversations")
    return lines
