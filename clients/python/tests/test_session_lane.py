"""The client uses a session lane where there is one, and else the plain RPCs; an application sees no difference."""

import asyncio
from datetime import timedelta
from typing import Any

import grpc
import pytest

from subagents.dispatch.v1 import dispatch_pb2
from subagents_client import Outcome, SidecarClient, ToolCall, TurnRequest
from subagents_client.runtime import ClientRuntime
from subagents_client.session.lane import Lane
from subagents_errors import AdmissionRefused, InvalidRequest, SubagentsError
from tests.support.fake_runner import hangs
from tests.support.harness import SECRET, SidecarForTests, running_sidecar_for_tests
from tests.support.lane_stub import session_rules

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CALLS = [ToolCall("call-1", "ask_shop", '{"request": "what is new?"}')]


async def a_turn(client: SidecarClient, turn_id: str) -> Outcome:
    """Bind, dispatch and end; the lane is opened meanwhile, if any."""
    turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="e-1", turn_id=turn_id))
    await lanes_of(client).ready()
    result = await turn.dispatch_and_wait(CALLS)
    await turn.end("Here it is.")
    return result.outcomes[0].outcome


def lanes_of(client: SidecarClient) -> Any:
    """Look into a client."""
    return client._wire.lanes


def connected(sidecar: SidecarForTests, **chosen: Any) -> SidecarClient:
    """Return a client."""
    return SidecarClient.connect(sidecar.dispatch_target, boot_secret=SECRET, **chosen)


def carried(sidecar: SidecarForTests) -> dict[str, int]:
    """Return which operations lanes have carried."""
    return {name.rpartition("/")[2]: count for (name, _), count in sidecar.lane_counts.operations.items()}


async def test_turns_travel_over_a_lane_once_the_first_bind_has_said_that_there_is_one() -> None:
    """The first bind is a plain RPC, everything after it is not; at the end the lane is closed."""
    async with running_sidecar_for_tests() as sidecar:
        async with connected(sidecar) as client:
            assert await a_turn(client, "turn-1") is Outcome.SUCCEEDED
            assert await a_turn(client, "turn-2") is Outcome.SUCCEEDED
        assert carried(sidecar) == {"Dispatch": 2, "EndTurn": 2, "BindTurn": 1}


async def test_a_client_can_be_told_not_to_use_lanes() -> None:
    """`session_lane=False`."""
    async with running_sidecar_for_tests() as sidecar, connected(sidecar, session_lane=False) as client:
        assert await a_turn(client, "turn-1") is Outcome.SUCCEEDED
        assert carried(sidecar) == {}


async def test_where_a_lane_is_refused_turns_travel_without_one() -> None:
    """No room for another lane: the plain RPCs serve, and the sidecar is not asked for a lane with each turn."""
    async with running_sidecar_for_tests(session=session_rules(most_lanes=0)) as sidecar, connected(sidecar) as client:
        for number in range(3):
            assert await a_turn(client, f"turn-{number}") is Outcome.SUCCEEDED
        assert carried(sidecar) == {}
        assert len(sidecar.limits) < 3


async def test_a_sidecar_that_is_about_to_stop_gets_its_last_operations_and_no_new_lane() -> None:
    """What is in flight ends on the lane; what comes after it is a plain RPC."""
    async with running_sidecar_for_tests() as sidecar, connected(sidecar) as client:
        assert await a_turn(client, "turn-1") is Outcome.SUCCEEDED
        sidecar.lanes.drain()
        assert await a_turn(client, "turn-2") is Outcome.SUCCEEDED


async def test_a_new_lane_takes_over_when_the_old_one_drains() -> None:
    """The client closes the old one by itself, once nothing is in flight there."""
    async with running_sidecar_for_tests() as sidecar, connected(sidecar) as client:
        assert await a_turn(client, "turn-1") is Outcome.SUCCEEDED
        lanes = lanes_of(client)
        old = lanes.current()
        old.draining = True
        lanes.current()
        await asyncio.wait((lanes._opening,))
        assert lanes.current() is not old
        assert await a_turn(client, "turn-2") is Outcome.SUCCEEDED
        async with asyncio.timeout(10):
            while sidecar.lane_counts.lanes > 1:
                await a_turn(client, f"turn-{sidecar.lane_counts.operations.total()}")


