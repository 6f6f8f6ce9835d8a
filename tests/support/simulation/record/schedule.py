"""Everything that is going to happen in one run on the record, as data. Times are seconds of the loop's clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, unique

from sidecar.core.definitions.cards.card import Card
from sidecar.operations.requests import OnDisconnect
from tests.support.simulation.schedule import CallSpec
from tests.support.simulation.scripts import CallScript
from tests.support.simulation.store import StoreFaults


@unique
class Blow(StrEnum):
    """What happens to a sidecar."""

    KILL = "kill"
    PAUSE = "pause"
    CUT_BEFORE = "cut before"
    CUT_AFTER = "cut after"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Mishap:
    """One blow.

    Attributes:
        place: which sidecar.
        at: when; of a power cut the number of the commit, counted over all instances at the place.
        lasts: until the next instance is there, or the paused one goes on; of a stop, from its end on.
    """

    place: int
    blow: Blow
    at: float
    lasts: float


@dataclass(frozen=True, slots=True)
class RecordDispatch:
    """One dispatch.

    Attributes:
        leaves: seconds after which the client breaks its connections, one after the other.
        cancels: calls that the client cancels, each with the seconds since it sent the dispatch.
    """

    dispatch_id: str
    send_at: float
    calls: tuple[CallSpec, ...]
    max_parallel: int | None
    on_disconnect: OnDisconnect
    continue_for: float | None
    leaves: tuple[float, ...]
    cancels: tuple[tuple[str, float], ...] = ()


@unique
class Close(StrEnum):
    """How the client of a turn ends it."""

    ENDS = "ends"
    TWICE = "twice"
    EARLY = "early"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class RecordTurn:
    """One turn.

    Attributes:
        place: where its client turns to first.
        fickle: share of its retries that go elsewhere.
        closes: it closes the children that it was told of before it ends the turn; None: it does not, else whether it
            takes their output.
        stops_at: when it is ended early, or left alone.
        binds_again_at: its client waits until then and binds it again before it ends it; None: it does not.
    """

    turn_id: str
    episode_id: str
    principal: str
    bind_at: float
    place: int
    fickle: float
    dispatches: tuple[RecordDispatch, ...]
    closes: bool | None
    close: Close
    stops_at: float
    binds_again_at: float | None = None


@dataclass(frozen=True, slots=True)
class RecordSchedule:
    """One run.

    Attributes:
        shared: two sidecars on one record, with leases; else one, and each instance is alone on it.
        replaced_at: when other versions of all definitions serve the binds from then on; None: never.
        memory_lasts: what conversations are kept in outlives the sidecars.
    """

    suite: str
    seed: int
    shared: bool
    memory_lasts: bool
    cards: tuple[Card, ...]
    turns: tuple[RecordTurn, ...]
    scripts: Mapping[str, CallScript]
    faults: StoreFaults
    mishaps: tuple[Mishap, ...]
    clock_jumps: tuple[tuple[float, float], ...]
    replaced_at: float | None = None

    @property
    def name(self) -> str:
        """What decides everything."""
        return f"{self.suite}:{self.seed}"
