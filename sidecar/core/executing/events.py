"""The events of one child, as they are derived from facts, and the state that each leads to.

The log of a child is what operators see of it. No event is stored as such; `core/journal/child_events` derives them
from facts.

Source: SX-38 .. SX-47, TN-98, TN-99.
"""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sidecar.core.decoding import from_json
from sidecar.core.executing.chain import event_link
from sidecar.core.executing.states import ExecutionState
from sidecar.core.identifiers import ChildId, TurnId

CREATED: Final = "agent.subagent_created"
STARTED: Final = "agent.subagent_started"
ATTEMPT: Final = "agent.subagent_attempt"
WAITING_FOR_MERGE: Final = "agent.subagent_waiting_for_merge"
FAILED: Final = "agent.subagent_failed"
INTEGRATION_ACCEPTED: Final = "agent.integration_accepted"
INTEGRATION_FAILED: Final = "agent.integration_failed"
CLOSED: Final = "agent.subagent_closed"
TOOL_REFUSED: Final = "agent.tool_refused"
DATA_WITHHELD: Final = "agent.data_withheld"
ATTEMPT_REPEATED: Final = "agent.attempt_repeated"
BUDGET_STOPPED: Final = "agent.budget_stopped"
DELEGATED: Final = "agent.delegated"
DELEGATION_REFUSED: Final = "agent.delegation_refused"
TAKEN_OVER: Final = "agent.taken_over"
LEFT_OUT: Final = "agent.events_left_out"
SUSPENDED: Final = "agent.subagent_suspended"
CONTINUES: Final = "agent.subagent_continues"
EFFECT_SENT: Final = "agent.effect_sent"
EFFECT_SETTLED: Final = "agent.effect_settled"

MOST_OF_A_KIND: Final = 64
"""The most events of one kind that a sub-agent can cause at will; further ones are counted in one `LEFT_OUT` event."""

PARENT_LOST: Final = "parent_lost"
"""Close reason of a turn, and of its open children, if the parent does not end it."""
SIDECAR: Final = "sidecar"
"""Actor of what the process does by itself, including the end for a lost parent."""
PARENT: Final = "parent"
"""Actor of verdicts and closes that the parent requests."""
OPERATOR: Final = "operator"
"""Actor of closes that an operator requests."""
SUB_AGENT: Final = "sub-agent"
"""Actor of what the sub-agent itself requests: data calls, delegations."""

COMPLETED_STATUS: Final = "completed"
FAILED_STATUS: Final = "failed"


class ChildEvent(msgspec.Struct, frozen=True):
    """One event of one child.

    Attributes:
        event_id: child id and sequence; the same for every reader, because events are derived from facts.
        sequence: from 1, without gaps, per child.
        actor: the cause: `sidecar`, `parent`, `operator` or `sub-agent`.
        summary: one line for a condensed timeline.
        details_json: all other data, as an object.
        previous_link: link of the previous event; for the first event: the digest of the child's row.
        link: hash of this event and of `previous_link`; see `chain`.
    """

    event_id: str
    child_id: ChildId
    run_id: TurnId
    sequence: int
    name: str
    time: datetime
    actor: str
    summary: str
    details_json: str
    previous_link: str
    link: str

    @property
    def record_id(self) -> str:
        """The id of the record, unique among all records."""
        return self.event_id

    def relinked(self, previous_link: str) -> str:
        """Return the link that this event must have if it follows `previous_link`."""
        # In the order in which `core/journal/child_events` derives the links.
        contents = (self.child_id, self.sequence, self.name, self.time, self.actor, self.summary, self.details_json)
        return event_link(previous_link, contents)

    def details(self) -> dict[str, Any]:
        """Return the details as an object."""
        decoded: dict[str, Any] = from_json(self.details_json)
        return decoded


STATE_AFTER: Final[Mapping[str, ExecutionState]] = MappingProxyType(
    {
        CREATED: ExecutionState.CREATED,
        STARTED: ExecutionState.RUNNING,
        WAITING_FOR_MERGE: ExecutionState.WAITING_FOR_MERGE,
        INTEGRATION_ACCEPTED: ExecutionState.COMPLETED,
        FAILED: ExecutionState.FAILED,
        INTEGRATION_FAILED: ExecutionState.FAILED,
        CLOSED: ExecutionState.CLOSED,
    }
)
"""The state after an event; events that are not listed change no state."""
