"""How long a stop waits, for what, and what it says meanwhile; in virtual time."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sidecar.adapters.virtual_time import Trace, VirtualLoop, simulate
from sidecar.operations.process.draining import TELL_SECONDS, Drain, DrainProgress, DrainRules
from sidecar.operations.turn.state.dispatch_stages import DispatchStage

RULES = DrainRules(grace=110.0, margin=5.0, end_within=4.0, outlived=True)


@dataclass
class OneDispatch:
    """A dispatch that runs until it is finished."""

    turn: Any
    dispatch_id: str = "d-1"
    ownership: Any = field(default_factory=lambda: SimpleNamespace(here=True))
    received_at: float = 0.0
    stage: DispatchStage = DispatchStage.OPEN


@dataclass
class OneTurn:
    """As much of a turn as a drain looks at."""

    turn_id: str
    works: int = 0
    ending: Any = field(default_factory=lambda: SimpleNamespace(closed=None))
    dispatches: dict[str, OneDispatch] = field(default_factory=dict)
    uncertain: bool = False
    late: tuple[()] = ()
    children: dict[str, Any] = field(default_factory=dict)


class SomeTurns(list[OneTurn]):
    """Turns, with the count of those that work."""

    @property
    def working(self) -> Any:
        """Count them."""
        return SimpleNamespace(taken=sum(turn.works > 0 for turn in self))


class ClockOfTheLoop:
    """Says the loop's time."""

    def monotonic(self) -> float:
        """Return it."""
        return asyncio.get_running_loop().time()


def a_turn(turn_id: str, *, works: bool) -> OneTurn:
    """Return a turn that has dispatched."""
    turn = OneTurn(turn_id, works=int(works))
    turn.dispatches["d-1"] = OneDispatch(turn)
    turn.dispatches["d-1"].stage = DispatchStage.OPEN if works else DispatchStage.FINISHED
    return turn


def waited(
    turns: SomeTurns, *later: tuple[float, Callable[[], object]], calls: dict[str, int] | None = None
) -> tuple[float, list[DrainProgress]]:
    """Drain while things happen; return how many seconds it took, and what it said."""
    loop, told = VirtualLoop(Random(1), Trace()), list[DrainProgress]()
    drain = Drain(RULES, cast("Any", turns), cast("Any", None), lambda: calls or {}, cast("Any", ClockOfTheLoop()))

    async def happen() -> float:
        began = loop.time()
        for at, what in later:
            loop.call_at(began + at, what)
        await drain.wait(asyncio.Event(), told.append)
        return loop.time() - began

    return simulate(loop, happen()), told


def test_a_turn_that_is_never_ended_costs_the_margin_and_not_the_grace() -> None:
    """Its calls were over long before: 5 seconds, not 110. One that never dispatched costs nothing."""
    assert waited(SomeTurns([a_turn("t-1", works=False)]))[0] == pytest.approx(5.0, abs=0.1)
    assert waited(SomeTurns([OneTurn("t-2")]))[0] == 0.0


def test_a_stop_is_over_as_soon_as_the_last_turn_is_ended() -> None:
    """The call is over after 20 seconds, and the parent ends the turn 2 seconds later."""
    turn = a_turn("t-1", works=True)
    ends = ((20.0, lambda: setattr(turn, "works", 0)), (22.0, lambda: setattr(turn.ending, "closed", True)))
    assert waited(SomeTurns([turn]), *ends)[0] == pytest.approx(22.0, abs=0.1)


def test_the_margin_begins_anew_when_work_begins_again() -> None:
    """A second dispatch of the turn begins 4 seconds after the first was over, and takes 10."""
    turn = a_turn("t-1", works=True)
    steps = ((10.0, 0), (14.0, 1), (24.0, 0))
    later = [(at, lambda works=works: setattr(turn, "works", works)) for at, works in steps]
    assert waited(SomeTurns([turn]), *later)[0] == pytest.approx(29.0, abs=0.1)


def test_what_runs_is_waited_for_until_the_grace_is_over() -> None:
    """A call that hangs, or an answer that nobody reads."""
    assert waited(SomeTurns([a_turn("t-1", works=True)]))[0] == pytest.approx(110.0, abs=0.1)
    assert waited(SomeTurns(), calls={"/a/Dispatch": 1})[0] == pytest.approx(110.0, abs=0.1)


def test_it_says_every_few_seconds_what_it_waits_for_and_names_the_oldest() -> None:
    """Two dispatches run, the later one first in order of binding; one turn is at rest."""
    turns = SomeTurns([a_turn("t-1", works=True), a_turn("t-2", works=True), a_turn("t-3", works=False)])
    turns[0].dispatches["d-1"].received_at = 9.0
    _, told = waited(turns, calls={"/a/Dispatch": 2})

    assert len(told) == int(110.0 / TELL_SECONDS) - 1
    assert told[0] == DrainProgress({"/a/Dispatch": 2}, 2, 1, ("d-1 of t-2", "d-1 of t-1", "t-3"))
