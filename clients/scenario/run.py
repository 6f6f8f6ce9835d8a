"""Plays a scenario with the Python SDK: `python run.py SCENARIO SOCKET SECRET_FILE CONTROL [--plain]`.

See README.md for the steps and lines.
"""

import asyncio
import json
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from subagents_client import (
    BoundTurn,
    DispatchContext,
    DispatchResult,
    OnDisconnect,
    Question,
    SidecarClient,
    StatusUpdate,
    ToolCall,
    TurnRequest,
)


async def cut(control: str) -> None:
    """Ask for the connection to the sidecar to be cut, and wait until it is."""
    reader, writer = await asyncio.open_unix_connection(control)
    await reader.read()
    writer.close()


def show_outcomes(result: DispatchResult) -> None:
    """Print how each call ended."""
    for one in result.outcomes:
        if one.question is not None:
            print("question", one.call_id, one.question.kind.upper(), one.question.text)
            continue
        reason = one.status.reason.upper() if one.status else "-"
        print("outcome", one.call_id, one.outcome.upper(), reason, one.tool_message())


def call_of(call: Mapping[str, Any], questions: Mapping[str, Question]) -> ToolCall:
    """Return a call of the scenario; one that approves brings the receipt of the question."""
    answering = questions[call["approves"]].approved() if "approves" in call else None
    return ToolCall(call["id"], call["tool"], json.dumps({"request": call["request"]}), answering=answering)


async def dispatch(
    turn: BoundTurn, step: Mapping[str, Any], control: str, questions: MutableMapping[str, Question]
) -> None:
    """Play one dispatch, and keep the questions that sub-agents ask."""
    calls = [call_of(call, questions) for call in step["calls"]]
    context = DispatchContext(on_disconnect=OnDisconnect.CONTINUE)
    dispatch_id = f"{step['dispatch']}-{uuid4()}"
    async with turn.dispatch(calls, context, dispatch_id=dispatch_id) as stream:
        async for event in stream:
            if not isinstance(event, StatusUpdate):
                continue
            print("status", event.type, ",".join(event.sub_agent_ids))
            for action in step["when"]:
                if action["status"] == event.type and action["do"] == "cut":
                    await cut(control)
                    print("cut")
                elif action["status"] == event.type and action["do"] == "cancel":
                    cancelled = await turn.cancel_call(dispatch_id, action["call"])
                    print("cancelled", action["call"], str(cancelled).lower())
        result = await stream.result()
    questions |= result.questions()
    show_outcomes(result)


async def main(scenario: str, socket: str, secret: str, control: str, *options: str) -> None:
    """Play the scenario."""
    steps = json.loads(Path(scenario).read_text("utf-8"))["steps"]  # noqa: ASYNC240 - nothing else runs yet
    lane = "--plain" not in options
    episode_id, questions = f"episode-{uuid4()}", dict[str, Question]()
    async with SidecarClient.connect(f"unix:{socket}", boot_secret_file=secret, session_lane=lane) as sidecar:
        for step in steps:
            match step["do"]:
                case "bind":
                    request = TurnRequest(principal=step["principal"], episode_id=episode_id, locale=step["locale"])
                    turn = await sidecar.bind_turn(request)
                    tools = ",".join(tool.name for tool in turn.surface.sub_agent_tools)
                    print("bound", tools, "cap", turn.surface.fan_out_cap)
                case "dispatch":
                    await dispatch(turn, step, control, questions)
                case "end":
                    ended = await turn.end(step["narration"])
                    for child in ended.children:
                        print("ended", child.sub_agent_id, child.final_status.lower())
                    print("gate", "passed" if ended.gate_passed else "failed")
                case other:
                    raise ValueError(f"no step {other!r}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
