"""Decides which of a turn's waiting calls may run now.

A call runs as soon as nothing that came before it owns something in common and its dispatch has a parallel place free.
Different sub-agents own different things unless their cards say otherwise (TN-21); two calls to the same sub-agent
always share its slot, so they run one after the other (TN-17).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sidecar.core.executing.contract import overlaps


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call that wants to run.

    Attributes:
        key: unique in the turn.
        group: the dispatch it belongs to.
        parallel: most calls of the group that may run at the same time; at least 1.
    """

    key: str
    group: str
    parallel: int
    boundaries: tuple[str, ...]


class Lanes:
    """The calls of one turn that wait or run, in order of arrival."""

    def __init__(self) -> None:
        """Begin empty."""
        self._waiting: list[Waiting] = []
        self._running: list[Waiting] = []

    @property
    def occupied(self) -> int:
        """Calls that wait or run: what the cap counts."""
        return len(self._waiting) + len(self._running)

    def enter(self, calls: Sequence[Waiting]) -> None:
        """Let calls wait, behind those that already do."""
        self._waiting.extend(calls)

    def leave(self, key: str) -> None:
        """Forget a call that has ended, or that gave up waiting. Unknown keys are ignored."""
        self._waiting = [call for call in self._waiting if call.key != key]
        self._running = [call for call in self._running if call.key != key]

    def start_ready(self) -> tuple[str, ...]:
        """Move every call that may run now to the running ones and return their keys, in order of arrival."""
        started: list[Waiting] = []
        passed_over: list[Waiting] = []
        for call in self._waiting:
            if self._is_free(call, passed_over):
                self._running.append(call)
                started.append(call)
            else:
                passed_over.append(call)
        self._waiting = passed_over
        return tuple(call.key for call in started)

    def _is_free(self, call: Waiting, passed_over: Sequence[Waiting]) -> bool:
        """An earlier call that still waits goes first, so that nobody is overtaken by somebody of his own lane."""
        in_group = sum(1 for other in self._running if other.group == call.group)
        before = (*self._running, *passed_over)
        return in_group < call.parallel and not any(overlaps(other.boundaries, call.boundaries) for other in before)
