"""Questions of a host, and the answers that it is given, from and to messages."""

from datetime import timedelta
from typing import Final

from sidecar.policy.protocols import Answerer, Asked, Continuation, QuestionKind, RunnerError
from subagents.dispatch.v1 import question_pb2
from subagents.runner.v1 import runner_pb2

KINDS: Final = {question_pb2.QuestionKind.Value(f"QUESTION_KIND_{each.name}"): each for each in QuestionKind}
ANSWERERS: Final = {question_pb2.Answerer.Value(f"ANSWERER_{each.name}"): each for each in Answerer}
"""Unspecified is the user: a question that does not say who may answer is not the model's to answer."""
MOST_SECONDS: Final = 366 * 86_400


def asked_of(message: runner_pb2.QuestionAsked) -> Asked:
    """Return what a host asks back; its bounds are checked with the rest of the result.

    Raises:
        RunnerError: a kind or an answerer that this version does not know.
    """
    known = message.answerer == question_pb2.ANSWERER_UNSPECIFIED or message.answerer in ANSWERERS
    if message.kind not in KINDS or not known:
        raise RunnerError("the host asks back without a known kind of question, or of nobody that is known")
    seconds = message.expires_in.seconds + message.expires_in.nanos / 1e9
    return Asked(
        kind=KINDS[message.kind],
        text=message.text,
        about_json=message.about_json,
        answerer=ANSWERERS.get(message.answerer, Answerer.USER),
        expires_in=timedelta(seconds=max(0.0, min(seconds, MOST_SECONDS))) if message.HasField("expires_in") else None,
        state=message.state,
    )


def continuation_message(continuation: Continuation) -> runner_pb2.Continuation:
    """Return what a host is told of the work that it continues; without the receipt."""
    answering = continuation.answering
    decision = "UNSPECIFIED" if answering.decision is None else answering.decision.name
    return runner_pb2.Continuation(
        child_id=continuation.child_id,
        kind=f"QUESTION_KIND_{continuation.kind.name}",
        question=continuation.question,
        about_json=continuation.about_json,
        answer=question_pb2.Answering(
            text=answering.text,
            decision=f"DECISION_{decision}",
            answered_by=f"ANSWERER_{answering.answered_by.name}",
        ),
        state=continuation.state,
    )
