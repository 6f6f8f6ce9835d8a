"""More calls than can be carried: which are refused, and which wait for whom.

No clock decides: the sidecar's is set, and calls say when they were sent.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

import grpc
import pytest
from google.protobuf.message import Message
from grpc import StatusCode

from sidecar.rpc.authorisation import CallAdmission, CallerKind
from sidecar.rpc.handler_guard import SENT_AT_KEY, HandlerContext, ServingRules
from sidecar.rpc.listeners import ListenerPlan, listening
from sidecar.rpc.methods import Call, Method, MethodShape
from sidecar.settings import LimitsSettings
from subagents.dispatch.v1 import dispatch_pb2 as pb
from tests.rpc.raw_calls import DISPATCH, raw, raw_failure
from tests.support.requests import Failure

BIND, DISPATCH_CALLS, END = (DISPATCH + name for name in ("BindTurn", "DispatchUnary", "EndTurn"))
NOW: Final = 1_000_000.0
"""What the sidecar's clock says at first."""
RULES: Final = ServingRules(min_remaining_time=timedelta(seconds=100), longest_wait=timedelta(seconds=1))
PLENTY: Final = 1000.0
MANY: Final = 60
STANDS: Final = 16
"""Late calls within half of the longest wait: their queue stands."""


@dataclass
class Door:
    """A listener whose methods answer at once.

    Attributes:
        now: of the sidecar's clock.
        begun: methods in the order in which their handlers began.
        limits: by which calls were refused.
    """

    channel: grpc.aio.Channel
    now: float = NOW
    begun: list[str] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)

    async def call(self, method: str, sent: str | None, seconds: float = PLENTY) -> bool:
        """Make a call that says when it was sent; return whether it was served."""
        metadata = () if sent is None else ((SENT_AT_KEY, sent),)
        call = raw(self.channel, method, b"", metadata, seconds)
        with suppress(grpc.aio.AioRpcError):
            assert [each async for each in call] == [b""]
        return bool(await call.code() is StatusCode.OK)

    async def waited(self, method: str, seconds: float) -> bool:
        """Make a call that was sent so long ago; return whether it was served."""
        return await self.call(method, str(round((self.now - seconds) * 1000)))

    async def stands(self, method: str, seconds: float) -> None:
        """Make calls that are all served, and have all waited so long, for half a second."""
        for number in range(STANDS):
            self.now += 0.5 * (number == STANDS - 1)
            assert await self.waited(method, seconds)

    async def failure(self, seconds_ago: float) -> Failure:
        """Make a bind that has to fail."""
        return await raw_failure(
            self.channel, BIND, b"", ((SENT_AT_KEY, str(int((self.now - seconds_ago) * 1000))),), PLENTY
        )


@asynccontextmanager
async def door(folder: Path) -> AsyncIterator[Door]:
    """Listen as the dispatch socket does."""

    def method(name: str, answer: Message, **kind: bool) -> Method:
        async def handle(_: Message, call: Call) -> Message:
            opened.begun.append(name)
            return answer

        return Method(name, MethodShape.ONE_TO_ONE, type(answer).FromString, handle, own_queue=True, **kind)

    path = folder / "s.sock"
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
        opened = Door(channel)
        around = HandlerContext(
            on_defect=lambda *_: None,
            correlation_id=lambda: "",
            rules=RULES,
            on_limit=opened.limits.append,
            sent_clock=lambda: opened.now,
        )
        methods = (
            method(BIND, pb.BindTurnResponse(), begins_work=True),
            method(DISPATCH_CALLS, pb.DispatchUnaryResponse()),
            method(END, pb.EndTurnResponse(), ends_work=True),
        )
        plan = ListenerPlan(path, CallAdmission(CallerKind.CONSUMER_AGENT), (), methods, 1024, reflection=False)
        async with listening(plan, around, LimitsSettings()):
            yield opened


async def test_a_bind_that_has_waited_too_long_is_refused_before_anything_is_done_for_it(tmp_path: Path) -> None:
    """Binds come out of their queue late for half a second: one that waited 1.1 s is told at once when to come back.

    The same wait does not refuse a dispatch, nor a bind once another one was in time.
    """
    async with door(tmp_path) as at:
        await at.stands(BIND, 0.9)
        refused = await at.failure(1.1)
        assert (refused.code, refused.reason) == (StatusCode.RESOURCE_EXHAUSTED, "ADMISSION_REFUSED")
        assert (refused.metadata, refused.retry_after) == ({"limit": "wait"}, 1.0)
        assert await at.waited(DISPATCH_CALLS, 1.1)
        assert (at.begun, at.limits) == ([BIND] * STANDS + [DISPATCH_CALLS], ["wait"])
        assert await at.waited(BIND, 0.1)
        assert await at.waited(BIND, 1.1)


async def test_after_a_pause_of_the_event_loop_every_call_is_served(tmp_path: Path) -> None:
    """For three seconds nothing was: 20 turns have waited, some to be bound; all come at once, and none is refused."""
    async with door(tmp_path) as at:
        for seconds in (3.0, 2.0, 1.2, 0.7):
            for method in (DISPATCH_CALLS, BIND, END, BIND, DISPATCH_CALLS):
                assert await at.waited(method, seconds)
        assert await at.waited(BIND, 0)


@pytest.mark.parametrize(
    "sent", [None, "", "soon", str(round((NOW - 31) * 1000)), str(round((NOW + 5) * 1000)), "9" * 400]
)
async def test_a_client_that_does_not_say_when_or_cannot_be_right_is_not_refused_for_it(
    sent: str | None, tmp_path: Path
) -> None:
    """No header, no number, another clock."""
    async with door(tmp_path) as at:
        assert await at.call(BIND, sent)


async def test_while_calls_of_bound_turns_wait_no_turn_is_bound(tmp_path: Path) -> None:
    """Dispatches wait 0.6 s: for as long binds are refused, though they come at once; ends are served."""
    async with door(tmp_path) as at:
        await at.stands(DISPATCH_CALLS, 0.6)
        at.now += 0.5
        assert not await at.waited(BIND, 0)
        assert await at.waited(END, 0)
        at.now += 0.2
        assert await at.waited(BIND, 0)
        assert at.limits == ["wait"]


async def test_an_end_is_served_however_little_time_is_left(tmp_path: Path) -> None:
    """It makes room for others; a bind with as little is refused, as its answer would come too late."""
    async with door(tmp_path) as at:
        assert not await at.call(BIND, None, seconds=50)
        assert await at.call(END, None, seconds=50)
        assert at.limits == ["time_left"]


async def test_an_end_does_not_wait_behind_the_binds_of_others(tmp_path: Path) -> None:
    """It is sent after 60 binds, at one go: it is served when a few of them are, and not as the last one."""
    async with door(tmp_path) as at:
        await at.call(BIND, None)  # while there is no connection, calls do not wait in order
        calls = [asyncio.create_task(at.call(BIND, None)) for _ in range(MANY)]
        calls.append(asyncio.create_task(at.call(END, None)))
        await asyncio.gather(*calls)
        assert len(at.begun) == MANY + 2
        assert at.begun.index(END) < MANY / 2
