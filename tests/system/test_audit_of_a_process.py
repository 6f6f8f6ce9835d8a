"""Audit events of a whole process reach a real collector: each once, with every field, whatever was away meanwhile."""

import signal
from typing import Any

import grpc
import pytest

from sidecar.observability import event_names, span_names
from sidecar.rpc.operators import ROLE_TOKEN_KEY
from subagents.lifecycle.v1.lifecycle_pb2 import KillRequest
from subagents.lifecycle.v1.lifecycle_pb2_grpc import LifecycleServiceStub
from subagents_client import ToolCall, TurnRequest
from subagents_client.runner import Run, RunnerHost
from tests.support.operated_process import OperatedProcess, free_port, operated_process
from tests.support.otlp_receiver import otlp_receiver
from tests.support.requirement import requirement
from tests.support.sidecar_process import place

pytestmark = pytest.mark.system

TRANSITION = "subagent.lifecycle.transition"
TRACE, SPAN = "ab" * 16, "cd" * 8
PRESCRIBED = [
    *("event", "subagent_id", "source_state", "target_state", "trigger"),
    *("agent_definition_commit", "cohort"),
]
OURS = ["event_id", "slot", "digest", "at", "effective_at", "actor", "actor_key", "actor_role", "reason", "request_id"]

OTHERS = """
[policy.verticals.support]
flags = "others"
[flags.others]
plugin = "memory"
on = ["flag_of_another_team"]
"""
"""A flag that is on and that no definition mentions: a backend may have thousands of them."""


def to_collector(port: int) -> str:
    """Return settings for a collector at a port, there or not."""
    return f'[telemetry]\notlp_endpoint = "http://127.0.0.1:{port}"\ntrace_ratio = 0\n'


@requirement("PF1-AC-8", "PF1-T-17", "PF1-FR-10c", "PF1-D-48")
@pytest.mark.seconds(90)
async def test_an_event_reaches_the_collector_once_although_that_was_away_and_the_sidecar_was_killed() -> None:
    """A kill with no collector there, then SIGKILL; the next process sends it, under the id that its log line had."""
    port = await free_port()
    with place() as folder:
        async with operated_process(folder, to_collector(port) + OTHERS) as bench:
            assert await bench.offers("turn-1") == ["ask_shop", "ask_support"]
            await bench.killed("shop", request_id="r-kill")
            assert await bench.offers("turn-2") == ["ask_support"]
            logged = await bench.sidecar.event(TRANSITION)
            bench.sidecar.signal(signal.SIGKILL)
            await bench.sidecar.ended()

        async with otlp_receiver(port) as collector, operated_process(folder, to_collector(port)) as bench:
            sent = await collector.log(TRANSITION)
            await bench.tested("rewards")  # whatever would come a second time has come before this
            await bench.offers("turn-3")
            await collector.log(TRANSITION, lambda one: one.attributes["subagent_id"] == "rewards")

    moved = [one.attributes["event_id"] for one in collector.logs if one.name == TRANSITION]
    assert moved == [sent.attributes["event_id"], moved[-1]]
    assert sent.attributes["event_id"] == logged["event_id"] == f"{logged['digest']}/rollback"
    assert list(sent.attributes) == [*PRESCRIBED, *OURS]
    assert sent.attributes["cohort"] == {
        "agent_definition_version": logged["cohort"]["agent_definition_version"],
        "active_flags": [],
        "ramp_step_percent": 100,
    }
    told = ("event", "subagent_id", "source_state", "target_state", "trigger", "actor", "reason", "request_id")
    assert [sent.attributes[name] for name in told] == [
        *(TRANSITION, "shop", "promote", "rollback", "kill_switch"),
        *("ada@example", "a test says so", "r-kill"),
    ]


