"""What a sub-agent and its user said before in this session: its own turns, never another's. Source: PC1-FR-7."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from subagents_client.runner import Run
from subagents_errors import DependencyUnavailable

LOG: Final = logging.getLogger("sidecar_runner_langchain")


class PastTurn(Protocol):
    """One earlier answer of this sub-agent, such as `subagents_client.runner.OwnTurn`."""

    @property
    def asked(self) -> str:
        """What the sub-agent was asked."""
        ...

    @property
    def answered(self) -> str:
        """What it answered: narration only."""
        ...


HistoryReader = Callable[[Run], Awaitable[Sequence[PastTurn]]]
"""Returns the own turns of a run, oldest first."""


async def own_turns(run: Run) -> Sequence[PastTurn]:
    """Read them through the gateway, with the grant of the attempt; go on without while the history is away."""
    try:
        return await run.read_own_turns()
    except DependencyUnavailable:
        LOG.warning("attempt %s of %s goes on without its earlier turns", run.attempt_id, run.sub_agent_id)
        return ()
