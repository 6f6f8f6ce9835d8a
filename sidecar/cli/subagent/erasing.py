"""`sidecar erase`: erase the content of one user, through the running sidecar."""

from dataclasses import dataclass
from typing import Any, Final

from sidecar.cli.output.drawing import Part, clean
from sidecar.cli.subagent.client import CannotOperate, OperatorClient, OperatorExit
from sidecar.cli.subagent.steps import StepWish, confirm
from sidecar.cli.subagent.views import Operating, operated
from subagents.admin.v1 import admin_pb2

ERASING: Final = 3600.0
"""Seconds: a database file is written anew."""


@dataclass(frozen=True, slots=True)
class EraseWish:
    """Whose content, and why."""

    principal: str
    reason: str
    preview: bool = False
    yes: bool = False


def erase(operating: Operating, wish: EraseWish) -> int:
    """Have the content of a user erased, and say what came of it; return the exit code."""

    def work(client: OperatorClient) -> OperatorExit:
        found = _last(client, wish, preview=True)
        if wish.preview or found.open_turn_ids:
            return _told(operating, wish, found)
        danger = f"The content of {found.turns} turns of {clean(wish.principal)}, and all conversations, go for good."
        confirm(operating, StepWish(wish.principal, wish.reason, yes=wish.yes), danger)
        return _told(operating, wish, _last(client, wish, preview=False))

    return operated(operating, work)


def _last(client: OperatorClient, wish: EraseWish, *, preview: bool) -> Any:
    request = admin_pb2.EraseUserRequest(principal=wish.principal, reason=wish.reason, preview=preview)
    told = list(client.messages("EraseUser", request, ERASING))
    if not told:
        raise CannotOperate("the sidecar ended without a word", OperatorExit.NOT_ASKED, uncertain=True)
    return told[-1]


def _told(operating: Operating, wish: EraseWish, told: Any) -> OperatorExit:
    conversations = told.conversations if told.HasField("conversations") else None
    if operating.as_json:
        operating.write_json(
            {
                "turns": told.turns,
                "open_turns": list(told.open_turn_ids),
                "facts": told.facts,
                "conversations": conversations,
                "done": told.done,
            }
        )
    else:
        operating.screen.show([[Part(line)] for line in lines_of(told, conversations, preview=wish.preview)])
    if told.open_turn_ids:
        return OperatorExit.REFUSED
    return OperatorExit.PARTIAL if told.done and conversations is None else OperatorExit.DONE


def lines_of(told: Any, conversations: int | None, *, preview: bool) -> list[str]:
    """Return what to say of an erasure, or of what would be erased."""
    if told.open_turn_ids:
        which = ", ".join(clean(each) for each in told.open_turn_ids)
        said = f"nothing was erased: {len(told.open_turn_ids)} turns are open: {which}"
        return [said, "next: run this again once they have ended; `sidecar end-turn` ends one"]
    if preview:
        return [f"{told.turns} turns would lose their content, and all conversations would go"]
    lines = [f"erased the content of {told.turns} turns ({told.facts} facts)"]
    if conversations is None:
        lines.append("the episode memory cannot erase: remove the conversations where they are kept")
    else:
        lines.append(f"removed {conversations} conversations")
    return lines
