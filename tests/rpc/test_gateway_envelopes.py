"""What a sub-agent gets of a data service's answer, through every real part: host, gateway, REST, data service."""

import threading
from typing import Any, Final

import pytest

from examples.ccs.faults import FaultKind, Where
from subagents.tools.v1 import tools_pb2
from subagents_client.runner import Answer, DataUnavailable, Run, ToolData, TransientFailure
from tests.support.harness import outcome_name
from tests.support.requirement import requirement
from tests.support.whole_chain import Chain, asks, running_chain

CANARY: Final = "canary-41c7f0"
MISMATCHES: Final = 'ps6_envelope_principal_mismatch_total{consumer="consumer-agent"}'
VERSIONS: Final = 'ps6_envelope_version_mismatch_total{consumer="consumer-agent"}'
USER: Final = "user-ü/1 ☃"


async def one_call(chain: Chain, tool: str = "search_offers", slot: str = "shop", **arguments: Any) -> Any:
    """Let one sub-agent call one tool in a turn of `USER`; return the call's outcome."""
    chain.use(slot, asks(tool, **(arguments or ({"query": "coffee"} if slot == "shop" else {}))))
    result = await chain.dispatch(await chain.bind(principal=USER), f"ask_{slot}")
    return result.outcomes[0]


async def released_or_not(chain: Chain) -> ToolData | DataUnavailable:
    """Let `shop` search once more; return what it got."""
    await one_call(chain)
    return chain.received[-1]


@requirement("PC2-FR-9a", "PC2-FR-9b")
async def test_a_tool_call_is_one_request_and_one_whole_answer() -> None:
    """One POST at the data service, one message at the sub-agent; the gateway has no stream to offer."""
    async with running_chain() as chain:
        await one_call(chain)
        assert len(chain.ccs.calls) == 1
        assert [type(each) for each in chain.received] == [ToolData]
    methods = tools_pb2.DESCRIPTOR.services_by_name["ToolGatewayService"].methods
    assert not [each.name for each in methods if each.client_streaming or each.server_streaming]


@requirement("PC2-FR-9b")
async def test_nothing_of_an_answer_arrives_before_all_of_it_was_checked() -> None:
    """A body that comes in pieces and grows past the limit: the sub-agent gets none of it."""
    async with running_chain() as chain:
        chain.ccs.fault(FaultKind.OVERSIZE, canary=CANARY)
        assert await released_or_not(chain) == DataUnavailable()


@requirement("PC2-FR-10a", "PC2-FR-10b", "PC2-FR-10c", "PC2-FR-10d")
async def test_the_status_decides_what_a_sub_agent_gets() -> None:
    """ok, partial, error: the payload, the payload with a mark, nothing."""
    async with running_chain() as chain:
        outcomes = [await one_call(chain)]
        chain.ccs.fault(FaultKind.PARTIAL, times=1)
        outcomes.append(await one_call(chain))
        chain.ccs.fault(FaultKind.ERROR, times=1)
        outcomes.append(await one_call(chain))
        assert await chain.metric(calls_with("released")) == 2
        assert await chain.metric(calls_with("status_error")) == 1

    ok, partial, error = chain.received
    assert isinstance(ok, ToolData)
    assert isinstance(partial, ToolData)
    assert (ok.partial, partial.partial) == (False, True)
    assert ok.payload["offers"] == partial.payload["offers"] != []
    assert error == DataUnavailable()
    assert [outcome_name(each.outcome) for each in outcomes] == ["SUCCEEDED", "SUCCEEDED", "DEGRADED"]
    assert [each.data_unavailable for each in outcomes] == [False, False, True]
    assert outcomes[1].narration == "Here it is, though something may be missing."


@requirement("PC2-FR-10e", "PC2-D-24", "PC2-D-28")
@pytest.mark.parametrize("status", ["ok", "partial"])
async def test_neither_failed_sources_nor_cache_meta_are_looked_at(status: str) -> None:
    """A source called critical, and a cache entry called stale: the status alone decides, and neither is passed on."""
    aside = {
        "status": status,
        "partial": [{"source": "ledger", "critical": True, "message": CANARY}],
        "cache_meta": {"cached": True, "cacheable": False, "ttl_seconds": -1, "key": CANARY},
    }
    async with running_chain() as chain:
        plain = await released_or_not(chain)
        chain.service.change = lambda envelope: {**envelope, **aside}
        judged = await released_or_not(chain)
    assert isinstance(plain, ToolData)
    assert judged == ToolData(plain.payload, partial=status == "partial")


