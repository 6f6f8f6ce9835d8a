"""What the model is shown of a run, and what of the end is the answer."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from sidecar_runner_langchain.history import PastTurn
from subagents_client.runner import Run


def messages_for(run: Run, turns: Sequence[PastTurn]) -> list[AnyMessage]:
    """Return the messages after the system prompt: own earlier turns, then what is asked now.

    What differs per turn stands here and never in the prompt's prefix. Source: PC1-FR-7a, PC1-FR-8, PC1-D-22.
    """
    earlier: list[AnyMessage] = []
    for turn in turns:
        earlier += [HumanMessage(turn.asked), AIMessage(turn.answered)]
    return [*earlier, HumanMessage(_asked(run))]


def narration_of(state: Any) -> str:
    """Return the text of the last message if a model wrote it; components are not in it. Source: PC1-FR-10a."""
    messages = state.get("messages") if isinstance(state, Mapping) else None
    last = messages[-1] if messages else None
    return str(last.text) if isinstance(last, AIMessage) else ""


def _asked(run: Run) -> str:
    context = run.context
    others = {name: value for name, value in run.arguments.items() if name not in {"request", "intent_count"}}
    parts = {
        "prior_context": context.prior_context,
        "user_message": context.task_prompt,
        "arguments": json.dumps(others, ensure_ascii=False) if others else "",
    }
    framed = [f"<{name}>\n{text}\n</{name}>" for name, text in parts.items() if text]
    return "\n\n".join([*framed, run.request] if run.request else framed)
