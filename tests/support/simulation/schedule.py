"""Everything that is going to happen in one run, as data. Times are seconds of the loop's clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, unique

from sidecar.core.definitions.cards.card import Card
from sidecar.operations.requests import OnDisconnect
from tests.support.simulation.scripts import CallScript
from tests.support.simulation.store import StoreFaults


@unique
class CallKind(StrEnum):
    """What is known of a call before it is sent."""

    FIT = "fit"
    UNKNOWN_TOOL = "unknown_tool"
    BAD_ARGUMENTS = "bad_arguments"


@dataclass(frozen=True, slots=True)
class AnswerSpec:
    """The answer to the question that the call `of` is told of; nothing, if it is told of none in time."""

    of: str
    approved: bool
    by_model: bool


@dataclass(frozen=True, slots=True)
class CallSpec:
    """One call; `key` is unique in the schedule and travels in the arguments."""

    key: str
    call_id: str
    kind: CallKind
    tool_name: str
    arguments_json: str
    card: Card | None
    answers: AnswerSpec | None = None


@unique
class Act(StrEnum):
    """What a client does while its dispatch runs."""

    DISCONNECT = "disconnect"
    RESUME = "resume"
    REPEAT = "repeat"
    REPEAT_OTHERWISE = "repeat_otherwise"
    CANCEL_CALL = "cancel_call"
    CANCEL_UNKNOWN = "cancel_unknown"
    CLOSE_CHILD = "close_child"


@dataclass(frozen=True, slots=True)
class Action:
    """One act, so long after the dispatch was sent. `number` chooses a call, or says after which sequence to resume."""

    after: float
    act: Act
    number: int = 0
    slow: float = 0.0


@dataclass(frozen=True, slots=True)
class DispatchSpec:
    """One dispatch. `time_left` None: the client sets no deadline."""

    dispatch_id: str
    send_at: float
    calls: tuple[CallSpec, ...]
    time_left: float | None
    join_timeout: float | None
    max_parallel: int | None
    min_success: int | None
    on_disconnect: OnDisconnect
    continue_for: float | None
    slow: float
    prior_context: str
    actions: tuple[Action, ...]


@unique
class Ending(StrEnum):
    """How a turn ends."""

    AFTER_ALL = "after_all"
    EARLY = "early"
    TWICE = "twice"
    UNKNOWN_CHILD = "unknown_child"
    REJECTING = "rejecting"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class TurnSpec:
    """One turn; `end_at` matters for an early end only."""

    turn_id: str
    episode_id: str
    principal: str
    bind_at: float
    dispatches: tuple[DispatchSpec, ...]
    ending: Ending
    end_at: float


@dataclass(frozen=True, slots=True)
class Tuning:
    """What the operator decided for this run; `idle_for`: seconds."""

    cap: int
    max_dispatches: int
    admission: int
    turns: int
    idle_turns: int
    idle_for: float
    strict: bool
    stingy: bool
    replay_buffer_events: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """One run."""

    suite: str
    seed: int
    tuning: Tuning
    cards: tuple[Card, ...]
    turns: tuple[TurnSpec, ...]
    scripts: Mapping[str, CallScript]
    store_faults: StoreFaults
    clock_jumps: tuple[tuple[float, float], ...]
    drain_at: float | None

    @property
    def name(self) -> str:
        """What decides everything."""
        return f"{self.suite}:{self.seed}"
