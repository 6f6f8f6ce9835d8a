"""Encodes rollouts as JSON text, which every database stores unchanged; reading returns the written value."""

from typing import Any, Final

import msgspec

from sidecar.core.decoding import JsonDecoder
from sidecar.core.identifiers import Digest
from sidecar.core.rollout.events import RolloutEvent, TransitionEvent
from sidecar.core.rollout.facts import SlotRollout
from sidecar.operations.rollout.store.audit_marker import AuditMarker
from sidecar.operations.rollout.store.ports import KeptDefinition, StoredAnswer, StoredFlag

TRANSITION: Final = "transition"
EVENT: Final = "event"
"""Kinds of audit rows."""

ROLLOUTS: Final = JsonDecoder(SlotRollout)
ANSWERS: Final = JsonDecoder(StoredAnswer)
DEFINITIONS: Final = JsonDecoder(KeptDefinition)
FLAGS: Final = JsonDecoder(StoredFlag)
MARKERS: Final = JsonDecoder(AuditMarker)
PINNED: Final = JsonDecoder(dict[Digest, int])
_TRANSITIONS: Final = JsonDecoder(TransitionEvent)
_EVENTS: Final = JsonDecoder(RolloutEvent)


def text_of(value: Any) -> str:
    """Return a value as JSON text."""
    return msgspec.json.encode(value).decode()


def kind_of(body: TransitionEvent | RolloutEvent) -> str:
    """Return the kind of an audit row."""
    return TRANSITION if isinstance(body, TransitionEvent) else EVENT


def audit_body(kind: str, text: str) -> TransitionEvent | RolloutEvent:
    """Return the body of an audit row."""
    return _TRANSITIONS.decode(text) if kind == TRANSITION else _EVENTS.decode(text)


def transition_key(event_id: str) -> tuple[str, str]:
    """Return definition digest and target state of a transition's id."""
    digest, _, state = event_id.rpartition("/")
    return digest, state
