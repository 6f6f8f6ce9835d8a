"""`sidecar erase`: erase the content of one user, through the running sidecar or in the file of the record."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sidecar.cli.output.drawing import Part, clean
from sidecar.cli.subagent.client import CannotOperate, OperatorClient, OperatorExit
from sidecar.cli.subagent.steps import StepWish, confirm
from sidecar.cli.subagent.views import OperatorCommands, guarded, operated
from sidecar.core.errors import SubagentsError
from sidecar.core.identifiers import TurnId
from sidecar.operations.record.erase_user import ErasureReport
from subagents.admin.v1 import admin_pb2

ERASING: Final = 3600.0
"""Seconds: a database file is written anew."""
HOW_TO_ERASE_OFFLINE: Final = "if no sidecar runs on this SQLite record, --offline erases in its file"


@dataclass(frozen=True, slots=True)
class EraseWish:
    """Whose content, and why."""

    principal: str
    reason: str
    preview: bool = False
    yes: bool = False


Erase = Callable[[bool], ErasureReport]
"""Erases, or only counts if it is given True; returns what it came to."""


def erase(operating: OperatorCommands, wish: EraseWish) -> int:
    """Have the content of a user erased by the sidecar, and print the result; return the exit code."""

    def work(client: OperatorClient) -> OperatorExit:
        try:
            return _erase(operating, wish, lambda preview: _last(client, wish, preview=preview))
        except CannotOperate as problem:
            if problem.code is OperatorExit.NOT_ASKED and problem.uncertain and not problem.reason:
                raise CannotOperate(
                    problem.said, problem.code, advice=HOW_TO_ERASE_OFFLINE, uncertain=problem.uncertain
                ) from None
            raise

    return operated(operating, work)


def erase_offline(operating: OperatorCommands, wish: EraseWish, offline: Erase) -> int:
    """Erase the content of a user in the file of the record, and print the result; return the exit code."""

    def work() -> OperatorExit:
        try:
            return _erase(operating, wish, offline)
        except SubagentsError as problem:
            raise CannotOperate(problem.message, OperatorExit.REFUSED, problem.reason) from None

    return guarded(operating, work)


def _erase(operating: OperatorCommands, wish: EraseWish, erase: Erase) -> OperatorExit:
    found = erase(True)
    if wish.preview or found.open_turns:
        return _told(operating, wish, found)
    danger = f"The content of {found.turns} turns of {clean(wish.principal)}, and all conversations, go for good."
    confirm(operating, StepWish(wish.principal, wish.reason, yes=wish.yes), danger)
    return _told(operating, wish, erase(False))


def _last(client: OperatorClient, wish: EraseWish, *, preview: bool) -> ErasureReport:
    request = admin_pb2.EraseUserRequest(principal=wish.principal, reason=wish.reason, preview=preview)
    news = list(client.messages("EraseUser", request, ERASING))
    if not news:
        raise CannotOperate("the sidecar ended without a word", OperatorExit.NOT_ASKED, uncertain=True)
    told = news[-1]
    return ErasureReport(
        looked_at=told.turns_read,
        turns=told.turn_count,
        open_turns=tuple(TurnId(each) for each in told.open_turn_ids),
        facts=told.fact_count,
        conversations=told.conversation_count if told.HasField("conversation_count") else None,
        done=told.done,
    )


def _told(operating: OperatorCommands, wish: EraseWish, told: ErasureReport) -> OperatorExit:
    if operating.as_json:
        operating.write_json(
            {
                "turn_count": told.turns,
                "open_turns": list(told.open_turns),
                "fact_count": told.facts,
                "conversation_count": told.conversations,
                "done": told.done,
            }
        )
    else:
        operating.screen.show([[Part(line)] for line in lines_of(told, preview=wish.preview)])
    if told.open_turns:
        return OperatorExit.REFUSED
    return OperatorExit.PARTIAL if told.done and told.conversations is None else OperatorExit.DONE


def lines_of(told: ErasureReport, *, preview: bool) -> list[str]:
    """Return what to print of an erasure, or of what would be erased."""
    if told.open_turns:
        which = ", ".join(clean(each) for each in told.open_turns)
        erased = f"{told.facts} facts were erased, then turns began" if told.facts else "nothing was erased"
        return [
            f"{erased}: {len(told.open_turns)} turns are open: {which}",
            "next: run this again once they have ended; `sidecar end-turn` ends one through a running sidecar",
        ]
    if preview:
        return [f"{told.turns} turns would lose their content, and all conversations would go"]
    lines = [f"erased the content of {told.turns} turns ({told.facts} facts)"]
    if told.conversations is None:
        lines.append("the episode memory cannot erase: remove the conversations where they are kept")
    else:
        lines.append(f"removed {told.conversations} conversations")
    return lines
