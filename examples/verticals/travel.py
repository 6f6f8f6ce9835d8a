"""The travel sub-agent: finds a trip that points pay for. Only the demo has a definition of it."""

from examples.verticals.staging import Staging
from subagents_client.runner import Answer, DataUnavailable, Run

PLACE = "aquarium"
"""Where trips go: the data service knows no other place."""


async def answer(run: Run, staging: Staging) -> Answer:
    """Propose a trip and what it costs."""
    await run.status("searching_offers")
    await staging.pause(0.6)
    result = await run.call_tool("search_offers", {"query": PLACE})
    await staging.held()
    if isinstance(result, DataUnavailable) or not result.payload["offers"]:
        return Answer("Trips cannot be looked up at the moment.", data_unavailable=True)
    trip = result.payload["offers"][0]
    return Answer(f"A day trip to {trip['merchant']}: {trip['title'].lower()}, for {trip['points']:,} points.")
