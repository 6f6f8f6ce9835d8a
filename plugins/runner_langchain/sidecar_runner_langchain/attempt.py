"""What belongs to one attempt. It travels in LangGraph's config: nothing of a user's is in an agent that is kept."""

from dataclasses import dataclass, field
from typing import Any, Final

from langchain_core.tools import ToolException
from langgraph.config import get_config

from subagents_client.runner import Run

KEY: Final = "subagents_attempt"
"""In `configurable`. Its value is no plain scalar, which LangChain would copy into traces."""


@dataclass(slots=True)
class Attempt:
    """One attempt of one sub-agent, as its tools see it.

    Attributes:
        mistakes_left: tool calls that did not fit and may still be corrected.
        narrated: whether the answer's text was sent already, by the graph itself.
        without_data: the graph said that it had to answer without data.
    """

    run: Run
    mistakes_left: int
    narrated: bool = False
    without_data: bool = False
    _gave: dict[str, bool] = field(default_factory=dict)

    @property
    def data_unavailable(self) -> bool:
        """Whether some tool was asked for data and never gave any, or the graph says so."""
        return self.without_data or not all(self._gave.values())

    def note_data(self, tool_id: str, *, came: bool) -> None:
        """Remember how a data call ended; the order does not matter, since calls run at once."""
        self._gave[tool_id] = self._gave.get(tool_id, False) or came

    def mistake(self, tool_id: str, problem: str) -> ToolException:
        """Return what tells the model that its call did not fit: so that it corrects it, but not for ever."""
        self.mistakes_left -= 1
        if self.mistakes_left < 0:
            return ToolException(f"{problem}. Do not call {tool_id} again; answer with what you have.")
        return ToolException(f"{problem}. Correct the arguments and call {tool_id} again.")


def current_attempt() -> Attempt:
    """Return the attempt in whose graph this is called.

    Raises:
        LookupError: it is called elsewhere.
    """
    try:
        found: Any = get_config().get("configurable", {}).get(KEY)
    except RuntimeError:
        found = None
    if not isinstance(found, Attempt):
        raise LookupError("no attempt here: call this in a node or tool of a graph that the runtime runs")
    return found


def current_run() -> Run:
    """Return the run that a hosted graph works for: request, context, card, and the way to data.

    Raises:
        LookupError: it is called elsewhere.
    """
    return current_attempt().run
