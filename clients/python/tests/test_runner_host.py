import asyncio
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from clients.python.tests.support.gateway_host import FakeGateway, gateway
from clients.python.tests.support.sidecar_side import hosted, request, said
from subagents.runner.v1 import runner_pb2
from subagents.tools.v1 import tools_pb2
from subagents_client.errors import error_from
from subagents_client.runner import Answer, DataUnavailable, Run, RunnerHost, ToolData
from subagents_errors import DefinitionNotHeld, InvalidRequest, MalformedMessage, NotFound, ToolNotAllowed
from tests.support.requirement import requirement


@requirement("PC2-D-11", "PC1-D-15")
async def test_reports_arrive_in_the_order_they_were_made(tmp_path: Path) -> None:
    """Status, a piece of text, a component, tokens, then what the function returns and the end."""
    host = RunnerHost()

    @host.sub_agent("shop")
    async def shop(run: Run) -> Answer:
        await run.status("searching_offers", store="Target")
        await run.narrate("Two ")
        run.render("render_offer_card", tool_input={"id": 1}, component_data={"title": "Söcke"})
        run.usage(input_tokens=1, output_tokens=1)
        run.usage(input_tokens=10, output_tokens=5, cached_input_tokens=0)
        return Answer("offers.", data_unavailable=True)

    async with hosted(host, tmp_path) as here:
        responses = await here.run(request())

    assert said(responses) == ["status", "narration", "component", "usage", "narration", "finished"]
    assert (responses[0].status.type, dict(responses[0].status.attributes)) == ("searching_offers", {"store": "Target"})
    assert responses[2].component.component_data_json == '{"title":"Söcke"}'
    used = responses[3].usage
    assert (used.input_tokens, used.output_tokens, used.HasField("cached_input_tokens")) == (10, 5, True)
    assert "".join(one.narration for one in responses) == "Two offers."
    assert responses[-1].finished.data_unavailable


async def test_a_status_reaches_the_reader_while_the_function_still_works(tmp_path: Path) -> None:
    """The function waits for the reader: if status were held back, neither would go on."""
    host, seen = RunnerHost(), asyncio.Event()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        await run.status("searching_offers")
        await seen.wait()
        return "done"

    async with hosted(host, tmp_path) as here:
        call = here.stub.Run(request(), timeout=10)
        first = await call.read()
        seen.set()
        rest = [one async for one in _rest(call)]

    assert isinstance(first, runner_pb2.RunResponse)
    assert first.status.type == "searching_offers"
    assert said(rest) == ["narration", "finished"]


@requirement("PC2-T-3", "PC2-D-14")
async def test_a_function_is_given_the_request_and_everything_it_inherits(tmp_path: Path) -> None:
    """Principal, episode, locale, location (unknown here), prior context."""
    host, runs = RunnerHost(), list[Run]()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        runs.append(run)
        return ""

    async with hosted(host, tmp_path) as here:
        responses = await here.run(request(contract_json='{"depth": 1}'))

    [run] = runs
    assert said(responses) == ["finished"]
    assert (run.request, run.attempt, run.child_id, run.attempt_id) == ("socks", 1, "child-1", "attempt-1")
    assert (run.context.principal, run.context.episode_id, run.context.turn_id) == ("user-1", "episode-1", "turn-1")
    assert (run.context.locale, run.context.location) == ("en-US", None)
    assert (run.context.prior_context, run.context.task_prompt) == ("asked about shoes", "and socks?")
    assert run.contract == {"depth": 1}
    assert run.prompt_suffix == "today"
    assert "user-1" not in repr(run.context)


async def test_a_host_asks_once_for_a_card_it_does_not_hold(tmp_path: Path) -> None:
    """Refused without, run with, and run without from then on."""
    host = RunnerHost()

    @host.sub_agent("shop", needs_card=True)
    async def shop(run: Run) -> str:
        return run.card.model

    card = runner_pb2.CardContent(model="small", tools=[runner_pb2.ToolDeclaration(tool_id="search", data_backed=True)])
    async with hosted(host, tmp_path) as here:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await here.run(request())
        with_card = await here.run(request(card=card))
        without = await here.run(request())

    error = error_from(refused.value, "Run")
    assert isinstance(error, DefinitionNotHeld)
    assert error.metadata == {"digest": "sha256:1"}
    assert with_card[0].narration == without[0].narration == "small"


async def test_a_function_that_needs_no_card_runs_without_one(tmp_path: Path) -> None:
    """And is told what to do if it asks for one all the same."""
    host = RunnerHost()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        with pytest.raises(LookupError, match="needs_card=True"):
            _ = run.card
        return "fine"

    async with hosted(host, tmp_path) as here:
        responses = await here.run(request())

    assert responses[0].narration == "fine"


