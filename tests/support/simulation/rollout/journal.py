"""What happened in a run, in order, as it is seen from outside. Nothing here says what should have happened."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from sidecar.adapters.virtual_time import Trace, VirtualLoop
from sidecar.operations.rollout.requests import StepAnswer
from sidecar.operations.rollout.store.ports import LocalStop, RolloutWrite
from tests.support.simulation.rollout.cards import Variants
from tests.support.simulation.rollout.wishes import Wish

Entry = TypeVar("Entry")

PASS, FAIL, NOTHING = "pass", "fail", "nothing"
"""What a gate's answer has to count as."""


@dataclass(frozen=True, slots=True)
class Began:
    """A request has reached a sidecar, which begins to work on it. `shows`: version that its binds show then."""

    life: str
    wish: Wish
    attempt: int
    shows: int


@dataclass(frozen=True, slots=True)
class Answered:
    """The sidecar has answered an attempt.

    Attributes:
        answer: None: refused.
        reason: of the refusal; empty: answered, `crash` if it was no refusal at all.
    """

    life: str
    wish: Wish
    attempt: int
    answer: StepAnswer | None
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Committed:
    """A change is on record from here on. `wall`: wall-clock seconds; `version`: of the store after it."""

    life: str
    change: RolloutWrite
    version: int
    wall: float


@dataclass(frozen=True, slots=True)
class Bound:
    """A turn was bound, or bound again (`again`), or its token was honoured by another process (`by_token`).

    Attributes:
        shows: version of the view.
        serves: digest, by slot; empty: nobody.
        variants: the configuration there.
        reason: of a refusal; empty: bound.
    """

    life: str
    turn: str
    user: str
    arm: str
    shows: int
    serves: tuple[tuple[str, str], ...]
    variants: Variants
    wall: float
    again: bool = False
    by_token: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Called:
    """A turn has called something: from here on every sidecar can read on record that it is open."""

    turn: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A turn has ended, here and on record."""

    turn: str


@dataclass(frozen=True, slots=True)
class ConfigLoaded:
    """A sidecar has loaded a configuration."""

    life: str
    variants: Variants


@dataclass(frozen=True, slots=True)
class SaidLate:
    """A sidecar has said aloud that the decommission of a definition is overdue."""

    life: str
    name: str
    wall: float


@dataclass(frozen=True, slots=True)
class Listed:
    """A sidecar was asked for all decommissions that have not ended.

    Attributes:
        rows: content, whether it is overdue, and whether anything is left to be done.
    """

    life: str
    shows: int
    wall: float
    rows: tuple[tuple[str, bool, bool], ...]


@dataclass(frozen=True, slots=True)
class Fetched:
    """A sidecar has heard from its flag backend: what was asked at `begun`."""

    life: str
    begun: float
    on: frozenset[str]
    off: frozenset[str]


@dataclass(frozen=True, slots=True)
class Shown:
    """The binds of a sidecar show another version from here on, or did so a moment ago."""

    life: str
    version: int


@dataclass(frozen=True, slots=True)
class Switched:
    """A flag is on or off from here on, whoever switched it."""

    name: str
    on: bool


@dataclass(frozen=True, slots=True)
class Gated:
    """A gate has answered a question, or not; `counts` says as what it has to count.

    Attributes:
        about: gate, digest, ramp before, ramp after.
        wall: wall-clock seconds of the answer.
    """

    life: str
    request_id: str
    about: tuple[str, str, int, int]
    counts: str
    wall: float
    dry_run: bool


@dataclass(frozen=True, slots=True)
class PolicyAsked:
    """A lifecycle policy was asked; `denied`: it said no, or was broken."""

    digest: str
    subject: str
    to: int
    denied: bool


@dataclass(frozen=True, slots=True)
class Lived:
    """A process began (`held`: stops in its file) or ended."""

    life: str
    place: int
    began: bool
    held: tuple[LocalStop, ...] = ()


@dataclass(frozen=True, slots=True)
class Effective:
    """The store was told that a transition took effect at a wall-clock time, and whether that was news to it."""

    life: str
    event_id: str
    wall: float
    news: bool


@dataclass(frozen=True, slots=True)
class Exported:
    """A sink has taken an event."""

    life: str
    event_id: str
    row: int


@dataclass(frozen=True, slots=True)
class Counted:
    """A sidecar has counted something in its metrics."""

    life: str
    what: str
    of: str


@dataclass(frozen=True, slots=True)
class Troubled:
    """Something outside did not work for a sidecar."""

    life: str
    what: str


@dataclass(slots=True)
class Journal:
    """Everything, in order. `entries`: time of the loop, and what happened."""

    loop: VirtualLoop
    trace: Trace
    entries: list[tuple[float, Any]] = field(default_factory=list)
    anomalies: list[str] = field(default_factory=list)

    def add(self, entry: Any) -> int:
        """Note one thing; returns its place in the order."""
        now = self.loop.time()
        self.entries.append((now, entry))
        self.trace.add(now, _shown(entry))
        return len(self.entries) - 1

    def of(self, kind: type[Entry]) -> Iterator[tuple[int, float, Entry]]:
        """Yield the entries of one kind, with place and time."""
        for place, (at, entry) in enumerate(self.entries):
            if isinstance(entry, kind):
                yield place, at, entry


LONGEST: Final = 300


def _shown(entry: Any) -> str:
    """Return what a reader of the trace wants to see."""
    if isinstance(entry, Committed):
        change = entry.change
        rows = [f"{each.digest[-8:]} to {each.target_state}" for each in change.transitions]
        rows += [
            f"{each.what} {each.digest[-8:]} {each.before}-{each.after} {each.detail[:80]}" for each in change.events
        ]
        kind = change.answer.kind if change.answer else "-"
        changed = change.rollout.revision if change.rollout else "no change"
        return f"committed {entry.life} v{entry.version} {change.slot} r{changed} {kind}: {'; '.join(rows)}"
    if isinstance(entry, Answered):
        done = entry.answer
        said = f"done {done.state} {done.ramp} r{done.revision} {done.reached}" if done else entry.reason
        return f"answered {entry.life} {entry.wish.request_id} #{entry.attempt}: {said} {entry.message[:160]}"
    if isinstance(entry, Fetched):
        return f"fetched {entry.life} as of {entry.begun:.6f}: {' '.join(sorted(entry.on))}"
    return str(entry)[:LONGEST]