async def test_errors_over_a_lane_are_the_same_exceptions() -> None:
    """With their fields; what is overloaded is asked again."""
    async with running_sidecar_for_tests(session=session_rules(most_operations=1)) as sidecar:
        async with connected(sidecar) as client:
            await a_turn(client, "turn-1")
            with pytest.raises(InvalidRequest) as refused:
                await client.bind_turn(TurnRequest(principal="user-1", episode_id="not an id"))
            assert [each.field for each in refused.value.fields] == ["episode_id"]
            many = [a_turn(client, f"turn-{number}") for number in range(2, 5)]
            done = await asyncio.gather(*many, return_exceptions=True)
        assert all(each is Outcome.SUCCEEDED or isinstance(each, AdmissionRefused) for each in done)
        assert Outcome.SUCCEEDED in done


@pytest.mark.parametrize("session_lane", [True, False])
async def test_a_client_that_is_closed_has_gone_away_at_once(session_lane: bool) -> None:
    """What it left running is cancelled, by default, and not only when a grace of an hour is over."""
    async with running_sidecar_for_tests(session=session_rules(resume_grace=timedelta(hours=1))) as sidecar:
        sidecar.runner.use("shop", hangs())
        client = connected(sidecar, session_lane=session_lane)
        turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="e-1"))
        await lanes_of(client).ready()
        waiting = asyncio.create_task(turn.dispatch_and_wait(CALLS))
        await sidecar.runner.until_started("shop")
        await client.close()
        await sidecar.runner.until_cancelled("shop")
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


@pytest.mark.parametrize("session_lane", [True, False])
async def test_requests_carry_the_trace_that_they_belong_to(session_lane: bool) -> None:
    """As `opentelemetry.propagate.inject` names it."""
    runtime = ClientRuntime(trace_headers=lambda: {"traceparent": TRACEPARENT})
    async with running_sidecar_for_tests() as sidecar:
        async with connected(sidecar, session_lane=session_lane, runtime=runtime) as client:
            await a_turn(client, "turn-1")
        assert sidecar.runner.request_of("shop").trace_headers["traceparent"] == TRACEPARENT


async def test_a_request_that_is_too_large_for_a_lane_harms_no_other_operation() -> None:
    """It goes as a plain RPC, which says what is wrong; on the lane it would end every dispatch's stream."""
    async with running_sidecar_for_tests() as sidecar, connected(sidecar) as client:
        assert await a_turn(client, "turn-1") is Outcome.SUCCEEDED
        lane = lanes_of(client).current()
        turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="e-1", turn_id="turn-2"))
        with pytest.raises(SubagentsError):
            await turn.end("x" * lane.hello.max_message_bytes)
        assert lanes_of(client).current() is lane
        assert await a_turn(client, "turn-3") is Outcome.SUCCEEDED


async def test_operations_beyond_the_most_that_a_lane_carries_travel_without_it() -> None:
    """The lane would refuse each of them, to be tried again."""
    rules = session_rules(most_operations=1)
    async with running_sidecar_for_tests(session=rules) as sidecar, connected(sidecar) as client:
        assert await a_turn(client, "turn-1") is Outcome.SUCCEEDED
        outcomes = await asyncio.gather(*(a_turn(client, f"turn-{at}") for at in range(2, 8)))
    assert set(outcomes) == {Outcome.SUCCEEDED}
    assert sidecar.limits == []


async def test_a_lane_whose_sidecar_falls_silent_is_broken_off() -> None:
    """Three intervals without a word; operations fail as on a broken connection, and travel without the lane."""
    stream = SilentStream(timedelta(milliseconds=10))
    lane = Lane(stream)
    running = asyncio.create_task(lane.run())
    async with asyncio.timeout(10):
        await lane.opened.wait()
        operation = lane.send("cancel_call", dispatch_pb2.CancelCallRequest())
        with pytest.raises(grpc.aio.AioRpcError):
            await operation.read()
        await running
    assert lane.over
    assert any(message.HasField("heartbeat") for message in stream.written)  # how many, the load of the machine decides


class SilentStream:
    """A call of `Session` that says hello and nothing more."""

    def __init__(self, interval: timedelta) -> None:
        self.written: list[dispatch_pb2.SessionRequest] = []
        self._hello = dispatch_pb2.SessionResponse()
        self._hello.hello.heartbeat_interval.FromTimedelta(interval)
        self._read = False
        self._ended = asyncio.Event()

    async def write(self, request: dispatch_pb2.SessionRequest) -> None:
        """Keep it."""
        self.written.append(request)

    async def read(self) -> Any:
        """Return the hello, then wait for the end."""
        if not self._read:
            self._read = True
            return self._hello
        await self._ended.wait()
        return grpc.aio.EOF

    async def done_writing(self) -> None:
        """Do nothing."""

    def cancel(self) -> bool:
        """End."""
        self._ended.set()
        return True