@requirement("PC2-FR-11a", "PC2-FR-11b", "PC2-AC-7a", "PC2-D-31")
async def test_the_principal_of_the_turn_is_the_principal_of_every_data_call() -> None:
    """Two users at a time, two services each: unchanged from bind to sub-agent to service, whoever asks what."""
    async with running_chain() as chain:
        chain.use("shop", asks("search_offers", query="principal: user-2"))
        chain.use("rewards", asks("points_balance"))
        turns = [await chain.bind(principal=user, episode_id=user[:4]) for user in (USER, "user-2")]
        for bound in turns:
            await chain.dispatch(bound, "ask_shop", "ask_rewards")
    assert [run.context.principal for run in chain.runs] == [USER, USER, "user-2", "user-2"]
    assert [call.principal for call in chain.ccs.calls] == [USER, USER, "user-2", "user-2"]
    assert [call.on_behalf_of for call in chain.ccs.calls] == [USER, USER, "user-2", "user-2"]


@requirement("PC2-FR-11b", "PC2-D-34")
@pytest.mark.parametrize(
    "arguments",
    [
        {"query": "x", "principal": "user-2"},
        {"query": "x", "Principal": "user-2"},
        {"query": {"principal": "user-2"}},
        {"query": "x", "nonce": "1"},
    ],
)
async def test_a_sub_agent_cannot_ask_for_somebody_else(arguments: dict[str, Any]) -> None:
    """A principal among the arguments does not fit the tool's schema: the call is refused and nobody is asked."""
    async with running_chain() as chain:
        outcome = await one_call(chain, **arguments)
        assert outcome_name(outcome.outcome) == "FAILED"
        assert chain.ccs.calls == ()


MISMATCHED: Final[list[dict[str, Any]]] = [
    {"kind": FaultKind.WRONG_PRINCIPAL},
    {"kind": FaultKind.WRONG_PRINCIPAL, "status": "partial"},
    {"kind": FaultKind.WRONG_PRINCIPAL, "status": "error"},
    {"kind": FaultKind.WRONG_PRINCIPAL, "answer_as": USER.upper()},
    {"kind": FaultKind.WRONG_PRINCIPAL, "answer_as": USER + " "},
    {"kind": FaultKind.WRONG_PRINCIPAL, "answer_as": "user-u\u0308/1 ☃"},
    {"kind": FaultKind.DUPLICATE_KEYS, "where": Where.PRINCIPAL},
    {"kind": FaultKind.NO_ENVELOPE},
]


@requirement("PC2-FR-12a", "PC2-FR-12b", "PC2-FR-12d", "PC2-AC-6a")
@pytest.mark.parametrize("fault", MISMATCHED)
async def test_an_answer_for_somebody_else_is_withheld_and_counted(fault: dict[str, Any]) -> None:
    """Whatever its status, and however alike the names: no byte of it, +1, and "data unavailable"."""
    async with running_chain() as chain:
        assert await chain.metric(MISMATCHES) == 0
        chain.ccs.fault(canary=CANARY, **fault)
        outcome = await one_call(chain)
        assert chain.received == [DataUnavailable()]
        assert (outcome_name(outcome.outcome), outcome.data_unavailable) == ("DEGRADED", True)
        assert await chain.metric(MISMATCHES) == 1
        assert CANARY not in str(outcome) + await chain.metrics()


@requirement("PC2-FR-12c")
async def test_a_mismatch_is_reported_as_a_security_incident() -> None:
    """One error line that no log level silences, with the tool and the child, and nothing of the answer."""
    async with running_chain() as chain:
        chain.ccs.fault(FaultKind.WRONG_PRINCIPAL, canary=CANARY)
        outcome = await one_call(chain)
        (line,) = chain.heard.of("security.incident")
        assert line.levelname == "ERROR"
        fields = getattr(line, "fields", {})
        assert (fields["tool_id"], fields["child_id"]) == ("search_offers", outcome.child_id)
        assert CANARY not in str(line.__dict__)
        assert USER not in str(line.__dict__)


@requirement("PC2-FR-12c", "PC2-AC-6a")
async def test_a_forgotten_envelope_is_an_incident_that_says_what_is_likely_wrong() -> None:
    """The requirements count it, since no user is confirmed; the line asks whether the service sends envelopes."""
    async with running_chain() as chain:
        chain.ccs.fault(FaultKind.NO_ENVELOPE, canary=CANARY)
        await one_call(chain)
        (line,) = chain.heard.of("security.incident")
        assert line.getMessage().startswith("no principal in the envelope: is this an envelope at all?")
        assert getattr(line, "fields", {})["reason"] == "principal_absent"


