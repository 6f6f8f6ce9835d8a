"""Turns at a fixed rate, whatever becomes of those before, by a client that takes as little of the processor as it can.

`subagents-loadgen` checks every answer and costs nearly as much as the sidecar, so that twice the load is too much for
the generator first. This one sends requests that are made in advance, reads of an answer only what the next request
needs, and says how much processor time it took. It is a process of its own: `python -m tests.system.torture.open_loop`.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc

from sidecar.rpc.authorisation import BOOT_SECRET_KEY
from sidecar.rpc.handler_guard import SENT_AT_KEY
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import outcome_pb2
from tests.system.torture.agents import pause

SERVICE: Final = "/subagents.dispatch.v1.DispatchService"
OPTIONS: Final = (
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),  # or the channels would share one connection
)
CHANNELS: Final = 4
SOON: Final = 0.002
"""Seconds by which a turn may begin early, so that one timer serves several."""


@dataclass(slots=True)
class Tally:
    """What became of the turns that were due while it was measured.

    Attributes:
        done: turns of which each step was answered within its deadline, and each call succeeded.
        failed: turns by the step that failed, and with which status.
        late: seconds by which the generator was late at most.
    """

    due: int = 0
    done: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    late: float = 0.0


class Turns:
    """Carries out turns.

    Args:
        target: address of the sidecar.
        secret: of its dispatch socket.
        deadline: seconds for each step.
        name: makes the ids of this run's turns its own.
    """

    def __init__(self, target: str, secret: str, deadline: float, name: str) -> None:
        self._metadata, self._deadline, self._name = ((BOOT_SECRET_KEY, secret),), deadline, name
        self._channels = [grpc.aio.insecure_channel(target, options=OPTIONS) for _ in range(CHANNELS)]
        self._bind: list[Any] = [each.unary_unary(f"{SERVICE}/BindTurn") for each in self._channels]
        self._dispatch: list[Any] = [each.unary_stream(f"{SERVICE}/Dispatch") for each in self._channels]
        self._end: list[Any] = [each.unary_unary(f"{SERVICE}/EndTurn") for each in self._channels]

    def bind_request(self, number: int) -> bytes:
        """Return the first request of a turn."""
        turn = f"{self._name}-{number}"
        return pb.BindTurnRequest(
            turn_id=turn,
            episode_id=f"e-{turn}",
            principal=f"user-{number % 1000}",
            source=pb.TURN_SOURCE_CHAT,
            locale="en-US",
        ).SerializeToString()

    async def carry_out(self, number: int, bind: bytes) -> str:
        """Carry out one turn; return why it failed, or nothing."""
        place, step = number % CHANNELS, "bind"
        try:
            bound = pb.BindTurnResponse.FromString(await self._sent(self._bind[place], bind))
            step = "dispatch"
            asked = pb.DispatchRequest(
                surface_token=bound.surface_token,
                binding_digest=bound.surface.binding_digest,
                dispatch_id=f"d-{self._name}-{number}",
                calls=[pb.ToolCall(call_id="c", tool_name="ask_shop", arguments_json='{"request":"What is new?"}')],
                task_prompt="A message of the load generator.",
                on_disconnect=pb.ON_DISCONNECT_CANCEL,
            ).SerializeToString()
            frames = [each async for each in self._sent(self._dispatch[place], asked)]
            step = "end"
            end = pb.EndTurnRequest(surface_token=bound.surface_token, narration="Here is what was found.")
            await self._sent(self._end[place], end.SerializeToString())
        except grpc.aio.AioRpcError as error:
            return f"{step} {error.code().name}"
        outcomes = pb.DispatchResponse.FromString(frames[-1]).frame.result.outcomes
        return "" if [each.outcome for each in outcomes] == [outcome_pb2.OUTCOME_SUCCEEDED] else "call FAILED"

    def _sent(self, method: Any, request: bytes) -> Any:
        sent = (SENT_AT_KEY, str(time.monotonic_ns() // 1_000_000))
        return method(request, timeout=self._deadline, metadata=(*self._metadata, sent))

    async def close(self) -> None:
        """Close the connections."""
        for each in self._channels:
            await each.close()


async def closed(turns: Turns, in_flight: int, warm_up: float, seconds: float) -> Tally:
    """Keep so many turns going."""
    tally, clock = Tally(), time.monotonic
    begins = clock() + warm_up
    ends, numbers = begins + seconds, iter(range(10**9))

    async def one_after_the_other() -> None:
        while clock() < ends:
            number, began = next(numbers), clock()
            failed = await turns.carry_out(number, turns.bind_request(number))
            if began < begins or (ended := clock()) >= ends:
                continue
            _note(tally, failed, ended - began)

    await asyncio.gather(*(one_after_the_other() for _ in range(in_flight)))
    return tally


async def opened(turns: Turns, rate: float, warm_up: float, seconds: float, deadline: float) -> Tally:
    """Begin so many turns a second; wait at the end for those that may still succeed."""
    tally, clock, running = Tally(), time.monotonic, set[asyncio.Task[None]]()
    requests = [turns.bind_request(number) for number in range(int(rate * (warm_up + seconds)))]
    start = clock()
    measured = start + warm_up

    async def turn(number: int, due: float) -> None:
        failed = await turns.carry_out(number, requests[number])
        if due >= measured:
            _note(tally, failed, clock() - due)

    for number in range(len(requests)):
        due = start + number / rate
        if (left := due - clock()) > SOON:
            await pause(left)
        elif due >= measured:
            tally.late = max(tally.late, -left)
        task = asyncio.create_task(turn(number, due))
        running.add(task)
        task.add_done_callback(running.discard)
        if not number % 8:
            await asyncio.sleep(0)
    await asyncio.wait(running or {asyncio.create_task(asyncio.sleep(0))}, timeout=3 * deadline)
    return tally


def _note(tally: Tally, failed: str, seconds: float) -> None:
    tally.due += 1
    if failed:
        tally.failed[failed] += 1
    else:
        tally.done += 1
        tally.seconds.append(seconds)


async def measured(options: argparse.Namespace, secret: str) -> dict[str, Any]:
    """Carry out what the command line says; return the figures."""
    turns = Turns(options.target, secret, options.deadline, options.name)
    began, cpu = time.monotonic(), time.process_time()
    if options.rate:
        await closed(turns, 8, 0.0, 0.5)
        tally = await opened(turns, options.rate, options.warm_up, options.seconds, options.deadline)
    else:
        tally = await closed(turns, options.in_flight, options.warm_up, options.seconds)
    took, busy = time.monotonic() - began, time.process_time() - cpu
    await turns.close()
    ordered = sorted(tally.seconds) or [0.0]
    return {
        "per_second": tally.done / options.seconds,
        "due": tally.due,
        "done": tally.done,
        "failed": dict(tally.failed),
        "p50_ms": 1000 * ordered[len(ordered) // 2],
        "p99_ms": 1000 * ordered[int(len(ordered) * 0.99)],
        "late_ms": 1000 * tally.late,
        "cpu_share": busy / took,
    }


def main(arguments: Sequence[str]) -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", required=True)
    parser.add_argument("--secret", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--warm-up", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--deadline", type=float, default=2.0)
    parser.add_argument("--core", type=int, default=-1)
    options = parser.parse_args(arguments)
    if options.core >= 0:
        os.sched_setaffinity(0, {options.core})
    secret = Path(options.secret).read_text(encoding="utf-8").strip()
    sys.stdout.write(json.dumps(asyncio.run(measured(options, secret))))


if __name__ == "__main__":
    main(sys.argv[1:])
