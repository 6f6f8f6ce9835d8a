"""`sidecar end-turn`: end a turn that its parent does not end."""

from typing import Final

from sidecar.cli.output.drawing import Part, clean
from sidecar.cli.subagent.client import OperatorClient, OperatorExit
from sidecar.cli.subagent.steps import StepWish, confirm
from sidecar.cli.subagent.views import Operating, operated
from subagents.admin.v1 import admin_pb2 as pb

ENDING: Final = 30.0
"""Seconds: what runs in the turn is stopped, and all of it goes on record."""


def end_turn(operating: Operating, wish: StepWish) -> int:
    """End the turn that the wish names, and say what came of it; return the exit code."""
    danger = f"What runs in {clean(wish.name)} is stopped, and its parent cannot go on with it."

    def work(client: OperatorClient) -> OperatorExit:
        confirm(operating, wish, danger)
        request = pb.EndTurnRequest(turn_id=wish.name, reason=wish.reason)
        answer = client.ask("EndTurn", request, wish.name, ENDING)
        if operating.as_json:
            operating.write_json(
                {
                    "turn_id": wish.name,
                    "ended_before": answer.ended_before,
                    "close_reason": answer.close_reason,
                    "children": answer.children,
                }
            )
        else:
            when = "had ended before" if answer.ended_before else "has ended"
            said = f"{clean(wish.name)} {when}: {clean(answer.close_reason)}; children: {answer.children}"
            operating.screen.show([[Part(said)]])
        return OperatorExit.DONE

    return operated(operating, work)
