"""Translates questions from messages of the protos, and answers into such messages."""

from datetime import UTC
from typing import Final

from subagents.dispatch.v1 import question_pb2
from subagents_client.asking.questions import Answerer, Answering, Decision, Question, QuestionKind

KINDS: Final = {
    question_pb2.QuestionKind.Value(f"QUESTION_KIND_{each.name}"): each
    for each in QuestionKind
    if each is not QuestionKind.UNKNOWN
}
ANSWERERS: Final = {question_pb2.Answerer.Value(f"ANSWERER_{each.name}"): each for each in Answerer}
DECISIONS: Final = {question_pb2.Decision.Value(f"DECISION_{each.name}"): each for each in Decision}


def question_of(message: question_pb2.Question) -> Question:
    """Return the question in a message. If this version does not know its answerer, only the user may answer."""
    return Question(
        kind=KINDS.get(message.kind, QuestionKind.UNKNOWN),
        text=message.text,
        about_json=message.about_json,
        answerer=ANSWERERS.get(message.answerer, Answerer.USER),
        expires_at=message.expires_at.ToDatetime(UTC),
        receipt=message.receipt,
    )


def answering_message(answering: Answering) -> question_pb2.Answering:
    """Return the message that carries an answer."""
    decision = "UNSPECIFIED" if answering.decision is None else answering.decision.name
    return question_pb2.Answering(
        receipt=answering.receipt,
        text=answering.text,
        decision=f"DECISION_{decision}",
        answered_by=f"ANSWERER_{answering.answered_by.name}",
    )
