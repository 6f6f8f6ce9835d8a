"""The requester of a step, and the stored answer that a repeated request gets.

`take_step` stores the answer in the same transaction as the step. A client that lost the connection can therefore
repeat the request, and no step is taken twice.

Source: PF1-FR-10.
"""

from datetime import datetime
from hashlib import sha256
from typing import Final

import msgspec

from sidecar.core.decoding import from_json
from sidecar.core.errors import TransitionRefused, error_of_reason
from sidecar.core.rollout.facts import DefinitionFacts, SlotRollout
from sidecar.core.rollout.step import Actor
from sidecar.operations.rollout.requests import StepAnswer, StepRequest
from sidecar.operations.rollout.store.ports import StoredAnswer
from sidecar.operations.rollout.store.store_rules import refuse_other_request

DONE: Final = "done"
"""The kind of an answer to a step that was taken. Other kinds are the reasons of refusals."""
MARK_DIGITS: Final = 8
"""Length of `requester_mark`."""


class AuditContext(msgspec.Struct, frozen=True):
    """What every audit event records besides the step: the version of the configuration, and the flags that were on."""

    definition_version: str
    active_flags: tuple[str, ...]


def actor_of(asked: StepRequest, actor: str, at: datetime, audit_context: AuditContext) -> Actor:
    """Return the requester of a step with time, reason and audit context."""
    return Actor(
        actor=actor,
        actor_key=asked.actor_key,
        actor_role=asked.actor_role,
        traceparent=asked.traceparent,
        reason=asked.reason,
        request_id=asked.request_id,
        at=at,
        definition_version=audit_context.definition_version,
        active_flags=audit_context.active_flags,
    )


def requester_of(asked: StepRequest, actor: str) -> str:
    """Return the identity of the requester: subject and key, because subjects are unique only within one key."""
    # A separator that neither part can contain, so that two different pairs never give the same text.
    return f"{actor}\x1f{asked.actor_key}"


def requester_mark(asked: StepRequest, actor: str) -> str:
    """Return a short digest of the requester: the suffix of a request id that two operators used."""
    return sha256(requester_of(asked, actor).encode()).hexdigest()[:MARK_DIGITS]


def answer_about(rollout: SlotRollout, facts: DefinitionFacts, *, changed: bool = False) -> StepAnswer:
    """Return an answer with the state of a definition in a rollout."""
    return StepAnswer(
        slot=rollout.slot,
        definition_id=facts.definition_id,
        digest=facts.digest,
        state=facts.state,
        ramp=facts.ramp,
        active=rollout.active == facts.digest,
        revision=rollout.revision,
        changed=changed,
    )


def stored_answer(asked: StepRequest, kind: str, answer_json: str, by: Actor) -> StoredAnswer:
    """Return the answer in the form in which it is stored."""
    requester = requester_of(asked, by.actor)
    return StoredAnswer(asked.request_id, asked.fingerprint, kind, answer_json, by.at, requester)


def is_done(earlier: StoredAnswer, asked: StepRequest, actor: str) -> bool:
    """Return whether an equal request of the same operator was completed."""
    # All three: another operator who guesses a request id must not learn what it did.
    stored = (earlier.kind, earlier.fingerprint, earlier.asker)
    return stored == (DONE, asked.fingerprint, requester_of(asked, actor))


def previous_answer(earlier: StoredAnswer, asked: StepRequest, actor: str) -> StepAnswer:
    """Return the answer of an earlier request with the same id, or raise the error that it was refused with.

    Raises:
        RequestIdReused: the id belongs to a different request, or to a request of another operator.
    """
    refuse_other_request(earlier, asked.fingerprint, requester_of(asked, actor))
    if earlier.kind == DONE:
        return msgspec.structs.replace(from_json(earlier.answer_json, StepAnswer), repeated=True)
    # Of a refusal, `kind` is the reason and `answer_json` the message. The reason may come from another version of the
    # sidecar: one that this version does not know is still a refusal.
    refusal = error_of_reason(earlier.kind) or TransitionRefused
    raise refusal(earlier.answer_json, metadata={"repeated": "true"})
