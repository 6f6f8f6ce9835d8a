"""`Compaction` writes the rolling summary of a conversation, after a turn whose bind reported that one is due."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage

from subagents_client import CompactionDue, Episode, EpisodeTurn, SidecarClient
from subagents_errors import CompactionNotDue, RecentTurnsIntact, SummaryOutdated
from subagents_langchain.costs import Costs, Purpose
from subagents_langchain.rules import Compacted, CompactionRules
from subagents_langchain.turn import ActiveTurn, trimmed

LONGEST: Final = 64 * 1024
LOG: Final = logging.getLogger(__name__)


class Compaction:
    """Writes summaries of episodes in the background; at most one per episode at the same time.

    Args:
        client: a client of the sidecar; do not close it before `settled` has returned.
        model: the model that writes the summary; a cheap model is sufficient.
        rules: how summaries are written; None: no summary is written.

    Source: PC1-FR-11, PC1-NFR-7.
    """

    def __init__(self, client: SidecarClient, model: BaseChatModel, rules: CompactionRules | None) -> None:
        self._client = client
        self._model = model
        self._rules = rules
        self._recent_turns = rules.recent_turns if rules else 0
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}

    def after(self, active: ActiveTurn) -> None:
        """Start to write a summary if the turn has ended and its bind reported that one is due. Does not wait or raise.

        Source: PC1-FR-11a, PC1-NFR-7b.
        """
        if self._rules is None or active.turn is None or active.end is None:
            return
        episode = (active.request.principal, active.request.episode_id)
        if active.turn.surface.compaction_due is not CompactionDue.DUE or episode in self._running:
            return
        task = asyncio.ensure_future(self._compact(*episode, active.costs, self._rules))
        self._running[episode] = task
        task.add_done_callback(lambda _: self._running.pop(episode))

    async def settled(self) -> None:
        """Wait until no summary is being written. Call this method before you close the client."""
        while self._running:
            await asyncio.wait(list(self._running.values()))

    async def _compact(self, principal: str, episode_id: str, costs: Costs, rules: CompactionRules) -> None:
        try:
            async with asyncio.timeout(rules.timeout.total_seconds()):
                outcome = await self._write(principal, episode_id, costs, rules)
        except (SummaryOutdated, CompactionNotDue):
            outcome = Compacted.OUTRUN
        except Exception as error:  # noqa: BLE001  a provider raises what it likes; the next turn says again it is due
            if isinstance(error, RecentTurnsIntact):
                self._learn(error)
            LOG.warning("no summary of an episode was written: %s", type(error).__name__)
            outcome = Compacted.FAILED
        rules.on_compaction(outcome)

    async def _write(self, principal: str, episode_id: str, costs: Costs, rules: CompactionRules) -> Compacted:
        episode = await self._client.read_episode(episode_id, principal)
        older = episode.turns[: max(0, len(episode.turns) - self._recent_turns)]
        if not older:
            return Compacted.OUTRUN
        asking = [SystemMessage(rules.prompt), HumanMessage(transcript(episode, older))]
        reply = await self._model.ainvoke(asking, config={"tags": ["nostream"]})
        costs.add(Purpose.COMPACTION, reply)
        text = trimmed(str(reply.text).strip(), LONGEST)
        if not text:
            raise ValueError("the model that writes the summary wrote nothing")
        await self._client.write_summary(
            episode_id, principal, text, up_to_turn_id=older[-1].turn_id, expected_revision=episode.revision
        )
        return Compacted.WRITTEN

    def _learn(self, refused: RecentTurnsIntact) -> None:
        """Use the sidecar's number of recent turns from now on; otherwise every summary would be refused."""
        number = refused.metadata.get("recent_turns", "")
        if number.isdecimal():
            self._recent_turns = max(self._recent_turns, int(number))


def transcript(episode: Episode, older: Sequence[EpisodeTurn]) -> str:
    """Return the text to summarise: the present summary, and user messages, narrations and component ids of turns."""
    parts = [f"Summary so far:\n{episode.summary.text}"] if episode.summary else []
    for turn in older:
        ids = [one for reference in turn.references for one in reference.component_ids]
        lines = (("User", turn.user_message), ("Assistant", turn.narration), ("Shown to the user", ", ".join(ids)))
        parts.append("\n".join(f"{who}: {said}" for who, said in lines if said))
    return "\n\n".join(part for part in parts if part)
