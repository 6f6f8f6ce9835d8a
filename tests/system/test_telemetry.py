"""What a real collector receives from a real process: spans, log records, metrics; and what it must not."""

import os
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from examples.ccs.faults import FaultKind
from sidecar.observability import event_names, names, span_names
from tests.support.otlp_receiver import OtlpReceiver, otlp_receiver
from tests.support.requirement import requirement
from tests.support.sidecar_process import ROOT, place, serving, started
from tests.support.telemetry_chain import SECRET_WORDS, USER, telemetry_chain

pytestmark = pytest.mark.system

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{CALLER}-01", f"00-{TRACE[::-1]}-{CALLER}-00"
EXPORTER = "opentelemetry_exporter_otlp_proto_grpc"


def to(collector: OtlpReceiver, more: str = "") -> str:
    """Return settings that send everything to a collector, soon."""
    return (
        f'[telemetry]\notlp_endpoint = "{collector.endpoint}"\notlp_interval = "50ms"\n'
        f'otlp_metrics_interval = "100ms"\ntrace_ratio = 0\n{more}'
    )


def traced(line: dict[str, Any]) -> tuple[str, str]:
    """Return the trace and the span that a line of the log belongs to."""
    return line["trace_id"], line["span_id"]


def is_of(turn_id: str) -> Callable[[dict[str, Any]], bool]:
    """Return what recognises an event of a turn."""
    return lambda event: event["turn_id"] == turn_id


@requirement("PC2-D-29")
async def test_spans_hang_together_from_the_clients_to_the_data_services_and_log_lines_name_them() -> None:
    """Dispatch, attempt, data call, each below the other; `cache_meta` on the last, and its context at the service.

    A line about a dispatch has its span, one about the end of a turn has the client's.
    """
    async with otlp_receiver() as collector, telemetry_chain(to(collector, "error_emit = true\n")) as chain:
        await chain.turn(1, "ask_shop", "ask_rewards", traceparent=SAMPLED)
        whole = await collector.span("invoke_workflow dispatch")
        shop = await collector.span("invoke_agent shop")
        rewards = await collector.span("invoke_agent rewards")
        tool = await collector.span("execute_tool search_offers")
        called = chain.ccs.service.calls[-1].traceparent
        failure = await chain.sidecar.event(event_names.ERROR_EMIT)
        decision = await chain.sidecar.event(event_names.ROUTING_DECISION)
        exported = [await collector.log(event_names.ERROR_EMIT), await collector.log(event_names.ROUTING_DECISION)]

    assert [traced(line) for line in (failure, decision)] == [(TRACE, whole.span_id), (TRACE, CALLER)]
    assert [(one.trace_id, one.span_id) for one in exported] == [traced(failure), traced(decision)]
    assert {one.trace_id for one in collector.spans} == {TRACE}
    assert (whole.parent, shop.parent, rewards.parent) == (CALLER, whole.span_id, whole.span_id)
    assert (tool.parent, called) == (shop.span_id, f"00-{TRACE}-{tool.span_id}-01")
    assert shop.attributes[span_names.OPERATION] == "invoke_agent"
    assert shop.attributes[span_names.AGENT_NAME] == "shop"
    assert shop.attributes[span_names.CONVERSATION_ID] == "episode-1"
    of_tokens = (span_names.INPUT_TOKENS, span_names.CACHED_INPUT_TOKENS, span_names.OUTPUT_TOKENS)
    assert [shop.attributes[name] for name in of_tokens] == [900, 640, 40]
    assert (shop.failed, rewards.failed, rewards.attributes[span_names.ERROR_TYPE]) == (False, True, "RUNNER_FAILED")
    assert "{" in tool.attributes[span_names.CACHE_META]
    assert collector.senders[0]["service.name"] == "dispatch-sidecar"


