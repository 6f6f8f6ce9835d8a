"""Everything that is going to happen in one run of the suite `rollout`, as data. Times are of the loop's clock."""

from dataclasses import dataclass
from enum import StrEnum, unique

from tests.support.simulation.rollout.model_values import Slot


@unique
class Blow(StrEnum):
    """What happens to a sidecar."""

    KILL = "kill"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True)
class Mishap:
    """One blow. `lasts`: until the next process is there, or the paused one goes on."""

    place: int
    blow: Blow
    at: float
    lasts: float


@unique
class Whom(StrEnum):
    """What is away for a while."""

    STORE = "store"
    FLAGS = "flags"
    FLAG_WRITER = "flag writer"
    GATES = "gates"
    DISK = "disk of tombstones"
    SINKS = "audit sinks"


@dataclass(frozen=True, slots=True)
class Outage:
    """Something is away at one place.

    Attributes:
        hangs: it does not refuse, it does not answer.
    """

    whom: Whom
    place: int
    begin: float
    end: float
    hangs: bool


@dataclass(frozen=True, slots=True)
class Errand:
    """Somebody wants something; what exactly, is decided by chance when they look at the rollout.

    Attributes:
        subject: who.
        place: where they ask first; `fickle`: share of their retries that go elsewhere.
        role: operator, breaker, leaver: who takes definitions away, or wild: who asks for anything.
        twice: the same request is sent to both sidecars at once.
        stale: they read the revision one change too early.
        again: after an answer they ask once more.
        reuses: they take the request id of somebody else.
        patience: seconds they wait for an answer.
    """

    number: int
    at: float
    subject: str
    place: int
    fickle: float
    role: str
    twice: bool
    stale: bool
    again: bool
    reuses: bool
    patience: float


@dataclass(frozen=True, slots=True)
class TurnPlan:
    """A turn is bound, and looked at again later: at its sidecar, and at the other one with its token.

    Attributes:
        calls: it calls something at once, and is on record from then on.
        ends: when; 0: it does not.
    """

    turn: str
    at: float
    user: str
    arm: str
    place: int
    again: tuple[float, ...]
    calls: bool = False
    ends: float = 0.0


@dataclass(frozen=True, slots=True)
class Flip:
    """Somebody switches a flag where it is kept; `cohort`: not the kill flag."""

    at: float
    name: str
    cohort: bool
    on: bool


@dataclass(frozen=True, slots=True)
class Faults:
    """How often, as a share of what is asked of the store, of gates and of policies."""

    store_refuses: float = 0.0
    store_forgets: float = 0.0
    store_slow: float = 0.0
    gate_wrong: float = 0.15
    policy_broken: float = 0.0


@dataclass(frozen=True, slots=True)
class RolloutSchedule:
    """One run.

    Attributes:
        embedded: flags are kept in the store; else in a backend of their own.
        read_only: nobody but people can switch them.
        slots: as they stand at the beginning.
        flags_on: at the beginning.
        catalogues: configurations, with the time from which on each is there to be loaded: variant by definition.
        largest_step: of a lifecycle policy, in basis points; 0: there is none.
        legal_from: ramp from which on a policy wants the gate `legal`, too; 0: never.
        jumps: of the wall clock: when, by how many seconds.
        window: of decommissions, in seconds.
        at_once: an entry without a flag that is alone in an empty slot serves everybody.
    """

    suite: str
    seed: int
    embedded: bool
    read_only: bool
    slots: tuple[Slot, ...]
    flags_on: tuple[str, ...]
    catalogues: tuple[tuple[float, tuple[tuple[str, str], ...]], ...]
    largest_step: int
    legal_from: int
    errands: tuple[Errand, ...]
    turns: tuple[TurnPlan, ...]
    flips: tuple[Flip, ...]
    outages: tuple[Outage, ...]
    mishaps: tuple[Mishap, ...]
    jumps: tuple[tuple[float, float], ...]
    faults: Faults
    window: float
    at_once: bool

    @property
    def name(self) -> str:
        """What decides everything."""
        return f"{self.suite}:{self.seed}"
