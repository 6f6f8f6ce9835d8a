"""What a flag service that fails does to a running sidecar: shown alike for every flag backend."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, cast

from sidecar.observability import event_names
from sidecar.policy.protocols import FlagBackend
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import surface_pb2
from tests.support.whole_chain import Chain, WatchedFlags, running_chain

KILL: Final = "ai_assistant_subagent_travel"
COHORT: Final = "ai_assistant_subagent_travel_cohort"
GATED: Final = {
    "sub_agents: [shop, rewards, support]": "sub_agents: [shop, travel, rewards, support]",
    "\n  - id: shop\n": f"""
  - id: travel
    description: Books trips with points.
    role: native
    model: gpt-5.4-mini-low
    prompt_blocks: [persona-shop]
    enabled_via_flag: {KILL}

  - id: shop
""",
}
UNGATED: Final = ["ask_shop", "ask_rewards", "ask_support"]
WITH_TRAVEL: Final = ["ask_shop", "ask_travel", "ask_rewards", "ask_support"]
QUICK: Final[Mapping[str, str]] = {"fetch_deadline": "900ms", "refresh_interval": "200ms", "max_staleness": "1500ms"}
"""Stale within 1.5 s, so that a test need not wait for 10."""


def tool_names(bound: pb.BindTurnResponse) -> list[str]:
    """Return the sub-agents' tools in their order."""
    return [tool.name for tool in bound.surface.sub_agent_tools]


def verdict_on_travel(bound: pb.BindTurnResponse) -> str:
    """Return why `travel` is, or is not, on the surface."""
    (verdict,) = [each.verdict for each in bound.surface.candidates if each.sub_agent_id == "travel"]
    return surface_pb2.CandidateVerdict.Name(verdict).removeprefix("CANDIDATE_VERDICT_")


async def closes_and_opens_again(
    backend: FlagBackend, breaks: Callable[[], Awaitable[None]], mends: Callable[[], Awaitable[None]]
) -> None:
    """Run a sidecar whose `travel` is gated by `backend`, with both its flags on, and have their service fail.

    Checks that `travel` leaves the surface as stale, that whom no flag gates is offered throughout, and that nothing
    was killed: once the service is well again, everybody has `travel` back.
    """
    async with running_chain(GATED, cast("WatchedFlags", backend), flag_refresh=QUICK) as chain:
        await _until(chain, WITH_TRAVEL)
        await breaks()
        away = await _until(chain, UNGATED)
        assert verdict_on_travel(away) == "FLAG_STALE"
        assert (await chain.dispatch(away, "ask_shop")).outcomes[0].narration == "hello from shop"
        await mends()
        await _until(chain, WITH_TRAVEL)


async def _until(chain: Chain, tools: list[str]) -> pb.BindTurnResponse:
    """Bind anew whenever contact with the service has come or gone, until these tools are offered.

    On a busy machine contact may also be lost for a moment; only the test's own limit ends the waiting.
    """
    while True:
        heard = len(chain.heard.records)
        bound = await chain.bind()
        if tool_names(bound) == tools:
            return bound
        await chain.heard.event(event_names.FLAGS_CONTACT, heard)
