"""Reads stored conversations: an orchestrator's episode, a sub-agent's own turns.

The orchestrator reads through `ReadEpisode`; a sub-agent reads through the tool gateway, with the grant of its
attempt. Both first wait briefly for turns that are just being stored.

Source: PC1-FR-7, PC1-FR-10, TN-11.
"""

import asyncio
from enum import StrEnum, unique

import msgspec

from sidecar.core.errors import GrantSpent, MemoryUnavailable
from sidecar.core.history.compaction import after_summary
from sidecar.core.history.isolation import only_own
from sidecar.core.history.message_layers import newest_that_fit
from sidecar.core.history.records import EpisodeKey, EpisodeSize, OwnTurn, Summary, TurnHistory
from sidecar.operations.history.capture import HistoryCapture
from sidecar.operations.history.catch_up import HistoryCatchUp
from sidecar.operations.history.memory_boundary import BoundedMemory
from sidecar.operations.ports import Recorder
from sidecar.operations.rules import HistoryRules
from sidecar.operations.turn.state.grants import GrantTable
from sidecar.operations.turn.state.open_turns import Turns


@unique
class EpisodeView(StrEnum):
    """How much of an episode is read."""

    NARRATION = "narration"
    """What a model may be given; no tool messages. Source: PC1-D-26."""
    FULL = "full"
    """Tool messages too, and turns that the summary replaces; for replay and audit."""


class ReadEpisodeRequest(msgspec.Struct, frozen=True):
    """Ask for an episode; `max_turns` is the most turns, 0: as many as the operator allows."""

    episode: EpisodeKey
    view: EpisodeView = EpisodeView.NARRATION
    max_turns: int = 0


class EpisodeRead(msgspec.Struct, frozen=True):
    """The stored part of an episode.

    Attributes:
        turns: oldest first, without a gap up to the newest; with the view NARRATION only those after the summary.
        left_out: older turns that belong to the answer but did not fit.
    """

    summary: Summary | None
    turns: tuple[TurnHistory, ...]
    left_out: int
    size: EpisodeSize
    view: EpisodeView


class HistoryAccess(msgspec.Struct, frozen=True):
    """The dependencies that the operations on history share."""

    rules: HistoryRules
    memory: BoundedMemory
    captures: HistoryCapture
    recorder: Recorder
    catch_up: HistoryCatchUp

    async def up_to_date(self, episode: EpisodeKey) -> None:
        """Wait briefly for turns that are being stored. Raises `MemoryUnavailable`."""
        try:
            async with asyncio.timeout(self.rules.timeout.total_seconds()):
                # In this order: the first pass may put turns of the episode into the queue.
                await self.catch_up.looked()
                await self.captures.settled(episode)
        except TimeoutError:
            raise MemoryUnavailable("the last turn of the episode is not kept yet; ask again") from None


class ReadEpisode:
    """The operation of the consumer-agent."""

    def __init__(self, history: HistoryAccess) -> None:
        self._history = history

    async def __call__(self, request: ReadEpisodeRequest) -> EpisodeRead:
        """Read an episode. Raises `MemoryUnavailable`."""
        rules, memory = self._history.rules, self._history.memory
        # The previous turn may still be in the queue; the model must know what the user was told a moment ago.
        await self._history.up_to_date(request.episode)
        contents = await memory.read(request.episode, rules.episode_turns)
        # After the turns: a turn that is stored in between is counted in `left_out` rather than missed.
        size = await memory.size(request.episode)
        whole = request.view is EpisodeView.FULL
        turns = contents.turns if whole else tuple(after_summary(contents.turns, contents.summary))
        shown = turns if whole else tuple(_without_payloads(turn) for turn in turns)
        most = min(request.max_turns or rules.episode_turns, rules.episode_turns)
        fitting = newest_that_fit(shown, most, rules.answer_bytes, _weight_of)
        total = contents.kept if whole else size.turns  # `size` counts only the turns after the summary
        return EpisodeRead(contents.summary, fitting, max(0, total - len(fitting)), size, request.view)


class ReadOwnTurns:
    """Reads history for sub-agents. The grant alone decides whose turns are read, not the request."""

    def __init__(self, history: HistoryAccess, grants: GrantTable, turns: Turns) -> None:
        self._history = history
        self._grants = grants
        self._turns = turns

    async def __call__(self, grant: str, max_turns: int = 0) -> tuple[OwnTurn, ...]:
        """Return what the sub-agent of a running attempt answered in earlier turns of its session, oldest first.

        Raises:
            GrantInvalid, GrantSpent, MemoryUnavailable.
        """
        child = self._grants.claim(grant).child
        turn = self._turns.known(child.log.run_id)
        if turn is None:
            raise GrantSpent("the turn that this grant was for is over; stop calling tools")
        episode, rules = EpisodeKey(turn.claims.episode_id, child.principal), self._history.rules
        await self._history.up_to_date(episode)
        most = min(max_turns or rules.own_turns, rules.own_turns)
        found = await self._history.memory.own_turns(episode, child.slot, most)
        # Filtered again: a memory is a plugin, and a sub-agent must never read the answers of another one.
        own, foreign = only_own(found, child.slot, turn.turn_id)
        if foreign:
            self._history.recorder.anomaly("foreign_history", f"{foreign} turns of others came for {child.slot}")
        # The attempt may have ended while the memory answered: then its grant no longer permits the turns.
        self._grants.claim(grant)
        return newest_that_fit(own, most, rules.answer_bytes, _weight_of)


def _without_payloads(turn: TurnHistory) -> TurnHistory:
    """Return the turn without the payloads of its components; the rest is enough to annotate them."""
    return msgspec.structs.replace(
        turn,
        tool_messages=tuple(msgspec.structs.replace(each, component_data_json="") for each in turn.tool_messages),
    )


def _weight_of(item: TurnHistory | OwnTurn) -> int:
    """Return the approximate size of an item in a message, in bytes."""
    return len(msgspec.json.encode(item))
