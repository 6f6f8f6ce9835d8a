"""No caller chooses a label: the series of a sidecar do not grow with what clients and hosts of sub-agents send."""

import re
from typing import Any, Final

from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents_client.runner import Run
from tests.rpc.raw_calls import CALL_TOOL, DISPATCH, raw_failure
from tests.support.requests import a_bind, failure_of
from tests.support.whole_chain import Chain, running_chain

ROUNDS: Final = 6
MARK: Final = "hostile"
SERIES: Final = re.compile(r"^([a-zA-Z_:][\w:]*(?:\{.*\})?) \S+$", re.MULTILINE)
LABEL: Final = re.compile(r'[{,](\w+)="')
BOUNDED: Final = {
    **dict.fromkeys(("sub_agent_id", "subagent_id", "slot", "tool_id", "definition_id", "vertical"), "definitions"),
    **dict.fromkeys(("backend", "sink", "plugin", "revision"), "the settings, or one value at a time"),
    **dict.fromkeys(("rpc_method", "method", "milestone", "consumer", "loop", "signal"), "names in the code"),
    **dict.fromkeys(("error_type", "rpc_response_status_code", "code", "reason", "carrier"), "enums of the contract"),
    **dict.fromkeys(("outcome", "axis", "arm", "state", "active", "trigger", "decision", "result"), "enums"),
    **dict.fromkeys(("close_reason", "cap", "due", "prefix", "prior_context", "fan_out", "kind", "credit"), "enums"),
    **dict.fromkeys(("limit", "cause", "severity", "why", "source_state", "target_state", "le"), "enums"),
}
"""Where the values of each label come from. A label that is not here must say so before it is shown."""


async def one_round(chain: Chain, number: int) -> None:
    """Send a value of one's own wherever a client or a host of sub-agents may choose one."""
    own = f"{MARK}-{number}"

    async def hostile(run: Run, _: Chain) -> Any:
        await run.status(own, **{own: own})
        run.usage(input_tokens=number, output_tokens=number)
        await run.call_tool(own, {own: own})

    async def raising(run: Run, _: Chain) -> Any:
        raise type(f"Hostile{number}", (Exception,), {})(own)

    chain.use("shop", hostile)
    chain.use("rewards", raising)
    await failure_of(chain.stub.BindTurn(a_bind(orchestrator_id=own), metadata=chain.metadata, timeout=10))
    bound = await chain.bind(turn_id=own, principal=own, episode_id=own)
    calls = [pb.ToolCall(call_id=f"{own}-{name}", tool_name=name, arguments_json="{}") for name in (f"ask_{own}", own)]
    await chain.dispatch(bound, "ask_shop", "ask_rewards", *calls, dispatch_id=own)
    for method in (f"{DISPATCH}{own}", f"/{own}/{own}", CALL_TOOL, f"{DISPATCH}BindTurn"):
        await raw_failure(chain.channel, method, own.encode(), ((own, own), *chain.metadata))
    unbound = pb.EndTurnRequest(surface_token=own, narration=own)
    await failure_of(chain.stub.EndTurn(unbound, metadata=chain.metadata, timeout=10))
    await chain.end(bound, narration=own)


async def test_series_do_not_grow_with_what_callers_send() -> None:
    """After one round all series are there that there will ever be, and none has a value that a caller chose."""
    async with running_chain() as chain:
        await one_round(chain, 0)
        first = set(SERIES.findall(await chain.metrics()))
        for number in range(1, ROUNDS):
            await one_round(chain, number)
        last = set(SERIES.findall(await chain.metrics()))

    assert len(first) > 100
    assert sorted(last - first) == []
    assert [each for each in last if MARK in each.lower()] == []
    assert {label for each in last for label in LABEL.findall(each)} - set(BOUNDED) == set()
