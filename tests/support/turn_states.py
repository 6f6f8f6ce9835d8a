"""Turns, dispatches and children outside any sidecar, and what can be seen of their state."""

from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, Final

import pytest

from sidecar.core.binding.bind import BindingRules
from sidecar.core.binding.surface import Surface
from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.dispatching.calls import ToolCall
from sidecar.core.dispatching.frames import EventLog
from sidecar.core.dispatching.intents import IntentReport
from sidecar.core.dispatching.outcomes import CallOutcome, Outcome
from sidecar.core.dispatching.plan import PlannedCall, outcomes_without_run, plan_dispatch
from sidecar.core.dispatching.slot_queues import SlotQueues
from sidecar.core.errors import ChildClosed
from sidecar.core.identifiers import CallId, Digest, DispatchId, EpisodeId, Principal, TurnId
from sidecar.core.journal.making.child_log import ChildLog
from sidecar.operations.first_result import FirstResult
from sidecar.operations.requests import DispatchRequest
from sidecar.operations.rules import DispatchRules
from sidecar.operations.turn.child.open_child import make_child
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.live_dispatch import LiveDispatch
from sidecar.operations.turn.state.open_turns import Turn
from sidecar.operations.turn.state.transitions import IllegalTransition
from sidecar.operations.turn.state.turn import Origin
from subagents_errors import CallFailure
from tests.support.builders import a_surface
from tests.support.harness import VOCABULARY, KeepingRecorder

NOW: Final = datetime(2026, 11, 23, 12, tzinfo=UTC)
SLOTS: Final = ("shop", "rewards")
OURS: Final = "sidecar.operations.turn.state"


class StoppedClock:
    """It is always noon."""

    def now(self) -> datetime:
        """Return it."""
        return NOW

    def monotonic(self) -> float:
        """Return a time of the loop's clock."""
        return 100.0


class CountingIds:
    """Ids that count."""

    def __init__(self) -> None:
        self._made = 0

    def new(self, kind: str) -> str:
        """Return the next."""
        self._made += 1
        return f"{kind}-{self._made}"


IDS: Final = CountingIds()


@cache
def _surface() -> Surface:
    """Return the same one for all: it cannot be changed."""
    return a_surface(*SLOTS)


def a_turn(origin: Origin = Origin.BOUND_HERE) -> Turn:
    """Return a turn that may call `shop` and `rewards`."""
    claims = SurfaceClaims(
        turn_id=TurnId("t"),
        episode_id=EpisodeId("e"),
        principal=Principal("user-1"),
        source="chat",
        locale=None,
        location=None,
        date="2026-11-23",
        orchestrator_digest=Digest("sha256:0"),
        orchestrator_id="concierge",
        tools=(),
        candidates=(),
        versions=("d-1", "b-1", "c-1"),
        flags=(),
        arm="",
        previous=None,
        fan_out_cap=3,
        max_dispatches=4,
        bound_at=NOW,
        expires_at=NOW + timedelta(minutes=15),
    )
    return Turn(claims, "token", _surface(), 1000.0, origin=origin)


def a_dispatch(turn: Turn, name: str, *, elsewhere: bool = False) -> LiveDispatch:
    """Return a dispatch of one call of each, with room for all; it begins here, or is known from the record."""
    calls = tuple(ToolCall(CallId(slot), f"ask_{slot}", '{"request": "hello"}') for slot in SLOTS)
    request = DispatchRequest("token", turn.surface.binding_digest, DispatchId(name), calls)
    return LiveDispatch(
        request,
        turn,
        plan_dispatch(turn.surface, calls, turn.next_step, places=len(calls)),
        IntentReport(2, 2, switched=False, prior_context_missing=False),
        clock=StoppedClock(),
        recorder=KeepingRecorder(),
        rules=DispatchRules(binding=BindingRules(3, 4), vocabulary=VOCABULARY),
        settle_by=NOW + timedelta(seconds=30) if elsewhere else None,
    )


def a_child(dispatch: LiveDispatch, planned: PlannedCall) -> Child:
    """Return a child of a dispatch, which runs."""
    return make_child(dispatch, planned, StoppedClock().monotonic(), IDS).child


def an_outcome(planned: PlannedCall, outcome: Outcome) -> CallOutcome:
    """Return an outcome of a call."""
    return outcomes_without_run(planned, outcome, CallFailure.INTERNAL)


def seen(thing: Any, around: tuple[int, ...] = ()) -> Any:
    """Return all that a state is made of, so that two can be compared: what refuses a transition changes none of it."""
    if id(thing) in around:
        return "as above"
    inside = (*around, id(thing))
    if isinstance(thing, list | tuple | set | deque):
        return [seen(each, inside) for each in thing]
    parts = thing if isinstance(thing, dict) else _parts(thing)
    return thing if parts is None else {key: seen(part, inside) for key, part in parts.items()}


def _parts(thing: Any) -> dict[str, Any] | None:
    """Return what an object of ours is made of; None for anything else."""
    if isinstance(thing, FirstResult):
        return {"settled": thing.settled, "how": thing.how}
    ours = type(thing).__module__.startswith(OURS) or isinstance(thing, ChildLog | EventLog | SlotQueues)
    if not ours or isinstance(thing, Enum):
        return None
    names = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())] or list(vars(thing))
    return {name: getattr(thing, name) for name in names}


def tried(thing: Any, *, allowed: bool, move: Callable[[], object]) -> bool:
    """Make a move; one that is not allowed is refused and changes nothing. Says whether it was allowed."""
    if allowed:
        move()
        return True
    before = seen(thing)
    with pytest.raises((IllegalTransition, ChildClosed)):
        move()
    assert seen(thing) == before
    return False