@requirement("PC2-FR-12e")
async def test_no_layer_asks_again_after_a_mismatch() -> None:
    """A definition with a retry, and a sub-agent that says "try me again": one request, one attempt, though."""

    async def gives_up(run: Run, chain: Chain) -> Answer:
        data = await run.call_tool("points_balance", {})
        chain.received.append(data)
        raise TransientFailure("no data")

    async with running_chain() as chain:
        chain.use("rewards", gives_up)
        chain.ccs.fault(FaultKind.WRONG_PRINCIPAL, canary=CANARY)
        outcome = (await chain.dispatch(await chain.bind(), "ask_rewards")).outcomes[0]
        assert outcome.attempts == 1
        assert len(chain.ccs.calls) == 1
        assert chain.received == [DataUnavailable()]

        chain.ccs.clear()
        outcome = (await chain.dispatch(await chain.bind(), "ask_rewards")).outcomes[0]
        assert outcome.attempts == 2, "without a mismatch this sub-agent is asked again"


@requirement("PC2-FR-12e")
async def test_a_sub_agent_cannot_ask_again_either() -> None:
    """It calls the same tool twice, and the service would be right the second time: it is asked once only."""

    async def insists(run: Run, chain: Chain) -> Answer:
        chain.received += [await run.call_tool("points_balance", {}) for _ in range(2)]
        return Answer("I could not see your points.")

    async with running_chain() as chain:
        chain.use("rewards", insists)
        chain.ccs.fault(FaultKind.WRONG_PRINCIPAL, canary=CANARY, times=1)
        await chain.dispatch(await chain.bind(), "ask_rewards")
        assert chain.received == [DataUnavailable(), DataUnavailable()]
        assert len(chain.ccs.calls) == 1


@requirement("PC2-AC-7b", "PC2-D-32", "PC2-D-33")
async def test_refusals_of_the_service_are_counted_by_their_kind() -> None:
    """403 principal_mismatch and 400 missing_principal: "data unavailable", and a counter each for the operator."""
    async with running_chain() as chain:
        chain.ccs.fault(FaultKind.PRINCIPAL_MISMATCH, times=1)
        chain.ccs.fault(FaultKind.MISSING_PRINCIPAL, times=1, skip=0)
        await one_call(chain)
        await one_call(chain)
        assert chain.received == [DataUnavailable()] * 2
        assert [call.status for call in chain.ccs.calls] == [403, 400]
        for reason in ("principal_refused", "missing_principal"):
            assert await chain.metric(calls_with(reason)) == 1
        assert await chain.metric(MISMATCHES) == 0, "the service refused; it did not answer for somebody else"


def calls_with(result: str, slot: str = "shop", tool: str = "search_offers") -> str:
    """Return how the counter of data calls with a result begins."""
    return f'sidecar_gateway_calls_total{{result="{result}",sub_agent_id="{slot}",tool_id="{tool}"}}'


@requirement("PC2-D-25", "PC2-D-26", "PC2-T-32")
@pytest.mark.parametrize(
    ("version", "is_released"),
    [
        ("1.0.0", True),
        ("1.99.7", True),
        ("1.4.0-rc.1", True),
        ("2.0.0", False),
        ("0.9.0", False),
        ("1.4", False),
        (1, False),
    ],
)
async def test_the_same_major_version_is_accepted_and_any_other_is_counted(version: Any, is_released: bool) -> None:
    """The sidecar was written for 1.4.0; what is not semver has no major version at all."""
    async with running_chain() as chain:
        chain.service.change = lambda envelope: {**envelope, "version": version}
        assert isinstance(await released_or_not(chain), ToolData) is is_released
        assert await chain.metric(VERSIONS) == (0 if is_released else 1)


@requirement("PC2-D-27", "PC2-T-21", "PC2-D-23")
@pytest.mark.parametrize(
    "kind", [FaultKind.BREAKING, FaultKind.WRONG_KEY, FaultKind.INVALID_PAYLOAD, FaultKind.MALFORMED, FaultKind.REPLAY]
)
async def test_an_envelope_that_is_not_as_agreed_gives_no_data_and_breaks_nothing(kind: FaultKind) -> None:
    """A break without notice: the call has no data, its sibling and the next call are not affected."""
    async with running_chain() as chain:
        chain.use("rewards", asks("points_balance"))
        chain.use("shop", asks("search_offers", query="coffee"))
        chain.ccs.fault(kind, enricher_id="offer_search", canary=CANARY)
        result = await chain.dispatch(await chain.bind(), "ask_shop", "ask_rewards")
        assert [outcome_name(each.outcome) for each in result.outcomes] == ["DEGRADED", "SUCCEEDED"]
        assert [each for each in chain.received if isinstance(each, DataUnavailable)] == [DataUnavailable()]
        assert CANARY not in str(result) + str(chain.received)
        chain.ccs.clear()
        assert isinstance(await released_or_not(chain), ToolData)


