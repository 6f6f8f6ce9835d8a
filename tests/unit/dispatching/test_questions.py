"""Questions of sub-agents: which may be passed on, what the user sees of them, and who may answer one."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from sidecar.core.binding.surface_token import SigningKeys
from sidecar.core.dispatching.questions import (
    LARGEST_STATE,
    LARGEST_SUBJECT,
    LONGEST_QUESTION,
    Answerer,
    Answering,
    Asked,
    Decision,
    Question,
    QuestionKind,
    problem_of,
    question_digest,
)
from sidecar.core.dispatching.receipts import ReceiptClaims, ReceiptRefused, claims_of, opened, question_of, refusal_of
from sidecar.core.dispatching.result_checks import InvalidResult, ResultCollector, ResultLimits
from sidecar.core.identifiers import ChildId, Digest, EpisodeId, Principal, Slot
from subagents_errors import CallFailure
from tests.support.builders import a_card, a_surface
from tests.support.journal_drafts import some_claims

NOW = datetime(2026, 3, 1, tzinfo=UTC)
NEEDS_INPUT = Asked(QuestionKind.NEEDS_INPUT, "Which size?")
NEEDS_APPROVAL = Asked(QuestionKind.NEEDS_APPROVAL, "Order?", '{"pairs":2}', expires_in=timedelta(hours=1), state=b"s")
NO_TEXT = "the question is not Unicode text, or what it is about is not JSON"
TOO_LONG = "the question must have 1 to 4096 characters"
TURN, TOOL = some_claims(), a_surface("shop").tools[0]
KEYS = SigningKeys({"k": b"k" * 32}, "k")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"kind": QuestionKind.NEEDS_AUTHORISATION},
        {"kind": QuestionKind.NEEDS_INPUT, "answerer": Answerer.ORCHESTRATOR},
        {"text": "é" * LONGEST_QUESTION},
        {"text": "\U0001f600" * LONGEST_QUESTION},
        {"about_json": ""},
        {"about_json": '"' + "x" * (LARGEST_SUBJECT - 2) + '"'},
        {"expires_in": None},
        {"expires_in": timedelta(microseconds=1)},
        {"state": b"x" * LARGEST_STATE},
        {"state": bytearray(b"x")},
    ],
)
def test_a_question_within_the_limits_may_be_passed_on(fields: dict[str, Any]) -> None:
    """Each limit itself is allowed, in characters that take four bytes, too."""
    assert problem_of(replace(NEEDS_APPROVAL, **fields)) == ""


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"kind": "needs_input"}, "the question has no kind"),
        ({"text": ""}, TOO_LONG),
        ({"text": " \n"}, TOO_LONG),
        ({"text": "x" * (LONGEST_QUESTION + 1)}, TOO_LONG),
        ({"text": None}, NO_TEXT),
        ({"text": "\ud800"}, NO_TEXT),
        ({"state": b"x" * (LARGEST_STATE + 1)}, "the continuation state must be at most 65536 bytes"),
        ({"state": "text"}, NO_TEXT),
        ({"state": 2**62}, NO_TEXT),
        ({"about_json": "é" * LARGEST_SUBJECT}, NO_TEXT),
        (
            {"about_json": '"' + "é" * (LARGEST_SUBJECT // 2) + '"'},
            "what the question is about must be at most 16384 bytes",
        ),
        ({"about_json": "{"}, NO_TEXT),
        ({"about_json": b"{}"}, NO_TEXT),
        ({"answerer": "user"}, "the question does not say who may answer"),
        ({"expires_in": timedelta(0)}, "the question expires before it is asked"),
        ({"expires_in": timedelta(seconds=-1)}, "the question expires before it is asked"),
        ({"answerer": Answerer.ORCHESTRATOR}, "only the user may approve or authorise"),
    ],
)
def test_any_other_question_has_a_problem(fields: dict[str, Any], problem: str) -> None:
    """The problem does not quote the question."""
    assert problem_of(replace(NEEDS_APPROVAL, **fields)) == problem


def test_a_digest_depends_on_kind_text_and_subject() -> None:
    """It is that of other sidecars and of earlier versions, because receipts outlive both."""
    known = question_digest(QuestionKind.NEEDS_APPROVAL, "Order?", '{"pairs":2}')

    assert known == "6338c2a2f7612c779bb37d9b28f42ddad06e3dcf9dd088adbfbaf35817ea261d"
    assert question_of(NEEDS_APPROVAL, the_claims(), KEYS).digest == known
    others = {
        question_digest(QuestionKind.NEEDS_AUTHORISATION, "Order?", '{"pairs":2}'),
        question_digest(QuestionKind.NEEDS_APPROVAL, "Order!", '{"pairs":2}'),
        question_digest(QuestionKind.NEEDS_APPROVAL, "Order?", '{"pairs":3}'),
    }
    assert len(others | {known}) == 4


def test_the_user_sees_a_question_without_hidden_characters() -> None:
    """Once for each answer, it is reported that a text was changed. A definition may choose to have texts unchanged."""
    changes: list[None] = []
    hidden = replace(NEEDS_INPUT, text="Which\u200b size?\u202e")

    def collector(verbatim: bool) -> ResultCollector:
        definition = a_card("shop", verbatim_text=verbatim).definition
        return ResultCollector(definition, ResultLimits(), lambda: changes.append(None))

    changing, verbatim = collector(verbatim=False), collector(verbatim=True)

    assert changing.question(NEEDS_INPUT) == NEEDS_INPUT
    assert changes == []
    assert changing.question(hidden) == changing.question(hidden) != hidden
    assert (changes, verbatim.question(hidden)) == ([None], hidden)


@pytest.mark.parametrize(("text", "problem"), [("", TOO_LONG), (7, NO_TEXT)])
def test_a_question_with_a_problem_is_an_invalid_result(text: Any, problem: str) -> None:
    """Of the sub-agent that asked."""
    with pytest.raises(InvalidResult) as raised:
        ResultCollector(a_card("shop").definition, ResultLimits()).question(replace(NEEDS_INPUT, text=text))

    assert (raised.value.reason, raised.value.detail) == (CallFailure.RESULT_INVALID, problem)


def the_claims(asked: Asked = NEEDS_APPROVAL) -> ReceiptClaims:
    """Return the claims of the receipt for a question."""
    return claims_of(asked, ChildId("child-1"), TURN, TOOL, NOW)


def test_a_recorded_question_has_all_that_was_asked_and_a_receipt_of_it() -> None:
    """The receipt states whose question it is, and of which definition."""
    question = question_of(NEEDS_APPROVAL, the_claims(), KEYS)

    assert question == Question(
        QuestionKind.NEEDS_APPROVAL, "Order?", '{"pairs":2}', Answerer.USER, NOW, question.receipt
    )
    assert opened(question.receipt, KEYS) == ReceiptClaims(
        turn_id=TURN.turn_id,
        child_id=ChildId("child-1"),
        episode_id=TURN.episode_id,
        principal=TURN.principal,
        slot=Slot("shop"),
        digest=TOOL.card.digest,
        question=question.digest,
        kind=QuestionKind.NEEDS_APPROVAL,
        answerer=Answerer.USER,
        expires_at=NOW,
    )


APPROVED = Answering("r", decision=Decision.APPROVED)
EARLIER = NOW - timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("asked", "answering"),
    [
        (NEEDS_APPROVAL, APPROVED),
        (NEEDS_APPROVAL, replace(APPROVED, decision=Decision.DECLINED)),
        (NEEDS_INPUT, Answering("r", "42")),
        (replace(NEEDS_INPUT, answerer=Answerer.ORCHESTRATOR), Answering("r", "42")),
        (replace(NEEDS_INPUT, answerer=Answerer.ORCHESTRATOR), Answering("r", "42", answered_by=Answerer.ORCHESTRATOR)),
    ],
)
def test_the_right_answer_in_time_continues_the_work(asked: Asked, answering: Answering) -> None:
    """By the user, or by the orchestrator if the question allows it."""
    assert refusal_of(the_claims(asked), answering, TURN, TOOL, EARLIER) is None


@pytest.mark.parametrize(
    ("claimed", "answering", "reason"),
    [
        ({"principal": Principal("user-2")}, APPROVED, CallFailure.RECEIPT_OTHER_PRINCIPAL),
        ({"episode_id": EpisodeId("e-2")}, APPROVED, CallFailure.RECEIPT_OTHER_EPISODE),
        ({"slot": Slot("rewards")}, APPROVED, CallFailure.RECEIPT_OTHER_SUB_AGENT),
        ({"expires_at": EARLIER}, APPROVED, CallFailure.RECEIPT_EXPIRED),
        ({"digest": Digest("sha256:0")}, APPROVED, CallFailure.RECEIPT_DEFINITION_CHANGED),
        ({}, replace(APPROVED, answered_by=Answerer.ORCHESTRATOR), CallFailure.RECEIPT_OTHER_ANSWERER),
        (
            {"slot": Slot("rewards"), "principal": Principal("user-2"), "expires_at": EARLIER},
            APPROVED,
            CallFailure.RECEIPT_OTHER_PRINCIPAL,
        ),
    ],
)
def test_a_receipt_that_does_not_fit_is_refused(
    claimed: dict[str, Any], answering: Answering, reason: CallFailure
) -> None:
    """One of another user is reported as such, whatever else is wrong with it."""
    claims = replace(the_claims(), **claimed)

    assert refusal_of(claims, answering, TURN, TOOL, EARLIER) == ReceiptRefused(reason)


@pytest.mark.parametrize(
    ("asked", "answering", "hint"),
    [
        (NEEDS_INPUT, Answering("r", " "), "The question needs a text as its answer."),
        (NEEDS_INPUT, APPROVED, "The question needs a text as its answer."),
        (NEEDS_APPROVAL, Answering("r", "yes"), "The question needs the decision approved or declined."),
    ],
)
def test_an_answer_of_the_wrong_form_is_refused_with_what_is_needed(
    asked: Asked, answering: Answering, hint: str
) -> None:
    """A text for input, a decision for anything else."""
    refusal = ReceiptRefused(CallFailure.ARGUMENTS_INVALID, hint)

    assert refusal_of(the_claims(asked), answering, TURN, TOOL, EARLIER) == refusal