async def test_a_trace_that_is_not_sampled_makes_no_span_and_goes_on() -> None:
    """The client said so, or said nothing and chance (0 %) did; its context still reaches the data service."""
    async with otlp_receiver() as collector, telemetry_chain(to(collector)) as chain:
        await chain.turn(1, "ask_shop", traceparent=UNSAMPLED)
        await chain.turn(2, "ask_shop")
        await chain.turn(3, "ask_shop", traceparent=SAMPLED)
        await collector.span("invoke_workflow dispatch")
        await collector.span("execute_tool search_offers")
        contexts = [call.traceparent for call in chain.ccs.service.calls]
        decisions = {
            turn: await chain.sidecar.event(event_names.ROUTING_DECISION, is_of(turn)) for turn in ("turn-1", "turn-2")
        }

    of_dispatches = [one.attributes for one in collector.spans if span_names.DISPATCH_ID in one.attributes]
    assert {each[span_names.DISPATCH_ID] for each in of_dispatches} == {"dispatch-3"}
    assert contexts[:2] == [UNSAMPLED, None]
    assert traced(decisions["turn-1"]) == (TRACE[::-1], CALLER)
    assert "trace_id" not in decisions["turn-2"]


async def test_without_a_clients_context_chance_begins_a_trace() -> None:
    """At 100 %: a root span, with the rest below it."""
    async with otlp_receiver() as collector:
        settings = to(collector).replace("trace_ratio = 0", "trace_ratio = 1.0")
        async with telemetry_chain(settings) as chain:
            await chain.turn(1, "ask_shop")
            root = await collector.span("invoke_workflow dispatch")
            tool = await collector.span("execute_tool search_offers")
    assert (root.parent, tool.trace_id) == ("", root.trace_id)


@requirement("PC2-FR-15f", "PC2-D-52", "PC2-D-53")
async def test_decisions_and_failures_are_log_records() -> None:
    """One routing decision a turn whatever is sampled; a failure says who and on which axis, and nothing more."""
    async with otlp_receiver() as collector, telemetry_chain(to(collector, "error_emit = true\n")) as chain:
        await chain.turn(1, "ask_shop", "ask_rewards")
        decision = await collector.log("routing.decision")
        failure = await collector.log("agent.error_emit")
    assert [one["slot"] for one in decision.attributes["candidates"]] == ["shop", "rewards", "support"]
    assert [call["outcome"] for call in decision.attributes["calls"]] == ["succeeded", "failed"]
    assert failure.attributes == {"sub_agent_id": "rewards", "axis": 1, "is_final": True}
    assert collector.spans == []


@requirement("PC2-AC-10")
async def test_the_decisions_of_all_turns_add_up_to_the_metrics() -> None:
    """No call, one, two, and four at cap 3: each turn tells everything, and the sidecar has done the sums already."""
    turns: list[tuple[str, ...]] = [(), ("ask_shop",), ("ask_shop", "ask_rewards"), ("ask_shop", "ask_rewards") * 2]
    async with otlp_receiver() as collector, telemetry_chain(to(collector)) as chain:
        for number, calls in enumerate(turns):
            await chain.turn(number, *calls)
        await collector.log("routing.decision", lambda one: one.attributes["turn_id"] == "turn-3")
        told = [one.attributes for one in collector.logs if one.name == "routing.decision"]
        page = (await chain.sidecar.page("/metrics")).text

    succeeded, failed, dropped = "succeeded", "failed", "dropped"
    assert [one["invoked"] for one in told] == [[], ["shop"], ["shop", "rewards"], ["shop", "rewards"]]
    assert [one["intent_count"] for one in told] == [0, 1, 2, 2]
    assert [one["cap"] for one in told] == ["within", "within", "within", "over"]
    assert [[call["outcome"] for call in one["calls"]] for one in told] == [
        [],
        [succeeded],
        [succeeded, failed],
        [succeeded, failed, succeeded, dropped],
    ]
    for line in (
        'sidecar_turn_intents_bucket{le="0.0"} 1.0',
        'sidecar_turn_intents_bucket{le="1.0"} 2.0',
        'sidecar_turn_intents_bucket{le="+Inf"} 4.0',
        'sidecar_turn_ended_total{cap="within",close_reason="ended"} 3.0',
        "sidecar_turn_over_cap_total 1.0",
        'sidecar_turn_fan_out_calls_total{result="succeeded"} 3.0',
        'sidecar_turn_fan_out_calls_total{result="not_succeeded"} 2.0',
        "sidecar_turn_partial_failures_total 2.0",
        'sidecar_child_tokens_total{kind="input",sub_agent_id="shop"} 3600.0',
        'sidecar_child_tokens_total{kind="cached",sub_agent_id="shop"} 2560.0',
        'sidecar_child_tokens_total{kind="output",sub_agent_id="shop"} 160.0',
        'sidecar_surface_prefixes_total{prefix="new"} 1.0',
        'sidecar_surface_prefixes_total{prefix="repeated"} 3.0',
        "sidecar_surface_estimated_tokens_count 4.0",
    ):
        assert f"{line}\n" in page, line


