"""The bench of the audit sink suite, which controls the receiver of a sink, and the events that the suite sends."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from enum import Enum, unique
from typing import Any, Final

from sidecar.core.identifiers import Commit, DefinitionId, Digest, Slot
from sidecar.core.rollout.events import AuditCohort, RolloutEvent, RolloutEventKind, TransitionEvent
from sidecar.core.rollout.states import LifecycleState, Trigger
from sidecar.policy.audit import AuditEntry, AuditSink

AT: Final = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
DIGEST: Final = Digest("sha256:" + "a1" * 32)
SHOP: Final = "shop"
SOMEBODY: Final = "first@example.com"
SOME_KEY: Final = "ab" * 8
SOME_ROLE: Final = "operator"


@unique
class SinkFault(Enum):
    """How the receiver misbehaves."""

    NONE = "none"
    """The receiver works."""
    AWAY = "away"
    """The receiver is unavailable. Ability `away`."""
    REFUSE = "refuse"
    """The receiver refuses events. Ability `refuse`."""
    HANG = "hang"
    """The receiver accepts requests and never answers. Ability `hang`."""


class AuditSinkBench(ABC):
    """A receiver that stores audit events, and sinks that send events to it. Plugin authors subclass it.

    Attributes:
        secrets: texts in the sink's settings that must not appear in any output.
    """

    secrets: tuple[str, ...] = ()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the receiver while the block runs; other methods are called inside. Override it to start a receiver."""
        yield

    @abstractmethod
    def make(self) -> AuditSink:
        """Return a new sink for this receiver."""

    @abstractmethod
    async def kept(self) -> Sequence[Mapping[str, Any]]:
        """Return the fields of all stored events, in order of arrival, without waiting for further events."""

    @abstractmethod
    async def misbehave(self, fault: SinkFault) -> None:
        """Set how the receiver misbehaves from now on; `NONE` ends the misbehaviour."""


def a_transition(number: int = 1, **fields: Any) -> AuditEntry:
    """Return the entry of a lifecycle transition; `fields` replace some of its fields."""
    body = TransitionEvent(
        slot=Slot(SHOP),
        subagent_id=DefinitionId(SHOP),
        digest=DIGEST,
        source_state=LifecycleState.PROMOTE,
        target_state=LifecycleState.ROLLBACK,
        trigger=Trigger.OPERATOR,
        agent_definition_commit=Commit("c" * 40),
        cohort=AuditCohort("5", ("ai_assistant_subagent_shop",), 12.5),
        at=AT,
        actor=SOMEBODY,
        actor_key=SOME_KEY,
        actor_role=SOME_ROLE,
        reason=fields.get("reason", "it says nonsense"),
        request_id=f"request-{number}",
    )
    told: dict[str, Any] = {
        "event": "subagent.lifecycle.transition",
        "subagent_id": SHOP,
        "source_state": "promote",
        "target_state": "rollback",
        "trigger": "operator_initiated",
        "agent_definition_commit": body.agent_definition_commit,
        "cohort": {
            "agent_definition_version": "5",
            "active_flags": ["ai_assistant_subagent_shop"],
            "ramp_step_percent": 12.5,
        },
    }
    took_effect = AT + timedelta(seconds=3)
    ours = _ours(body, number) | {"effective_at": took_effect.isoformat()}
    return AuditEntry(f"{DIGEST}/{number}", number, body, took_effect, {**told, **ours, **fields})


def an_event(number: int, **fields: Any) -> AuditEntry:
    """Return the entry of a rollout event other than a transition; `fields` replace some of its fields."""
    body = RolloutEvent(
        slot=Slot(SHOP),
        subagent_id=DefinitionId(SHOP),
        digest=DIGEST,
        what=RolloutEventKind.RAMP_SET,
        at=AT,
        actor=SOMEBODY,
        actor_key=SOME_KEY,
        actor_role=SOME_ROLE,
        reason=fields.get("reason", "all is well"),
        request_id=f"request-{number}",
        before=500,
        after=2500,
    )
    told: dict[str, Any] = {
        "event": "subagent.rollout.event",
        "subagent_id": SHOP,
        "what": "ramp_set",
        "ramp_percent_before": 5,
        "ramp_percent_after": 25,
        "detail": "",
    }
    return AuditEntry(f"{DIGEST}/{number}", number, body, None, {**told, **_ours(body, number), **fields})


def _ours(body: TransitionEvent | RolloutEvent, number: int) -> dict[str, Any]:
    return {
        "event_id": f"{DIGEST}/{number}",
        "slot": SHOP,
        "digest": DIGEST,
        "at": body.at.isoformat(),
        "actor": body.actor,
        "actor_key": body.actor_key,
        "actor_role": body.actor_role,
        "reason": body.reason,
        "request_id": body.request_id,
    }
