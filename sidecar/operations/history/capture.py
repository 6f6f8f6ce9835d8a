"""Stores the conversations of ended turns in the background, so that no result of a turn waits for the memory.

Source: PC1-D-12, DESIGN section 7.

A turn enters a bounded queue when its end is recorded. One task passes the queue to the episode memory. If the memory
is unavailable, the task retries at growing intervals as long as the process runs. The turns of one episode stay in
order, and a turn that cannot be stored delays no other episode. Turns that are not stored when the process ends, or
that do not fit into the queue, are in the record: `catch_up` finds them there. History never fails a turn. Source:
PC1-FR-9a.
"""

import asyncio
from collections import deque
from datetime import datetime
from operator import attrgetter
from typing import Final

import msgspec

from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.errors import MemoryUnavailable, StoreUnavailable, SubagentsError
from sidecar.core.executing.contract import contract_from_json
from sidecar.core.executing.stored_record import StoredTurn
from sidecar.core.history.records import EpisodeKey, SubAgentAnswer, ToolMessage, TurnHistory
from sidecar.core.identifiers import CallId, Slot, TurnId
from sidecar.operations.first_result import FirstResult
from sidecar.operations.history.episode_facts import CompactionFacts
from sidecar.operations.history.memory_boundary import BoundedMemory
from sidecar.operations.ports import Recorder, Spawner
from sidecar.operations.turn.state.child import ANSWERED
from sidecar.operations.turn.state.open_turns import Turn
from sidecar.operations.turn.state.opening_records import request_from_json

FIRST_WAIT: Final = 0.1
LONGEST_WAIT: Final = 10.0
"""Seconds before an unavailable memory is called again: the first time, and at most."""
LOST: Final = "history_lost"
"""The anomaly of a turn whose history is not stored, now or later."""
DEFERRED: Final = "history_deferred"
"""The anomaly of a turn whose history is to be read from the record later."""
IN_EMISSION_ORDER: Final = attrgetter("step_idx")

Waiting = tuple[TurnHistory, FirstResult[None]]
"""A queued turn, and the result that settles when the turn is stored or dropped."""
Answered = tuple[Slot, CallId, str, CallOutcome]
"""A sub-agent, its call, the request, and the outcome."""


class HistoryCapture:
    """The queue of ended turns.

    Args:
        most: the longest queue. A turn that does not fit is read from the record later.
        durable: the record outlives the process, so that a turn in the queue is not lost with it.

    Attributes:
        missed: settles when a turn did not fit into the queue. `catch_up` waits for it, and then sets a new one.
    """

    def __init__(
        self,
        memory: BoundedMemory,
        facts: CompactionFacts,
        *,
        spawner: Spawner,
        recorder: Recorder,
        most: int,
        durable: bool = False,
    ) -> None:
        """Begin with an empty queue."""
        self._memory = memory
        self._facts = facts
        self._spawner, self._recorder = spawner, recorder
        self._most = most
        self._durable = durable
        self._queue: deque[Waiting] = deque()
        self._last_of: dict[EpisodeKey, FirstResult[None]] = {}
        """The result of the newest queued turn of each episode."""
        self._working: FirstResult[None] | None = None
        self._current: Waiting | None = None
        self.missed: FirstResult[None] = FirstResult()

    @property
    def waiting(self) -> int:
        """The number of turns in the queue, without the one that is being stored."""
        return len(self._queue)

    def capture(self, history: TurnHistory) -> None:
        """Put a turn into the queue. Does not wait and never raises."""
        # Dropped here and not refused: a turn must not fail because of its history, and the record has it.
        if len(self._queue) >= self._most:
            self._recorder.anomaly(DEFERRED, "the queue of ended turns is full; they are looked for on record later")
            self.missed.settle(None)
            return
        # The size is updated before the turn is stored: the next bind, which may come at once, decides on compaction
        # with it.
        self._facts.expect(history)
        self._put(history)

    async def again(self, history: TurnHistory) -> None:
        """Store a turn that may be stored already; returns when it is stored or dropped."""
        # The first pass over the record may find a turn of this process that ended before the pass and is still in the
        # queue. A second entry would be counted as a second lost turn when the process stops. `most` does not apply:
        # the catch-up waits for each turn before it puts the next one into the queue.
        await (self._entry_of(history.turn_id) or self._put(history)).wait()

    def note_unreadable(self, turn_id: TurnId, why: StoreUnavailable) -> None:
        """Report a recorded turn that cannot be stored because this sidecar cannot read it."""
        self._recorder.anomaly(DEFERRED, f"{turn_id}: {why}")

    async def settled(self, episode: EpisodeKey) -> None:
        """Wait until the captured turns of an episode are stored or dropped."""
        last = self._last_of.get(episode)
        if last is not None:
            await last.wait()

    async def idle(self) -> None:
        """Wait until the queue is empty."""
        # Again after each worker: a turn that was captured meanwhile has started another one.
        while self._working is not None:
            await self._working.wait()

    def give_up(self) -> None:
        """Drop the queue, because the process stops. With a durable record, the next process finds the turns there."""
        current = [self._current] if self._current else []
        left, self._current = [*current, *self._queue], None
        self._queue.clear()
        # Settled, although nothing is stored: otherwise readers of these episodes would wait until their time limit.
        for history, settled in left:
            consequence = "the next start finds it on record" if self._durable else "it was not kept before the stop"
            self._recorder.anomaly(DEFERRED if self._durable else LOST, f"{history.turn_id}: {consequence}")
            self._done(history, settled)

    def _entry_of(self, turn_id: TurnId) -> FirstResult[None] | None:
        """Return the result that settles when a queued turn is stored or dropped; None if the turn is not queued."""
        current = [self._current] if self._current else []
        return next((settled for history, settled in [*current, *self._queue] if history.turn_id == turn_id), None)

    def _put(self, history: TurnHistory) -> FirstResult[None]:
        """Queue a turn, and start the worker if none runs; return the result that settles when the turn is over."""
        settled: FirstResult[None] = FirstResult()
        self._queue.append((history, settled))
        self._last_of[history.episode] = settled  # replaces the earlier one: turns of an episode are stored in order
        # One worker: it keeps the turns of an episode in order without locks.
        if self._working is None:
            self._working = FirstResult()
            self._spawner.spawn(self._work(self._working), "keep history")
        return settled

    async def _work(self, working: FirstResult[None]) -> None:
        wait = FIRST_WAIT
        try:
            while self._queue:
                self._current = entry = self._queue.popleft()
                if await self._keep(entry[0]):
                    self._current, wait = None, FIRST_WAIT
                    self._done(*entry)
                    continue
                self._step_back()
                await asyncio.sleep(wait)
                # The turns stay in the queue during the wait. More frequent attempts would burden a memory that is
                # recovering.
                wait = min(2 * wait, LONGEST_WAIT)
        finally:
            self.give_up()  # drops nothing unless this task was cancelled
            self._working = None
            working.settle(None)

    async def _keep(self, history: TurnHistory) -> bool:
        """Try to store a turn once; return False if another try makes sense."""
        try:
            self._facts.sized(history.episode, await self._memory.append(history))
        except MemoryUnavailable:
            return False
        except SubagentsError as error:
            # The cached size includes the turn that the memory has refused.
            self._facts.forget(history.episode)
            self._recorder.anomaly(LOST, f"{history.turn_id}: {error.reason}")
        return True

    def _step_back(self) -> None:
        """Move the current turn, and after it all queued turns of its episode, behind those of other episodes.

        Thereby the turns of one episode stay in order, and a turn that cannot be stored delays no other episode.
        """
        if self._current is None:  # `give_up` was called during the attempt
            return
        episode = self._current[0].episode
        others = [each for each in self._queue if each[0].episode != episode]
        same = [each for each in self._queue if each[0].episode == episode]
        self._queue = deque([*others, self._current, *same])
        self._current = None

    def _done(self, history: TurnHistory, settled: FirstResult[None]) -> None:
        if self._last_of.get(history.episode) is settled:  # no newer turn of the episode was queued since
            del self._last_of[history.episode]
        settled.settle(None)


