"""How the audit sink suite drives the place that a sink hands events to, and the events that it hands over."""

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
    """How the place misbehaves."""

    NONE = "none"
    AWAY = "away"
    """It cannot be reached, or is not there. Ability `away`."""
    REFUSE = "refuse"
    """It is reached, and says that it does not take what it is given. Ability `refuse`."""
    HANG = "hang"
    """It takes what it is given and never answers. Ability `hang`."""


class AuditSinkBench(ABC):
    """A place where audit events are kept, and sinks that hand them to it. A plugin's author writes one.

    Attributes:
        secrets: strings from the sink's settings that must not show anywhere.
    """

    secrets: tuple[str, ...] = ()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Have the place there; all else happens inside. Override it if something must be started."""
        yield

    @abstractmethod
    def make(self) -> AuditSink:
        """Return a new sink for this bench's place."""

    @abstractmethod
    async def kept(self) -> Sequence[Mapping[str, Any]]:
        """Return the fields of every event that the place keeps now, in order of arrival; without waiting for any."""

    @abstractmethod
    async def misbehave(self, fault: SinkFault) -> None:
        """Let the place misbehave so from now on, or no more."""


def a_transition(number: int = 1, **fields: Any) -> AuditEntry:
    """Return a transition as a sink is handed it; `fields` replace some, in the event and in what is written of it."""
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
    """Return anything else that happened to a rollout, as a sink is handed it."""
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
