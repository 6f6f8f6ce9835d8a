"""Nothing is lost when a lane breaks: a whole turn, with the lane cut off before and after each of its messages.

The SDK does what an application would: a bind, a dispatch whose call is cancelled, one that is answered, and the end.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import pytest

from sidecar.rpc.session.rules import SessionRules
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents_client import Outcome, SidecarClient, StartState, ToolCall, TurnRequest
from subagents_client.session.lane import Lane, Stream
from tests.support.fake_runner import hangs
from tests.support.harness import SECRET, SidecarForTests, running_sidecar_for_tests

RULES: Final = SessionRules(resume_grace=timedelta(hours=1))
HELLOS: Final = 2
MESSAGES: Final = 14
"""More than the turn has, in both directions together; the last cuts therefore cut nothing."""
CALL: Final = ToolCall("call-1", "ask_shop", '{"request": "what is new?"}')
OTHER: Final = ToolCall("call-2", "ask_rewards", '{"request": "what is new?"}')


@dataclass
class Scissors:
    """Cuts the lane at one message; further lanes are whole.

    Attributes:
        at: which message, counted over both directions, hellos included.
        delivered: whether that one still arrives.
    """

    at: int
    delivered: bool
    count: int = 0
    lanes: list[Any] = field(default_factory=list)

    def wrapped(self, stream: Any) -> Stream:
        """Count the messages of a lane."""
        self.lanes.append(stream)
        return CutStream(stream, self)

    def cuts(self) -> bool:
        """Count one message; say whether this is the one."""
        self.count += 1
        return self.count == self.at


class CutStream:
    """A call of `Session` that breaks where the scissors say."""

    def __init__(self, call: Any, scissors: Scissors) -> None:
        """Begin."""
        self._call = call
        self._scissors = scissors

    async def write(self, request: pb.SessionRequest) -> None:
        """Send, unless this is where it breaks."""
        cut = self._scissors.cuts()
        if not cut or self._scissors.delivered:
            await self._call.write(request)
        if cut:
            await self._broken()

    async def read(self) -> Any:
        """Receive, unless this is where it breaks."""
        message = await self._call.read()
        cut = self._scissors.cuts()
        if cut and not self._scissors.delivered:
            await self._broken()
        if cut:
            self._call.cancel()
        return message

    async def done_writing(self) -> None:
        """Close this side."""
        await self._call.done_writing()

    def cancel(self) -> bool:
        """Break it off."""
        return bool(self._call.cancel())

    async def _broken(self) -> None:
        self._call.cancel()
        raise ConnectionError("cut")


def client_of(sidecar: SidecarForTests, scissors: Scissors) -> SidecarClient:
    """Return an SDK whose lanes go through the scissors."""
    client = SidecarClient.connect(sidecar.dispatch_target, boot_secret=SECRET)
    lanes: Any = client._wire.lanes
    plain = lanes._open_stream
    lanes._open_stream = lambda seconds: scissors.wrapped(plain(seconds))
    return client


async def on_a_lane(client: SidecarClient) -> Lane | None:
    """Wait until the lane that is being opened is there."""
    lanes: Any = client._wire.lanes
    lane: Lane | None = await lanes.ready()
    return lane


@pytest.mark.parametrize("delivered", [False, True], ids=["lost", "delivered"])
@pytest.mark.parametrize("at", range(1, MESSAGES + 1))
async def test_a_turn_comes_to_its_end_wherever_its_lane_is_cut(at: int, delivered: bool) -> None:
    """Every outcome is the sidecar's own, every call ran at most once, and the turn has ended as it was asked to."""
    scissors = Scissors(at, delivered)
    async with running_sidecar_for_tests(session=RULES) as sidecar, client_of(sidecar, scissors) as client:
        sidecar.runner.use("shop", hangs())
        turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1"))
        lane = await on_a_lane(client)
        again = await client.bind_turn(TurnRequest(principal="user-1", episode_id="e-2", turn_id="turn-2"))
        async with turn.dispatch([CALL], dispatch_id="d-1") as stream:
            reading = asyncio.create_task(stream.result())
            await sidecar.runner.until_started("shop")
            assert await turn.cancel_call("d-1", "call-1") in (True, False)
            first = await reading
        second = await turn.dispatch_and_wait([OTHER], dispatch_id="d-2")
        end = await turn.end("I found this.")
        repeated = await turn.end("I found this.")
    assert again.binding.surface_token
    assert (first.synthesised, second.synthesised) == (False, False)
    assert [each.outcome for each in (*first.outcomes, *second.outcomes)] == [Outcome.FAILED, Outcome.SUCCEEDED]
    assert first.outcomes[0].status is not None
    assert first.outcomes[0].status.reason == "CALL_CANCELLED"
    assert [child.sub_agent_id for child in end.children] == ["shop", "rewards"]
    assert repeated.state is StartState.ATTACHED
    assert sidecar.runner.started == ["shop", "rewards"]
    assert lane is not None or at <= HELLOS
