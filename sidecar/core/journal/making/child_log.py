"""The append-only log of a running child: its marks, and their allowed order.

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
"""Events that each child on record has: it is created, and started."""
_Happened: TypeAlias = tuple[What, datetime, int, Values]


class ChildLog:
    """Makes the marks of one child in an order that is always legal; knows its present state.

    Attributes:
        state: of a child that is on record, or about to be.
        sequence: of the newest event.
        attempts: number of the newest attempt that an event tells of.
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
        self._waiting: list[_Happened] = []
        self._made: dict[What, int] = {}
        self._left_out: dict[What, int] = {}

    @property
    def waiting(self) -> int:
        """How many marks no draft has yet."""
        return len(self._waiting)

    def has(self, what: What) -> bool:
        """Return whether a mark of a kind is among those that it went on after."""
        return what in self._made

    def go_on_after(self, events: Iterable[ChildEvent]) -> None:
        """Continue after recorded events; only before the first mark is made here."""
        if self.sequence > BEGUN or self._waiting:
            raise ChildClosed("the log has events already")
        for event in events:
            self.state = STATE_AFTER.get(event.name, self.state)
            self.sequence = event.sequence
            what = OF_NAME[event.name]
            self._made[what] = self._made.get(what, 0) + 1
            if event.name == ATTEMPT:
                self.attempts = event.details().get("number", self.attempts + 1)

    def progress(self, at: datetime, values: list[Values], *, take: bool = True) -> Progress:
        """Return what no draft has yet, for a fact made at `at`; adds to `values`.

        Args:
            at: the time of the fact.
            values: of the marks of the fact, so far.
            take: the draft is kept until it is on record; else the same is returned again the next time.
        """
        marks = []
        for what, when, actor, said in self._waiting:
            marks.append(Mark(what, (when - at) // MICROSECOND, actor))
            values.append(said)
        if take:
            self._waiting = []
        return Progress(self.step_idx, tuple(marks), self.attempts)

    def clear(self) -> None:
        """Everything is on record."""
        self._waiting = []

    def attempt(self, at: datetime, number: int, attempt_id: AttemptId) -> None:
        """An attempt begins. Source: SX-42."""
        if self.state is not ExecutionState.RUNNING:
            raise ChildClosed(f"no attempt is possible for a child that is {self.state}")
        self._mark(What.ATTEMPT, at, (number, attempt_id))
        self.attempts = number

    def noted(self, at: datetime, what: What, *values: object) -> None:
        """Something worth keeping while it runs. Allowed between `started` and the end of the work."""
        if self.state is not ExecutionState.RUNNING:
            raise ChildClosed(f"{what.name} is not possible for a child that is {self.state}")
        self._mark(what, at, values)

    def repeatable(self, at: datetime, what: What, *values: object) -> None:
        """Note what the sub-agent can cause as often as it likes.

        After `MOST_OF_A_KIND` marks of the kind the rest is only counted, for `left_out`.
        """
        made = self._made.get(what, 0)
        if made < MOST_OF_A_KIND:
            self.noted(at, what, *values)
            self._made[what] = made + 1
        else:
            self._left_out[what] = self._left_out.get(what, 0) + 1

    def left_out(self, at: datetime) -> None:
        """Note how many marks of which kind were only counted, if there are any.

        Comes right before the end of the work, after which there can be no more of them.
        """
        if self._left_out:
            counts = {FORMS[what].name: count for what, count in self._left_out.items()}
            self.noted(at, What.LEFT_OUT, dict(sorted(counts.items())))
            self._left_out.clear()

    def waiting_for_merge(self, at: datetime, values: Values = ()) -> None:
        """The worker has produced output that the parent has yet to take. Source: SX-21, SX-51.

        `values`: see `FORMS`; none if the outcome is in the same fact.
        """
        self.state = moved(self.state, ExecutionState.WAITING_FOR_MERGE)
        self._mark(What.WAITING, at, values)

    def failed(self, at: datetime, *values: object) -> None:
        """The work itself failed; a result the parent cannot use is `integration_failed`. Source: SX-23, SX-43."""
        if self.state is ExecutionState.WAITING_FOR_MERGE:
            raise ChildClosed("the work is through already; only its integration can fail now")
        self.state = moved(self.state, ExecutionState.FAILED)
        self._mark(What.FAILED, at, trimmed(values))

    def integrated(self, at: datetime, actor: str = PARENT) -> None:
        """The parent took the output; `completed` is a state and shows as `final_status`. Source: SX-22, TN-99."""
        self.state = moved(self.state, ExecutionState.COMPLETED)
        self._mark(What.ACCEPTED, at, (), actor)

    def integration_failed(self, at: datetime, reason: str, actor: str = PARENT) -> None:
        """The parent could not use the output, which is a failure of the child. Source: SX-34, SX-52, TN-98."""
        if self.state is not ExecutionState.WAITING_FOR_MERGE:
            raise ChildClosed(f"integration is not possible for a child that is {self.state}")
        self.state = moved(self.state, ExecutionState.FAILED)
        self._mark(What.REJECTED, at, (reason,), actor)

    def closed(self, at: datetime, close_reason: str, actor: str = PARENT) -> None:
        """The end; nothing comes after. Source: SX-24, SX-45 .. SX-47."""
        self.state = moved(self.state, ExecutionState.CLOSED)
        self._mark(What.CLOSED, at, (close_reason,), actor)

    def _mark(self, what: What, at: datetime, values: Values, actor: str = PARENT) -> None:
        """Add a mark; only verdicts have an actor that may be another than the usual one, which is the parent."""
        self.sequence += 1
        self._waiting.append((what, at, 0 if actor == PARENT else ACTORS.index(actor), values))
