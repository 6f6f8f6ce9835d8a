"""The running calls of a turn, one line each, redrawn in place."""

from collections.abc import Sequence
from typing import Final

from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from examples.demo.timeline import OUTCOME_MARK, OUTCOME_STYLE, SLOT_STYLE
from subagents_client import CallState, CallStateChanged, Outcome

LABEL: Final = 11
"""Characters before what is said."""
ENDS: Final = {
    Outcome.SUCCEEDED: "answered",
    Outcome.DEGRADED: "answered without the data it needed",
    Outcome.FAILED: "failed",
    Outcome.DROPPED: "dropped: more calls than the cap allows",
}


class CallBoard:
    """The running calls, one line each, redrawn in place."""

    def __init__(self) -> None:
        self._slots: dict[str, str] = {}
        self._words: dict[str, str] = {}
        self._ended: dict[str, Outcome] = {}
        self._spinner = Spinner("dots")

    def add(self, call_id: str, slot: str) -> None:
        """Add a line."""
        self._slots[call_id] = slot
        self._words[call_id] = "waiting"

    def status(self, words: str, slots: Sequence[str], only_call: str) -> None:
        """Show what a sub-agent, or several, are doing; `only_call`: in this call of theirs, empty: in all."""
        for call_id, slot in self._slots.items():
            if only_call == call_id or (not only_call and slot in slots):
                self._words[call_id] = words

    def not_run(self, call_id: str) -> None:
        """Show that a call was settled before anything ran."""
        self._words[call_id] = "not run"

    def state(self, event: CallStateChanged) -> None:
        """Show that a call began or ended."""
        if event.state is CallState.RUNNING:
            self._words[event.call_id] = "thinking"
        elif event.outcome is not None:
            self._ended[event.call_id] = event.outcome.outcome

    def __rich__(self) -> Table:
        """Return the lines as they are now."""
        table = Table.grid(padding=(0, 1))
        for call_id, slot in self._slots.items():
            outcome = self._ended.get(call_id)
            words = ENDS.get(outcome, str(outcome)) if outcome else self._words[call_id]
            still = Text(OUTCOME_MARK.get(outcome, "·"), OUTCOME_STYLE.get(outcome, "")) if outcome else Text("·")
            mark = self._spinner if outcome is None and words != "not run" else still
            table.add_row(
                " " * (LABEL - 1), Text(f"{slot:<8}", SLOT_STYLE.get(slot, "white")), mark, Text(words, "dim")
            )
        return table
