"""Keeps what ended turns leave, beside their results and without delaying them. Source: PC1-D-12, DESIGN section 7.

A turn is put into a bounded queue when its end is on record; one task at a time hands the queue to the episode memory,
in order. What cannot be kept is counted and logged: history never fails a turn.
"""

from collections import deque
from datetime import datetime
from itertools import count

from sidecar.core.errors import SubagentsError
from sidecar.core.history.records import EpisodeKey, SubAgentAnswer, ToolMessage, TurnHistory
from sidecar.operations.children import Child
from sidecar.operations.endings import Ending
from sidecar.operations.episode_facts import CompactionFacts
from sidecar.operations.memory_border import MemoryBorder
from sidecar.operations.ports import Recorder, Spawner
from sidecar.operations.turns import Turn


class HistoryCapture:
    """The queue of ended turns.

    Args:
        most: longest queue; a turn that finds it full is lost.
    """

    def __init__(
        self, memory: MemoryBorder, facts: CompactionFacts, outside: tuple[Spawner, Recorder], most: int
    ) -> None:
        """Begin with nothing to keep."""
        self._memory = memory
        self._facts = facts
        self._spawner, self._recorder = outside
        self._most = most
        self._queue: deque[tuple[TurnHistory, Ending[None]]] = deque()
        self._last_of: dict[EpisodeKey, Ending[None]] = {}
        self._working: Ending[None] | None = None

    @property
    def waiting(self) -> int:
        """How many turns wait to be kept, the one under way not counted."""
        return len(self._queue)

    def capture(self, history: TurnHistory) -> None:
        """Have a turn kept soon; returns at once, and never raises."""
        if len(self._queue) >= self._most:
            self._recorder.anomaly("history_lost", "the queue of ended turns is full")
            return
        kept: Ending[None] = Ending()
        self._queue.append((history, kept))
        self._last_of[history.episode] = kept
        self._facts.expect(history)
        if self._working is None:
            self._working = Ending()
            self._spawner.spawn(self._work(self._working), "keep history")

    async def settled(self, episode: EpisodeKey) -> None:
        """Wait until what was captured of an episode so far is kept, or given up."""
        last = self._last_of.get(episode)
        if last is not None:
            await last.wait()

    async def idle(self) -> None:
        """Wait until nothing is left to keep."""
        while self._working is not None:
            await self._working.wait()

    async def _work(self, working: Ending[None]) -> None:
        try:
            while self._queue:
                history, kept = self._queue.popleft()
                try:
                    await self._keep(history)
                finally:
                    if self._last_of.get(history.episode) is kept:
                        del self._last_of[history.episode]
                    kept.settle(None)
        finally:
            self._give_up()
            self._working = None
            working.settle(None)

    async def _keep(self, history: TurnHistory) -> None:
        try:
            self._facts.sized(history.episode, await self._memory.append(history))
        except SubagentsError as error:
            self._facts.forget(history.episode)
            self._recorder.anomaly("history_lost", f"{history.turn_id}: {error.reason}")

    def _give_up(self) -> None:
        """Say what is lost when the work is stopped before its end; otherwise the queue is empty here."""
        if self._queue:
            self._recorder.anomaly("history_lost", f"{len(self._queue)} turns were not kept before the stop")
        for history, kept in self._queue:
            self._last_of.pop(history.episode, None)
            kept.settle(None)
        self._queue.clear()


def history_of(turn: Turn, ended_at: datetime, narration: str, user_message: str) -> TurnHistory:
    """Return what a turn leaves: narration, the answers of its sub-agents, their components as tool messages."""
    children = sorted(turn.children.values(), key=lambda child: child.step_idx)
    answered = [child for child in children if child.outcome is not None and _has_answer(child)]
    prompts = [dispatch.request.task_prompt for dispatch in turn.dispatches.values() if dispatch.request.task_prompt]
    return TurnHistory(
        episode=EpisodeKey(turn.claims.episode_id, turn.claims.principal),
        turn_id=turn.turn_id,
        ended_at=ended_at,
        user_message=user_message or (prompts[-1] if prompts else ""),
        narration=narration,
        answers=tuple(_answer_of(child) for child in answered),
        tool_messages=_tool_messages(turn, answered),
    )


def _has_answer(child: Child) -> bool:
    answer = child.outcome.answer if child.outcome else None
    return answer is not None and bool(answer.narration or answer.components)


def _answer_of(child: Child) -> SubAgentAnswer:
    narration = child.outcome.answer.narration if child.outcome else ""
    return SubAgentAnswer(child.slot, child.call_id, child.contract.step.description, narration)


def _tool_messages(turn: Turn, children: list[Child]) -> tuple[ToolMessage, ...]:
    places = count()
    return tuple(
        ToolMessage(
            turn_id=turn.turn_id,
            sub_agent_id=child.slot,
            call_id=child.call_id,
            position=next(places),
            name=component.name,
            tool_input_json=component.tool_input_json,
            component_data_json=component.component_data_json,
        )
        for child in children
        if child.outcome is not None
        for component in child.outcome.answer.components
    )
