"""What the processes of durable peers have in common: turns are run when standard input asks for them."""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from scripts.benchmark.definitions import ANSWER, MOST_CHILDREN
from scripts.benchmark.processes import cpu_seconds
from scripts.benchmark.serving import READY

Turn = Callable[[], Awaitable[Sequence[str]]]
"""Runs one turn and returns the answers of its sub-agents."""

WARM_UP: Final = 3
"""Turns before a target is first measured, beside the one of the bench: some peers begin slowly."""


class WrongTurn(Exception):
    """Not every sub-agent answered; nothing is measured then."""


async def answer(turns: Mapping[str, Turn], others: Sequence[int] = ()) -> None:
    """Say that all is ready, and run turns until standard input ends.

    Each line of input has a target and a number of turns; the answer has latencies and the CPU time of this process
    and of `others`, in seconds, as a line of JSON.
    """
    print(READY, flush=True)
    warm: set[str] = set()
    while line := await asyncio.to_thread(sys.stdin.readline):
        asked = json.loads(line)
        turn = turns[asked["target"]]
        if asked["target"] not in warm:
            warm.add(asked["target"])
            await _latencies(turn, WARM_UP)
        cpu = _cpu_seconds(others)
        latencies = await _latencies(turn, asked["turns"])
        print(json.dumps({"latencies": latencies, "cpu": _cpu_seconds(others) - cpu}), flush=True)


async def _latencies(turn: Turn, turns: int) -> list[float]:
    taken = []
    for _ in range(turns):
        began = time.perf_counter()
        answers = await turn()
        taken.append(time.perf_counter() - began)
        if list(answers) != [ANSWER] * MOST_CHILDREN:
            raise WrongTurn(f"{MOST_CHILDREN} sub-agents should have answered; the results are {answers}")
    return taken


def _cpu_seconds(others: Sequence[int]) -> float:
    return time.process_time() + sum(cpu_seconds(pid) for pid in others)