async def test_a_tool_call_goes_through_the_gateway_with_the_grant(tmp_path: Path) -> None:
    """The payload comes back as a value, with the soft caveat; the function names no user."""
    host, given = RunnerHost(), list[object]()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        given.append(await run.call_tool("search_offers", {"query": "socks"}))
        given.append(await run.call_tool("search_offers"))
        return ""

    fake = FakeGateway(tools_pb2.CallToolResponse(payload_json='{"offers": [1]}', partial=True))
    async with gateway(fake, tmp_path) as target, hosted(host, tmp_path) as here:
        await here.run(request(gateway_target=target))

    assert given == [ToolData({"offers": [1]}, partial=True)] * 2
    assert fake.grants == ["grant-1", "grant-1"]
    assert [one.arguments_json for one in fake.received] == ['{"query":"socks"}', "{}"]
    assert fake.received[0].tool_id == "search_offers"


async def test_withheld_data_is_simply_unavailable(tmp_path: Path) -> None:
    """Nothing says why."""
    host, given = RunnerHost(), list[object]()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        given.append(await run.call_tool("search_offers"))
        return ""

    fake = FakeGateway(tools_pb2.CallToolResponse(data_unavailable=tools_pb2.DataUnavailable()))
    async with gateway(fake, tmp_path) as target, hosted(host, tmp_path) as here:
        await here.run(request(gateway_target=target))

    assert given == [DataUnavailable()]


async def test_a_refused_tool_call_raises_the_shared_exception(tmp_path: Path) -> None:
    """A tool outside the contract."""
    host = RunnerHost()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        with pytest.raises(ToolNotAllowed):
            await run.call_tool("delete_everything")
        return "noted"

    fake = FakeGateway(refusal=ToolNotAllowed("not in the contract"))
    async with gateway(fake, tmp_path) as target, hosted(host, tmp_path) as here:
        responses = await here.run(request(gateway_target=target))

    assert responses[0].narration == "noted"


async def test_a_slot_that_is_not_here_is_not_known(tmp_path: Path) -> None:
    """Unless a function was registered for any slot."""
    host = RunnerHost()

    async with hosted(host, tmp_path) as here:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await here.run(request("moon"))

        @host.any_sub_agent(needs_card=False)
        async def anything(run: Run) -> str:
            return run.sub_agent_id

        responses = await here.run(request("moon"))

    assert type(error_from(refused.value, "Run")) is NotFound
    assert responses[0].narration == "moon"


async def test_bytes_that_are_no_request_are_refused_as_such(tmp_path: Path) -> None:
    """Not as an unknown error with the parser's text."""
    async with hosted(RunnerHost(), tmp_path) as here:
        method = here.channel.unary_stream("/subagents.runner.v1.SubAgentRunnerService/Run")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await anext(aiter(method(b"\xff\xff\xff", timeout=5)))

    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert isinstance(error_from(refused.value, "Run"), MalformedMessage | InvalidRequest)


async def test_a_host_says_what_it_can_run_and_that_it_serves(tmp_path: Path) -> None:
    """Slots are sorted; health answers for the host and for the service."""
    host = RunnerHost(software="verticals/7")

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        return ""

    @host.sub_agent("rewards")
    async def rewards(run: Run) -> str:
        return ""

    async with hosted(host, tmp_path) as here:
        described = await here.stub.Describe(runner_pb2.DescribeRequest(), timeout=5)
        health = health_pb2_grpc.HealthStub(here.channel)
        service = health_pb2.HealthCheckRequest(service="subagents.runner.v1.SubAgentRunnerService")
        statuses = [await health.Check(one, timeout=5) for one in (health_pb2.HealthCheckRequest(), service)]

    assert list(described.sub_agent_ids) == ["rewards", "shop"]
    assert (described.max_concurrent_runs, described.software) == (64, "verticals/7")
    assert {one.status for one in statuses} == {health_pb2.HealthCheckResponse.SERVING}


def test_a_function_must_be_async_and_a_slot_has_one() -> None:
    """Both are found when the host is put together."""
    host = RunnerHost()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        return ""

    with pytest.raises(ValueError, match="two functions"):
        host.sub_agent("shop")
    with pytest.raises(TypeError, match="not an async function"):
        host.sub_agent("rewards")(lambda run: None)  # type: ignore[arg-type, return-value]  # the mistake itself


async def _rest(call):  # noqa: ANN001, ANN202 - gRPC's call type has two parameters that say nothing here
    while (response := await call.read()) is not grpc.aio.EOF:
        yield response