def history_of(turn: Turn, ended_at: datetime, narration: str, user_message: str) -> TurnHistory:
    """Return the history of a turn: narration, answers of its sub-agents, components as tool messages."""
    children = sorted(turn.children.values(), key=IN_EMISSION_ORDER)
    answered = [
        (child.slot, child.call_id, child.contract.step.description, child.outcome)
        for child in children
        # Without delegated children: their results are part of the delegating sub-agent's answer.
        if child.outcome is not None and child.contract.parent_child_id is None
    ]
    # The consumer-agent may send no user message. The prompt of the last dispatch is the nearest to it.
    prompts = [dispatch.request.task_prompt for dispatch in turn.dispatches.values()]
    episode = EpisodeKey(turn.claims.episode_id, turn.claims.principal)
    history = TurnHistory(episode, turn.turn_id, ended_at, user_message or _last(prompts), narration)
    return _with_answers(history, answered)


def history_on_record(turn: StoredTurn) -> TurnHistory | None:
    """Return the history of a recorded turn; None if the turn has not ended or its texts were erased."""
    if turn.ended is None or not turn.ended.principal:
        return None
    ended, outcomes = turn.ended, {each.child_id: each for dispatch in turn.dispatches for each in dispatch.outcomes}
    answered = []
    for child in sorted(turn.children, key=lambda child: child.opened.step_idx):
        outcome = outcomes.get(child.opened.child_id)
        if outcome is not None:  # a delegated child has no call of the orchestrator, and thus no outcome here
            request = contract_from_json(child.opened.context_json).step.description
            answered.append((child.opened.slot, child.opened.call_id, request, outcome))
    prompts = [request_from_json(each.opened.request_json, "").task_prompt for each in turn.dispatches]
    episode = EpisodeKey(ended.episode_id, ended.principal)
    question = ended.user_message or _last(prompts)
    return _with_answers(TurnHistory(episode, ended.turn_id, ended.ended_at, question, ended.narration), answered)


def _last(prompts: list[str]) -> str:
    """Return the last prompt that is not empty; empty if there is none."""
    given = [prompt for prompt in prompts if prompt]
    return given[-1] if given else ""


def _with_answers(history: TurnHistory, answered: list[Answered]) -> TurnHistory:
    answers: list[SubAgentAnswer] = []
    messages: list[ToolMessage] = []
    for slot, call_id, request, outcome in answered:
        answer = outcome.answer
        # A failed call has as `answer` what the sub-agent sent before the failure, for diagnosis: a later prompt must
        # not contain it.
        if outcome.outcome not in ANSWERED or not (answer.narration or answer.components):
            continue
        answers.append(SubAgentAnswer(slot, call_id, request, answer.narration))
        for component in answer.components:
            messages.append(
                ToolMessage(
                    turn_id=history.turn_id,
                    sub_agent_id=slot,
                    call_id=call_id,
                    position=len(messages),
                    name=component.name,
                    tool_input_json=component.tool_input_json,
                    component_data_json=component.component_data_json,
                )
            )
    return msgspec.structs.replace(history, answers=tuple(answers), tool_messages=tuple(messages))