@requirement("PC2-D-9")
async def test_tools_are_named_in_spans_and_log() -> None:
    """As the model calls them: the sub-agents' in both, and the data tool's in its span."""
    async with otlp_receiver() as collector, telemetry_chain(to(collector)) as chain:
        await chain.turn(1, "ask_shop", "ask_rewards", traceparent=SAMPLED)
        spans = [await collector.span(f"invoke_agent {slot}") for slot in ("shop", "rewards")]
        data = await collector.span("execute_tool search_offers")
        decision = await collector.log("routing.decision")

    assert [span.attributes[span_names.TOOL_NAME] for span in spans] == ["ask_shop", "ask_rewards"]
    assert data.attributes[span_names.TOOL_NAME] == "search_offers"
    assert [call["tool_name"] for call in decision.attributes["calls"]] == ["ask_shop", "ask_rewards"]


async def test_failures_are_no_events_unless_they_are_switched_on() -> None:
    """By default; the routing decision, which comes later, is there."""
    async with otlp_receiver() as collector, telemetry_chain(to(collector)) as chain:
        await chain.turn(1, "ask_rewards")
        await collector.log("routing.decision")
    assert [one.name for one in collector.logs if one.name == "agent.error_emit"] == []


@requirement("PC1-OBS-6", "PC1-NFR-5")
async def test_metrics_reach_the_collector_under_their_own_names() -> None:
    """Counters at 0 from the start and after, histograms by count; episode lengths with each bind."""
    async with otlp_receiver() as collector, telemetry_chain(to(collector)) as chain:
        assert await collector.number(names.PRINCIPAL_MISMATCH, "consumer-agent") == 0
        chain.ccs.fault(FaultKind.WRONG_PRINCIPAL, answer_as="user-other")
        await chain.turn(1, "ask_shop")
        await chain.turn(2, "ask_rewards")
        assert await collector.number(names.PRINCIPAL_MISMATCH, "consumer-agent", at_least=1) == 1
        assert await collector.number(names.COMPACTION, "not_due", at_least=2) == 2
        assert await collector.number(names.EPISODE_TURNS, at_least=2) == 2
        assert await collector.number(names.EPISODE_TOKENS, at_least=2) == 2
        assert await collector.number(names.COMPOSING_SECONDS, at_least=2) == 2
        assert await collector.number(names.ROUTING_SECONDS, "not_needed") == 1
        assert await collector.number(names.ROUTING_SECONDS, "needed") == 1
        page = (await chain.sidecar.page("/metrics")).text
    assert 'sidecar_episode_compaction_total{due="not_due"} 2.0' in page
    assert "sidecar_episode_turns_count 2.0" in page


