"""The rewards sub-agent: knows the user's points."""

from examples.verticals.staging import Staging
from subagents_client.runner import Answer, DataUnavailable, Run


async def answer(run: Run, staging: Staging) -> Answer:
    """Tell the balance, the tier and what is on its way."""
    await run.status("looking_up_points_balance")
    await staging.pause(0.6)
    result = await run.call_tool("points_balance")
    if isinstance(result, DataUnavailable):
        return Answer("Your points cannot be looked up at the moment.", data_unavailable=True)
    points = result.payload
    summary = {"balance": points["balance"], "tier": points["tier"]}
    run.render("render_points_summary", tool_input={}, component_data=summary)
    coming = f"; {points['pending']:,} more are on their way" if points["pending"] else ""
    return Answer(f"You have {points['balance']:,} points ({points['tier']} tier){coming}.")
