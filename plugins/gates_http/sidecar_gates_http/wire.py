"""Questions and answers as JSON; `openapi.yaml` describes both."""

from datetime import datetime
from typing import Final

import msgspec

from sidecar.policy.lifecycle import GateAnswer, GateQuestion, GateUnavailable

MOST_BYTES: Final = 64 * 1024
"""Of an answer."""


def body_of(question: GateQuestion) -> bytes:
    """Return the body of a request."""
    return msgspec.json.encode(question)


def idempotency_key_of(question: GateQuestion) -> str:
    """Return what is the same for a question that is sent again."""
    return f"{question.question_id}/{question.gate}"


def answer_in(body: bytes) -> GateAnswer:
    """Return the answer as it was sent: whether it is about the question is for the sidecar to see.

    Raises:
        GateUnavailable: it is no answer: not JSON, a field is missing or of a wrong type, an unknown verdict, or a
            time without its offset.
    """
    try:
        answer = msgspec.json.decode(body, type=GateAnswer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise GateUnavailable("the gate service sent what is no answer to a question") from None
    expires_at: datetime = answer.expires_at
    if expires_at.utcoffset() is None:
        raise GateUnavailable("the gate service sent an `expires_at` without its offset from UTC")
    return answer
