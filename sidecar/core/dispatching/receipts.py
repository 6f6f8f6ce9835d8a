"""Signed receipts of questions: what a receipt binds, and why one is refused.

A receipt is signed with the keys of surface tokens, under its own purpose. It states which child asked which
question, for which user, and until when. It does not prevent a second use; the record does (`QuestionAnswered`).
"""

from datetime import datetime
from typing import Final

import msgspec

from sidecar.core.binding.surface import SurfaceTool
from sidecar.core.binding.surface_token import SigningKeys, SurfaceClaims
from sidecar.core.decoding import DecodeError, from_json
from sidecar.core.dispatching.questions import Answerer, Answering, Asked, Question, QuestionKind, question_digest
from sidecar.core.identifiers import ChildId, Digest, EpisodeId, Principal, Slot, TurnId
from subagents_errors import CallFailure

PURPOSE: Final = "receipt"


class ReceiptClaims(msgspec.Struct, frozen=True, kw_only=True):
    """The claims of a receipt.

    Attributes:
        digest: of the asking definition; the continuation state is valid for this version only.
        question: digest of the question.
    """

    turn_id: TurnId
    child_id: ChildId
    episode_id: EpisodeId
    principal: Principal
    slot: Slot
    digest: Digest
    question: str
    kind: QuestionKind
    answerer: Answerer
    expires_at: datetime


class ReceiptRefused(msgspec.Struct, frozen=True):
    """Why a receipt cannot be used.

    Attributes:
        hint: what the model or client can do about it, without any of the question.
    """

    reason: CallFailure
    hint: str = ""


def question_of(asked: Asked, claims: ReceiptClaims, keys: SigningKeys) -> Question:
    """Return the question with its receipt."""
    # All that `refusal_of` compares is in the receipt, so most receipts are refused without a read of the record.
    receipt = keys.sign(PURPOSE, msgspec.json.encode(claims))
    return Question(asked.kind, asked.text, asked.about_json, asked.answerer, claims.expires_at, receipt)


def claims_of(
    asked: Asked, child_id: ChildId, turn: SurfaceClaims, tool: SurfaceTool, expires_at: datetime
) -> ReceiptClaims:
    """Return the claims for the receipt of a question."""
    return ReceiptClaims(
        turn_id=turn.turn_id,
        child_id=child_id,
        episode_id=turn.episode_id,
        principal=turn.principal,
        slot=tool.slot,
        digest=tool.card.digest,
        # The digest and not the text: the receipt travels through clients and logs. It binds the answer to the question
        # that the user saw.
        question=question_digest(asked.kind, asked.text, asked.about_json),
        kind=asked.kind,
        answerer=asked.answerer,
        expires_at=expires_at,
    )


def opened(receipt: str, keys: SigningKeys) -> ReceiptClaims | None:
    """Return the claims of a receipt; None if it was not signed by this deployment."""
    body = keys.open(PURPOSE, receipt)
    if body is None:
        return None
    try:
        claims: ReceiptClaims = from_json(body, ReceiptClaims)
    # Signed by another version, whose claims differ; the question must be asked again.
    except DecodeError:
        return None
    return claims


def refusal_of(
    claims: ReceiptClaims, answering: Answering, turn: SurfaceClaims, tool: SurfaceTool, now: datetime
) -> ReceiptRefused | None:
    """Return why a call may not continue the work of a receipt, as far as the record is not needed for that.

    Args:
        claims: of the receipt.
        answering: the answer in the call.
        turn: the turn of the call.
        tool: the tool of the call.
        now: wall clock.
    """
    # An approval that only the user may give must not come from the orchestrator's model.
    by_model = claims.answerer is Answerer.USER and answering.answered_by is not Answerer.USER
    reasons = {
        CallFailure.RECEIPT_OTHER_PRINCIPAL: claims.principal != turn.principal,
        CallFailure.RECEIPT_OTHER_EPISODE: claims.episode_id != turn.episode_id,
        CallFailure.RECEIPT_OTHER_SUB_AGENT: claims.slot != tool.slot,
        CallFailure.RECEIPT_EXPIRED: claims.expires_at <= now,
        CallFailure.RECEIPT_DEFINITION_CHANGED: claims.digest != tool.card.digest,
        CallFailure.RECEIPT_OTHER_ANSWERER: by_model,
    }
    # In this order: a receipt of another user or conversation is reported as such, whatever else is wrong with it.
    for reason, is_true in reasons.items():
        if is_true:
            return ReceiptRefused(reason)
    if claims.kind is QuestionKind.NEEDS_INPUT:
        unfit = "" if answering.text.strip() else "The question needs a text as its answer."
    else:
        unfit = "" if answering.decision is not None else "The question needs the decision approved or declined."
    return ReceiptRefused(CallFailure.ARGUMENTS_INVALID, unfit) if unfit else None