@requirement("PF1-D-45", "PF1-D-49")
@pytest.mark.seconds(60)
async def test_a_sink_that_is_not_chosen_gets_nothing() -> None:
    """With `otlp` alone no line of the log is an audit event; a step that is no transition goes by another name."""
    async with otlp_receiver() as collector:
        port = int(collector.endpoint.rpartition(":")[2])
        with place() as folder:
            async with operated_process(folder, to_collector(port) + '[audit]\nsinks = ["otlp"]\n') as bench:
                await bench.killed("shop")
                await bench.offers("turn-1")
                await collector.log(TRANSITION)
                killed = await collector.log("subagent.rollout.event", lambda one: one.attributes["what"] == "killed")
                lines = [one["event"] for one in bench.sidecar.events]
    assert not {TRANSITION, "subagent.rollout.event"} & set(lines)
    assert (killed.attributes["subagent_id"], killed.attributes["actor"]) == ("shop", "ada@example")


@requirement("PF1-T-13", "PF1-D-77")
@pytest.mark.seconds(90)
async def test_an_event_is_joined_with_the_traces_and_the_decisions_of_the_turns_before_it() -> None:
    """The span of a turn and the kill after it name the same definition and digest; both turns the same version."""
    host = RunnerHost()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        return "Two offers fit."

    async with otlp_receiver() as collector:
        port = int(collector.endpoint.rpartition(":")[2])
        settings = to_collector(port).replace("trace_ratio = 0", 'trace_ratio = 1.0\notlp_interval = "50ms"')
        with place() as folder:
            async with host.serving(f"unix:{folder}/shop.sock"), operated_process(folder, settings) as bench:
                await a_turn(bench, 1, asks=True)
                await bench.killed("shop", request_id="pipeline-4711")
                await a_turn(bench, 2, asks=False)
                line = await a_refused_step(bench)
                event = await collector.log(TRANSITION)
                span = await collector.span("invoke_agent shop")
                decision = await collector.log("routing.decision", lambda one: not one.attributes["invoked"])

    assert span.attributes[span_names.AGENT_VERSION] == event.attributes["digest"]
    assert span.attributes[span_names.AGENT_ID] == event.attributes["subagent_id"]
    version = event.attributes["cohort"]["agent_definition_version"]
    assert decision.attributes["cohort"]["agent_definition_version"] == version
    (candidate,) = [each for each in decision.attributes["candidates"] if each["slot"] == event.attributes["slot"]]
    assert (candidate["definition_id"], candidate["verdict"]) == (event.attributes["subagent_id"], "killed")
    assert event.attributes["request_id"] == "pipeline-4711"
    assert (line["trace_id"], line["span_id"]) == (TRACE, SPAN)


async def a_refused_step(bench: OperatedProcess) -> dict[str, Any]:
    """Call with a token that is none, in a trace, e.g. that of a pipeline; return the line of the log."""
    metadata = ((ROLE_TOKEN_KEY, "rt1.none"), ("traceparent", f"00-{TRACE}-{SPAN}-01"))
    async with grpc.aio.insecure_channel(f"unix:{bench.folder}/o/s.sock") as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await LifecycleServiceStub(channel).Kill(KillRequest(), timeout=20, metadata=metadata)
    return await bench.sidecar.event(event_names.OPERATOR_REFUSED)


async def a_turn(bench: OperatedProcess, number: int, *, asks: bool) -> None:
    """Ask `shop`, or nobody, and end the turn."""
    async with bench.sidecar.client() as client:
        turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id=f"episode-{number}"))
        if asks:
            await turn.dispatch_and_wait([ToolCall("call-1", "ask_shop", '{"request": "headphones"}')])
        await turn.end("There.")


@requirement("PF1-NFR-1", "PF1-NFR-2a")
@pytest.mark.seconds(60)
async def test_a_rollback_is_measured_from_the_request_to_the_bind_that_shows_it() -> None:
    """In the numbers of the process: one of less than a minute, and so none beyond the budget of five."""
    with place() as folder:
        async with operated_process(folder) as bench:
            await bench.step("RollBack", "shop")
            assert await bench.offers("turn-1") == ["ask_support"]
            moved = await bench.sidecar.event(TRANSITION)
            page = (await bench.sidecar.page("/metrics")).text
    name = "subagent_lifecycle_rollback_duration_seconds"
    assert (moved["target_state"], moved["trigger"]) == ("rollback", "operator_initiated")
    assert f'{name}_bucket{{le="60.0",subagent_id="shop"}} 1.0\n' in page
    assert f'{name}_count{{subagent_id="shop"}} 1.0\n' in page