async def test_no_user_and_nothing_that_was_said_reaches_the_collector() -> None:
    """Every request is searched; that the search can find something, the episode's id shows."""
    async with otlp_receiver() as collector, telemetry_chain(to(collector, "error_emit = true\n")) as chain:
        chain.ccs.fault(FaultKind.WRONG_PRINCIPAL, answer_as="user-other-canary", canary="canary-of-somebody-else")
        await chain.turn(1, "ask_shop", "ask_rewards", traceparent=SAMPLED)
        chain.ccs.clear()
        await chain.turn(2, "ask_shop", traceparent=SAMPLED)
        await collector.span("execute_tool search_offers", lambda one: span_names.CACHE_META in one.attributes)
        await collector.log("security.incident")
        await collector.log("routing.decision", lambda one: one.attributes["turn_id"] == "turn-2")
        incident = await chain.sidecar.event("security.incident")
        attempt = await collector.span("invoke_agent shop")
    assert traced(incident) == (TRACE, attempt.span_id)
    sent = b"".join(content for _, content in collector.raw)
    assert b"episode-1" in sent
    secrets = (USER, "user-other-canary", "canary-of-somebody-else", SECRET_WORDS, "So far nothing.", "There.")
    assert [secret for secret in secrets if secret.encode() in sent] == []


async def test_a_dead_collector_costs_telemetry_and_no_turn() -> None:
    """Nothing listens there: turns go on, what is lost is counted, the log says it once, the end comes."""
    async with otlp_receiver() as gone:
        settings = to(gone, "otlp_queue = 16\n")
    async with telemetry_chain(settings) as chain:
        for number in range(30):
            await chain.turn(number, "ask_shop", traceparent=SAMPLED)
        said = await chain.sidecar.event("sidecar.telemetry")
        page = (await chain.sidecar.page("/metrics")).text
        chain.sidecar.process.terminate()
        assert await chain.sidecar.ended() == 0
    lost = next(
        line for line in page.splitlines() if line.startswith('sidecar_telemetry_dropped_total{signal="spans"}')
    )
    assert float(lost.rpartition(" ")[2]) > 0
    assert said["level"] == "warning"
    assert chain.sidecar.text.count('"sidecar.telemetry"') == 1


async def test_what_waits_at_the_end_is_sent() -> None:
    """The interval is an hour, so all of it goes out with the stop; only audit events have a way of their own."""
    async with otlp_receiver() as collector:
        settings = to(collector).replace("50ms", "1h").replace("100ms", "1h")
        async with telemetry_chain(settings) as chain:
            await chain.turn(1, "ask_shop", traceparent=SAMPLED)
            assert all(b"subagent.rollout.event" in body for _, body in collector.raw)
            chain.sidecar.process.terminate()
            assert await chain.sidecar.ended() == 0
        await collector.span("invoke_agent shop")
        await collector.log("routing.decision")
        assert await collector.number(names.TURNS_ENDED, "ended", "within") == 1


@pytest.fixture
def without_exporter(tmp_path: Path) -> str:
    """Give a path of modules that holds every installed package but the one that sends OTLP."""
    for file in Path(sysconfig.get_path("purelib")).iterdir():
        if not file.name.startswith(EXPORTER) and file.suffix != ".pth":
            (tmp_path / file.name).symlink_to(file)
    ours = (ROOT, ROOT / "proto" / "python", ROOT / "clients" / "python")
    return os.pathsep.join(map(str, (tmp_path, *ours)))


async def test_an_endpoint_without_the_extra_is_refused(without_exporter: str) -> None:
    """In an installation that really lacks it: the message says what to install."""
    more = '[telemetry]\notlp_endpoint = "http://127.0.0.1:4317"\n'
    with place() as folder:
        async with started(folder, more=more, python=("-S",), environment={"PYTHONPATH": without_exporter}) as sidecar:
            assert await sidecar.ended() == 78
        assert "dispatch-sidecar[otlp]" in sidecar.text


async def test_without_an_endpoint_nothing_of_opentelemetry_is_loaded() -> None:
    """It would cost every start as much as everything else together."""
    with place() as folder:
        async with serving(folder, environment={"PYTHONPROFILEIMPORTTIME": "1"}) as sidecar:
            pass
    assert "grpc.aio" in sidecar.text
    assert "opentelemetry" not in sidecar.text
