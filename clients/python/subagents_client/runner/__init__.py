"""Hosts sub-agents: decorate async functions, serve them, and the sidecar can run them.

host = RunnerHost()

@host.sub_agent("shop")
async def shop(run: Run) -> str:
await run.status("searching_offers", store="Target")
offers = await run.call_tool("search_offers", {"query": run.request})
...
return "Two offers fit: ..."

await host.serve("unix:/run/shop/shop.sock")
"""

from subagents_client.runner.answers import (
    Answer,
    DataUnavailable,
    Delegate,
    Delegated,
    OwnComponent,
    OwnTurn,
    ToolData,
    TransientFailure,
)
from subagents_client.runner.cards import Card, Tool
from subagents_client.runner.host import HostLimits, RunnerHost
from subagents_client.runner.questions import (
    AsksBack,
    Continuation,
    NeedsApproval,
    NeedsAuthorisation,
    NeedsInput,
)
from subagents_client.runner.run import Context, Run
from subagents_client.runner.tls import HostTls

__all__ = [
    "Answer",
    "AsksBack",
    "Card",
    "Context",
    "Continuation",
    "DataUnavailable",
    "Delegate",
    "Delegated",
    "HostLimits",
    "HostTls",
    "NeedsApproval",
    "NeedsAuthorisation",
    "NeedsInput",
    "OwnComponent",
    "OwnTurn",
    "Run",
    "RunnerHost",
    "Tool",
    "ToolData",
    "TransientFailure",
]
