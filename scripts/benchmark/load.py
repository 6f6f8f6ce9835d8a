"""The load generators: a closed loop that keeps a fixed number of requests in flight, an open one with a fixed rate."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any, Final

from scripts.benchmark.processes import Server
from subagents_loadgen.loops import arrival_times
from subagents_loadgen.plan import Arrivals, Load

Call = Callable[[Any], Awaitable[int]]
"""Sends one prepared request, checks the answer, and returns how many messages it took."""

TIMER_SECONDS: Final = 0.001
"""How exact the loop's timers are. A request that is sent so late was not kept waiting by any server."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one target did in one round.

    Attributes:
        rate: requests per second.
        p50: median latency, in seconds.
        cpu: CPU time of the server process per request, in seconds.
        messages: most messages that one answer took.
        mean_messages: messages of an answer, on average.
        p99: latency that one request in a hundred exceeds, in seconds.
        seen: every latency, where those of all rounds are looked at together; in seconds.
        kept_bytes: memory that the server keeps for each request afterwards, where that is what is measured.
        not_listed: facts on record that lists lacked at the end, of a sidecar with a record in SQLite.
    """

    rate: float
    p50: float
    cpu: float
    messages: int
    mean_messages: float
    p99: float = 0.0
    seen: tuple[float, ...] = ()
    kept_bytes: float = 0.0
    not_listed: int | None = None


def sample_of(latencies: Sequence[float], rate: float, cpu: float) -> Sample:
    """Return a sample that keeps every latency."""
    ordered = sorted(latencies)
    return Sample(rate, median(ordered), cpu, 1, 1.0, p99_of(ordered), tuple(latencies))


def p99_of(latencies: Sequence[float]) -> float:
    """Return the latency that one in a hundred exceeds; of fewer than a hundred, the largest."""
    return sorted(latencies)[math.ceil(len(latencies) * 0.99) - 1]


async def measure(server: Server, call: Call, requests: Sequence[Any], in_flight: int) -> Sample:
    """Send `requests`, `in_flight` at a time.

    Raises whatever `call` raises: a wrong answer is no measurement.
    """
    waiting, taken = iter(requests), _Taken()
    cpu, began = server.cpu_seconds(), time.perf_counter()
    await asyncio.gather(*(_one_after_the_other(call, waiting, taken) for _ in range(in_flight)))
    return taken.sample(time.perf_counter() - began, server.cpu_seconds() - cpu)


async def measure_open(server: Server, call: Call, requests: Sequence[Any], rate: float, seed: int) -> Sample:
    """Send `requests` at random times, `rate` a second, whatever becomes of those before.

    Latency counts from when a request was due. Raises whatever `call` raises: a wrong answer is no measurement.
    """
    taken = _Taken()
    cpu, began = server.cpu_seconds(), time.perf_counter()
    try:
        await _send_when_due(call, requests, arrival_times(_random(rate), seed), taken)
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None  # as a closed loop would
    return taken.sample(time.perf_counter() - began, server.cpu_seconds() - cpu)


def _random(rate: float) -> Load:
    return Load(rate, in_flight=0, seconds=math.inf, arrivals=Arrivals.POISSON)


async def _send_when_due(call: Call, requests: Sequence[Any], arrivals: Iterator[float], taken: "_Taken") -> None:
    began = time.perf_counter()
    async with asyncio.TaskGroup() as running:
        for request, offset in zip(requests, arrivals, strict=False):
            due = began + offset
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            running.create_task(_since(min(time.perf_counter(), due + TIMER_SECONDS), call, request, taken))


class _Taken:
    """What requests took."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self.messages: list[int] = []

    def sample(self, seconds: float, cpu: float) -> Sample:
        count, ordered = len(self.latencies), sorted(self.latencies)
        messages = max(self.messages), mean(self.messages)
        return Sample(count / seconds, median(ordered), cpu / count, *messages, p99_of(ordered))


async def _one_after_the_other(call: Call, waiting: Iterator[Any], taken: _Taken) -> None:
    for request in waiting:
        await _since(time.perf_counter(), call, request, taken)


async def _since(began: float, call: Call, request: Any, taken: _Taken) -> None:
    taken.messages.append(await call(request))
    taken.latencies.append(time.perf_counter() - began)
