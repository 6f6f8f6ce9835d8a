"""Requests at times of their own, whatever becomes of those before."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from scripts.benchmark.load import measure, measure_open
from scripts.benchmark.processes import Server

IDLE = cast(Server, SimpleNamespace(cpu_seconds=lambda: 0.0))
"""A server that uses no CPU; nothing else is asked of it."""


async def test_a_closed_loop_waits_for_answers_an_open_one_does_not() -> None:
    """Nobody is answered until all five have been sent, which only an open loop does with one connection."""
    sent, everybody = [], asyncio.Event()

    async def call(request: Any) -> int:
        sent.append(request)
        if len(sent) == 5:
            everybody.set()
        await everybody.wait()
        return 1

    sample = await measure_open(IDLE, call, range(5), rate=10_000, seed=0)

    assert sent == [0, 1, 2, 3, 4]
    assert sample.messages == 1
    assert sample.p99 >= sample.p50 > 0


async def test_every_request_is_measured_once() -> None:
    """Three in flight, ten requests: ten calls, and the largest number of messages."""
    seen: list[int] = []

    async def call(request: int) -> int:
        seen.append(request)
        await asyncio.sleep(0)
        return request

    sample = await measure(IDLE, call, range(10), 3)

    assert sorted(seen) == list(range(10))
    assert (sample.messages, sample.mean_messages) == (9, 4.5)


async def test_a_wrong_answer_in_an_open_loop_is_no_measurement() -> None:
    """What a call raises comes out."""

    async def call(request: Any) -> int:
        raise LookupError(request)

    with pytest.raises(LookupError, match="first"):
        await measure_open(IDLE, call, ["first"], rate=1000, seed=0)