@requirement("PC2-T-12")
@pytest.mark.parametrize(
    ("kind", "outcome"), [(None, "SUCCEEDED"), (FaultKind.PARTIAL, "SUCCEEDED"), (FaultKind.ERROR, "DEGRADED")]
)
async def test_every_enricher_is_unwrapped_under_each_status(kind: FaultKind | None, outcome: str) -> None:
    """Three sub-agents with a service each, in one dispatch."""
    async with running_chain() as chain:
        for slot, tool, arguments in (
            ("shop", "search_offers", {"query": "coffee"}),
            ("rewards", "points_balance", {}),
            ("support", "order_status", {}),
        ):
            chain.use(slot, asks(tool, **arguments))
        if kind is not None:
            chain.ccs.fault(kind)
        result = await chain.dispatch(await chain.bind(), "ask_shop", "ask_rewards", "ask_support")
        assert [outcome_name(each.outcome) for each in result.outcomes] == [outcome] * 3
        assert {call.enricher_id for call in chain.ccs.calls} == {"offer_search", "points_balance", "order_status"}


@requirement("PC2-D-63", "PC2-D-40")
async def test_a_sub_agent_may_go_on_to_another_service_when_one_has_no_data() -> None:
    """One child, two enrichers: the first says `error` and is asked once, the second gives the data; it succeeds."""

    async def two(run: Run, chain: Chain) -> Answer:
        chain.received += [await run.call_tool("points_balance", {}), await run.call_tool("order_status", {})]
        return Answer("The orders are these; points are not known.")

    async with running_chain(
        {"tools: [points_balance, render": "tools: [points_balance, order_status, render"}
    ) as chain:
        chain.use("rewards", two)
        chain.ccs.fault(FaultKind.ERROR, enricher_id="points_balance")
        result = await chain.dispatch(await chain.bind(), "ask_rewards")
        assert [type(each) for each in chain.received] == [DataUnavailable, ToolData]
        assert [call.enricher_id for call in chain.ccs.calls] == ["points_balance", "order_status"]
        assert outcome_name(result.outcomes[0].outcome) == "SUCCEEDED"


@requirement("PC2-D-34", "PC1-D-11")
async def test_the_check_is_the_same_for_every_sub_agent_under_any_orchestrator() -> None:
    """A second orchestrator over the same verticals: each child's answer for somebody else is withheld."""
    second = """
  - id: night-desk
    description: Answers at night.
    role: orchestrator
    model: gpt-5.4-nano
    prompt_blocks: [instructions-routing]
    sub_agents: [support, rewards]

  - id: shop
"""
    async with running_chain({"\n  - id: shop\n": second}) as chain:
        chain.use("rewards", asks("points_balance"))
        chain.use("support", asks("order_status"))
        chain.ccs.fault(FaultKind.WRONG_PRINCIPAL, canary=CANARY)
        for name in ("concierge", "night-desk"):
            bound = await chain.bind(orchestrator_id=name)
            result = await chain.dispatch(bound, "ask_rewards", "ask_support")
            assert [each.data_unavailable for each in result.outcomes] == [True, True]
        assert chain.received == [DataUnavailable()] * 4
        assert await chain.metric(MISMATCHES) == 4


async def test_a_large_answer_is_judged_beside_the_event_loop() -> None:
    """Fifty offers with long titles, 100 kB: released as any other, by a thread that a small answer does not start."""
    async with running_chain() as chain:
        small = await released_or_not(chain)
        assert isinstance(small, ToolData)
        assert [each.name for each in threading.enumerate() if each.name.startswith("off-loop")] == []
        longest = {**small.payload["offers"][0], "title": "x" * 2000}
        many = {**small.payload, "offers": [longest] * 50}
        chain.service.change = lambda envelope: {**envelope, "payload": many}
        large = await released_or_not(chain)
        assert [each.name for each in threading.enumerate() if each.name.startswith("off-loop")] == ["off-loop_0"]
    assert large == ToolData(many, partial=False)
