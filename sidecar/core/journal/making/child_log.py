"""The append-only log of a running child: its marks, and the order in which they may follow each other.

A mark is the stored form of an event (`core/journal/marks.py`). Operations note here what happens to a child, and
`progress` moves the marks into the next fact. An operation that comes in a wrong order raises here, before it reaches
the record, which would refuse it.

Source: SX-38 .. SX-47, TN-98, TN-99.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final, TypeAlias

from sidecar.core.errors import ChildClosed
from sidecar.core.executing.events import ATTEMPT, MOST_OF_A_KIND, PARENT, STATE_AFTER, ChildEvent
from sidecar.core.executing.states import ExecutionState, moved
from sidecar.core.identifiers import AttemptId, ChildId, Slot, TurnId
from sidecar.core.journal.child_events import MICROSECOND, OF_NAME
from sidecar.core.journal.facts import Progress
from sidecar.core.journal.marks import ACTORS, FORMS, Mark, Values, What, trimmed

BEGUN: Final = 2
"""Number of events that each recorded child has from the beginning: created, started."""
_Happened: TypeAlias = tuple[What, datetime, int, Values]


class ChildLog:
    """Creates the marks of one child, in legal order only, and knows the child's present state.

    Attributes:
        state: of the child, which is recorded or about to be.
        sequence: number of the newest event.
        attempts: number of the newest attempt that has an event.
    """

    __slots__ = (
        *("_left_out", "_made", "_waiting", "attempts", "child_id"),
        *("run_id", "sequence", "slot", "state", "step_idx"),
    )

    def __init__(self, child_id: ChildId, run_id: TurnId, slot: Slot, step_idx: int) -> None:
        """Begin after `started`."""
        self.child_id, self.run_id, self.slot, self.step_idx = child_id, run_id, slot, step_idx
        self.state = ExecutionState.RUNNING
        self.sequence = BEGUN
        self.attempts = 0
        # Events with absolute times; `progress` converts them to offsets once the time of the fact is known.
        self._waiting: list[_Happened] = []
        # Number of events by kind, counted only for the limit of `repeatable` and for `has`.
        self._made: dict[What, int] = {}
        self._left_out: dict[What, int] = {}

    @property
    def waiting(self) -> int:
        """Number of marks that no draft contains yet."""
        return len(self._waiting)

    def has(self, what: What) -> bool:
        """Return whether an event of this kind was recorded before this log began, or was noted by `repeatable`."""
        return what in self._made

    def go_on_after(self, events: Iterable[ChildEvent]) -> None:
        """Continue after recorded events; only before the first mark is made here."""
        # Events that were made here before would have the same numbers as the recorded events.
        if self.sequence > BEGUN or self._waiting:
            raise ChildClosed("the log has events already")
        for event in events:
            # Also the state: after a takeover, a child whose work is over must not be run again, and only the state
            # says so.
            self.state = STATE_AFTER.get(event.name, self.state)
            self.sequence = event.sequence
            what = OF_NAME[event.name]
            self._made[what] = self._made.get(what, 0) + 1
            if event.name == ATTEMPT:
                # Without the number (its texts were erased), events are counted.
                self.attempts = event.details().get("number", self.attempts + 1)

    def progress(self, at: datetime, values: list[Values], *, take: bool = True) -> Progress:
        """Return the marks that no draft contains yet, for a fact made at `at`, and append their values to `values`.

        Args:
            at: the time of the fact.
            values: the values of the fact's marks so far.
            take: the caller keeps the draft until it is recorded. False: the next call returns the same marks again.
        """
        # The values of all marks of a fact form one list: a reader assigns them to the marks by position.
        marks = []
        for what, when, actor, said in self._waiting:
            marks.append(Mark(what, (when - at) // MICROSECOND, actor))
            values.append(said)
        if take:
            self._waiting = []
        return Progress(self.step_idx, tuple(marks), self.attempts)

    def clear(self) -> None:
        """Drop the waiting marks, because all of them are recorded."""
        self._waiting = []

    def attempt(self, at: datetime, number: int, attempt_id: AttemptId) -> None:
        """Note that an attempt begins. Source: SX-42."""
        if self.state is not ExecutionState.RUNNING:
            raise ChildClosed(f"no attempt is possible for a child that is {self.state}")
        self._mark(What.ATTEMPT, at, (number, attempt_id))
        self.attempts = number

    def noted(self, at: datetime, what: What, *values: object) -> None:
        """Note an event that changes no state. Allowed between `started` and the end of the work."""
        if self.state is not ExecutionState.RUNNING:
            raise ChildClosed(f"{what.name} is not possible for a child that is {self.state}")
        self._mark(what, at, values)

    def repeatable(self, at: datetime, what: What, *values: object) -> None:
        """Note an event that the sub-agent can cause any number of times.

        After `MOST_OF_A_KIND` marks of one kind, further ones are only counted, for `left_out`.
        """
        made = self._made.get(what, 0)
        if made < MOST_OF_A_KIND:
            self.noted(at, what, *values)
            self._made[what] = made + 1
        else:
            self._left_out[what] = self._left_out.get(what, 0) + 1

    def left_out(self, at: datetime) -> None:
        """Note how many events of each kind were only counted, if there are any.

        Must come right before the end of the work: after it, the child can cause no further events.
        """
        if self._left_out:
            # Sorted below: the bytes of a fact must not depend on the order in which kinds were first seen.
            counts = {FORMS[what].name: count for what, count in self._left_out.items()}
            self.noted(at, What.LEFT_OUT, dict(sorted(counts.items())))
            self._left_out.clear()

    def waiting_for_merge(self, at: datetime, values: Values = ()) -> None:
        """Note that the sub-agent has produced output, which the parent has yet to accept. Source: SX-21, SX-51.

        `values`: see `FORMS`; empty if the outcome is in the same fact.
        """
        # Here and below, an illegal move raises before anything is noted.
        self.state = moved(self.state, ExecutionState.WAITING_FOR_MERGE)
        self._mark(What.WAITING, at, values)

    def failed(self, at: datetime, *values: object) -> None:
        """Note that the work failed; for an answer that is rejected, see `integration_failed`. Source: SX-23, SX-43."""
        # `moved` would allow this move, because a rejected answer makes it, too.
        if self.state is ExecutionState.WAITING_FOR_MERGE:
            raise ChildClosed("the work is through already; only its integration can fail now")
        self.state = moved(self.state, ExecutionState.FAILED)
        self._mark(What.FAILED, at, trimmed(values))

    def integrated(self, at: datetime, actor: str = PARENT) -> None:
        """Note that the parent accepted the output. Source: SX-22, TN-99."""
        self.state = moved(self.state, ExecutionState.COMPLETED)
        self._mark(What.ACCEPTED, at, (), actor)

    def integration_failed(self, at: datetime, reason: str, actor: str = PARENT) -> None:
        """Note that the parent rejected the output, which is a failure of the child. Source: SX-34, SX-52, TN-98."""
        # `moved` would allow the move from `running`, which is the failure of the work.
        if self.state is not ExecutionState.WAITING_FOR_MERGE:
            raise ChildClosed(f"integration is not possible for a child that is {self.state}")
        self.state = moved(self.state, ExecutionState.FAILED)
        self._mark(What.REJECTED, at, (reason,), actor)

    def closed(self, at: datetime, close_reason: str, actor: str = PARENT) -> None:
        """Note the end; no event may follow. Source: SX-24, SX-45 .. SX-47."""
        self.state = moved(self.state, ExecutionState.CLOSED)
        self._mark(What.CLOSED, at, (close_reason,), actor)

    def _mark(self, what: What, at: datetime, values: Values, actor: str = PARENT) -> None:
        """Add a mark.

        `actor` matters only for verdicts and the close: for all other marks, the usual actor of the event applies.
        """
        # Counted when the event is noted, not when it is recorded: a restore compares this number with the recorded
        # events.
        self.sequence += 1
        # 0: the usual actor. The parent is the usual actor of each event for which a caller names one.
        self._waiting.append((what, at, 0 if actor == PARENT else ACTORS.index(actor), values))
