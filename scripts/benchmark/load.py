"""The load generator: a closed loop that keeps a fixed number of requests in flight."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from scripts.benchmark.processes import Server

Call = Callable[[Any], Awaitable[int]]
"""Sends one prepared request, checks the answer, and returns how many messages it took."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one target did in one round.

    Attributes:
        rate: requests per second.
        p50: median latency, in seconds.
        cpu: CPU time of the server process per request, in seconds.
        messages: most messages that one answer took.
        mean_messages: messages of an answer, on average.
    """

    rate: float
    p50: float
    cpu: float
    messages: int
    mean_messages: float


async def measure(server: Server, call: Call, requests: Sequence[Any], in_flight: int) -> Sample:
    """Send `requests`, `in_flight` at a time.

    Raises whatever `call` raises: a wrong answer is no measurement.
    """
    waiting = iter(requests)
    latencies: list[float] = []
    messages: list[int] = []
    cpu, began = server.cpu_seconds(), time.perf_counter()
    await asyncio.gather(*(_one_after_the_other(call, waiting, latencies, messages) for _ in range(in_flight)))
    seconds, cpu = time.perf_counter() - began, server.cpu_seconds() - cpu
    count = len(requests)
    return Sample(count / seconds, median(latencies), cpu / count, max(messages), mean(messages))


async def _one_after_the_other(call: Call, waiting: Iterator[Any], latencies: list[float], messages: list[int]) -> None:
    for request in waiting:
        began = time.perf_counter()
        messages.append(await call(request))
        latencies.append(time.perf_counter() - began)
