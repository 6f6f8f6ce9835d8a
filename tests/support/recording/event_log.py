"""A log that makes the events of one child directly, as a reference for what is derived from facts."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from sidecar.core.errors import ChildClosed
from sidecar.core.executing.chain import event_link
from sidecar.core.executing.events import (
    ATTEMPT,
    CLOSED,
    COMPLETED_STATUS,
    CREATED,
    FAILED,
    FAILED_STATUS,
    INTEGRATION_ACCEPTED,
    INTEGRATION_FAILED,
    LEFT_OUT,
    MOST_OF_A_KIND,
    PARENT,
    SIDECAR,
    STARTED,
    STATE_AFTER,
    SUB_AGENT,
    WAITING_FOR_MERGE,
    ChildEvent,
)
from sidecar.core.executing.states import ExecutionState, moved
from sidecar.core.identifiers import AttemptId, ChildId, Slot, TurnId


class EventLog:
    """Makes the events of one child in an order that is always legal; knows its present state.

    Events are made here and made durable by whoever calls; nothing is remembered but state, sequence, last link, and
    how many events there are of the kinds that a sub-agent can repeat.

    Args:
        first_link: what the first event links to: `ChildOpened.link`.
    """

    def __init__(self, child_id: ChildId, run_id: TurnId, slot: Slot, step_idx: int, first_link: str) -> None:
        """Begin before the first event."""
        self.child_id = child_id
        self.run_id = run_id
        self.slot = slot
        self.step_idx = step_idx
        self.state = ExecutionState.CREATED
        self._sequence = 0
        self._link = first_link
        self._made: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()

    @property
    def sequence(self) -> int:
        """Sequence of the newest event; 0 before the first."""
        return self._sequence

    @property
    def link(self) -> str:
        """Link of the newest event."""
        return self._link

    def go_on_after(self, events: Iterable[ChildEvent]) -> None:
        """Take what is on record as what happened; only before the first event is made here."""
        if self._sequence:
            raise ChildClosed("the log has events already")
        for event in events:
            self.state = STATE_AFTER.get(event.name, self.state)
            self._sequence, self._link = event.sequence, event.link
            self._made[event.name] += 1

    def created(self, at: datetime, digest: str) -> ChildEvent:
        """Row and contract are stored. Source: SX-19."""
        if self._sequence:
            raise ChildClosed("a child is created once")
        return self._event(at, CREATED, SIDECAR, f"{self.slot} created", sub_agent_id=self.slot, digest=digest)

    def started(self, at: datetime) -> ChildEvent:
        """The worker may begin. Source: SX-20."""
        self.state = moved(self.state, ExecutionState.RUNNING)
        return self._event(at, STARTED, SIDECAR, f"{self.slot} started")

    def attempt(self, at: datetime, number: int, attempt_id: AttemptId) -> ChildEvent:
        """An attempt begins. Source: SX-42."""
        return self.noted(at, ATTEMPT, f"attempt {number}", number=number, attempt_id=attempt_id)

    def noted(self, at: datetime, name: str, summary: str, *, actor: str = SIDECAR, **details: Any) -> ChildEvent:
        """Something worth keeping while it runs. Allowed between `started` and the end of the work."""
        if self.state is not ExecutionState.RUNNING:
            raise ChildClosed(f"{name} is not possible for a child that is {self.state}")
        return self._event(at, name, actor, summary, **details)

    def repeatable(self, at: datetime, name: str, summary: str, **details: Any) -> Iterator[ChildEvent]:
        """Yield what `noted` returns, for what the sub-agent can cause as often as it likes.

        After `MOST_OF_A_KIND` events of the kind, yield nothing: the rest is only counted, for `left_out`.
        """
        if self._made[name] < MOST_OF_A_KIND:
            self._made[name] += 1
            yield self.noted(at, name, summary, actor=SUB_AGENT, **details)
        else:
            self._left_out[name] += 1

    def left_out(self, at: datetime) -> Iterator[ChildEvent]:
        """Yield one event that says how many events of which kind were only counted, if there are any.

        Comes right before the end of the work, after which there can be no more of them.
        """
        if self._left_out:
            counts = dict(sorted(self._left_out.items()))
            summary = "not listed: " + ", ".join(f"{count} more {name}" for name, count in counts.items())
            yield self.noted(at, LEFT_OUT, summary, counts=counts)
            self._left_out.clear()

    def waiting_for_merge(self, at: datetime, outcome: str, **details: Any) -> ChildEvent:
        """The worker has produced output that the parent has yet to take. Source: SX-21, SX-51."""
        self.state = moved(self.state, ExecutionState.WAITING_FOR_MERGE)
        return self._event(
            at, WAITING_FOR_MERGE, SIDECAR, f"{outcome}, waits for the parent", outcome=outcome, **details
        )

    def failed(self, at: datetime, cause: str, summary: str, **details: Any) -> ChildEvent:
        """The work itself failed; a result the parent cannot use is `integration_failed`. Source: SX-23, SX-43."""
        if self.state is ExecutionState.WAITING_FOR_MERGE:
            raise ChildClosed("the work is through already; only its integration can fail now")
        self.state = moved(self.state, ExecutionState.FAILED)
        return self._event(at, FAILED, SIDECAR, summary, cause=cause, **details)

    def integrated(self, at: datetime, actor: str = PARENT) -> ChildEvent:
        """The parent took the output; `completed` is a state and shows as `final_status`. Source: SX-22, TN-99."""
        self.state = moved(self.state, ExecutionState.COMPLETED)
        return self._event(at, INTEGRATION_ACCEPTED, actor, "the parent took the result")

    def integration_failed(self, at: datetime, reason: str, actor: str = PARENT) -> ChildEvent:
        """The parent could not use the output, which is a failure of the child. Source: SX-34, SX-52, TN-98."""
        if self.state is not ExecutionState.WAITING_FOR_MERGE:
            raise ChildClosed(f"integration is not possible for a child that is {self.state}")
        self.state = moved(self.state, ExecutionState.FAILED)
        return self._event(at, INTEGRATION_FAILED, actor, "the parent could not use the result", reason=reason)

    def closed(self, at: datetime, close_reason: str, actor: str = PARENT) -> ChildEvent:
        """The end; nothing comes after. Source: SX-24, SX-45 .. SX-47."""
        final_status = COMPLETED_STATUS if self.state is ExecutionState.COMPLETED else FAILED_STATUS
        self.state = moved(self.state, ExecutionState.CLOSED)
        return self._event(
            at,
            CLOSED,
            actor,
            f"closed: {final_status}",
            sub_agent_id=self.slot,
            step_idx=self.step_idx,
            final_status=final_status,
            close_reason=close_reason,
        )

    def _event(self, at: datetime, name: str, actor: str, summary: str, **details: Any) -> ChildEvent:
        self._sequence += 1
        details_json, previous = msgspec.json.encode(details).decode(), self._link
        self._link = event_link(previous, (self.child_id, self._sequence, name, at, actor, summary, details_json))
        return ChildEvent(
            event_id=f"{self.child_id}/{self._sequence}",
            child_id=self.child_id,
            run_id=self.run_id,
            sequence=self._sequence,
            name=name,
            time=at,
            actor=actor,
            summary=summary,
            details_json=details_json,
            previous_link=previous,
            link=self._link,
        )
