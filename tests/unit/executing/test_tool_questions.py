"""The question that a data service asks in a tool call comes back to exactly that call, once in each attempt."""

import msgspec
import pytest

from sidecar.core.dispatching.questions import Answering, Asked, Continuation, Decision, QuestionKind
from sidecar.core.envelopes.verdicts import WithholdReason
from sidecar.core.executing.tool_questions import (
    LARGEST_SERVICE_STATE,
    MADE_HERE,
    EnricherAsks,
    ServiceAnswer,
    ToolAnswer,
    asked_in_call,
    digest_of,
    is_made_here,
    problem_with,
    reason_to_withhold,
    split,
)
from sidecar.core.identifiers import ChildId, Principal, ToolId, TurnId

ADA, TOOL, ARGUMENTS = Principal("ada"), ToolId("orders.cancel"), '{"order": 7, "reason": "late"}'
SAME_ARGUMENTS = '{"reason":"late","order":7}'
ASKED = Asked(QuestionKind.NEEDS_APPROVAL, "Cancel order 7?", '{"order":7}', state=b"step-2")


def continuation(state: bytes) -> Continuation:
    """Return what a child gets that continues with an approval."""
    answering = Answering("receipt", "yes, please", Decision.APPROVED)
    return Continuation(TurnId("t"), ChildId("c"), ASKED.kind, ASKED.text, ASKED.about_json, answering, state)


def test_the_answer_reaches_the_call_that_the_question_interrupted() -> None:
    """With the question as it was asked, and the service's own state; the sub-agent gets no state."""
    asked = asked_in_call(ASKED, TOOL, ARGUMENTS)
    given, answer = split(continuation(asked.state))

    assert asked == msgspec.structs.replace(ASKED, state=asked.state)
    assert given == continuation(b"")
    assert answer == ToolAnswer(
        TOOL,
        digest_of(ARGUMENTS),
        ServiceAnswer(ASKED.kind, ASKED.text, ASKED.about_json, "yes, please", Decision.APPROVED, b"step-2"),
    )


def test_a_state_of_a_sub_agent_is_its_own() -> None:
    """It comes back unchanged, even if it holds the mark of the sidecar somewhere."""
    for state in (b"", b"own", b"x" + MADE_HERE, MADE_HERE[:-1]):
        assert not is_made_here(state)
        assert split(continuation(state)) == (continuation(state), None)


@pytest.mark.parametrize("kept", [b"", b"{", b"[]", b'{"tool_id":"orders.cancel"}'])
def test_a_state_of_another_version_answers_nothing(kept: bytes) -> None:
    """The service asks again; the sub-agent does not get the sidecar's state."""
    assert is_made_here(MADE_HERE + kept)
    assert split(continuation(MADE_HERE + kept)) == (continuation(b""), None)


def test_an_attempt_uses_an_answer_for_one_call() -> None:
    """For the same tool and equal arguments, whatever their order; the next attempt may use it again."""
    _, answer = split(continuation(asked_in_call(ASKED, TOOL, ARGUMENTS).state))
    assert answer is not None

    assert answer.take(ToolId("orders.list"), ARGUMENTS, 1) is None
    assert answer.take(TOOL, '{"order": 8, "reason": "late"}', 1) is None
    assert answer.taken_in == 0
    assert answer.take(TOOL, SAME_ARGUMENTS, 1) is answer.answer
    assert answer.taken_in == 1
    assert answer.take(TOOL, ARGUMENTS, 1) is None
    assert answer.take(TOOL, ARGUMENTS, 2) is answer.answer


def test_equal_arguments_have_one_digest() -> None:
    """A SHA-256 in hex."""
    assert digest_of(ARGUMENTS) == digest_of(SAME_ARGUMENTS) != digest_of("{}")
    assert digest_of("{}") == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_a_question_has_what_every_question_has_and_half_the_state() -> None:
    """The other half is for what the sidecar adds."""
    state = b"x" * LARGEST_SERVICE_STATE

    assert problem_with(msgspec.structs.replace(ASKED, state=state)) == ""
    assert problem_with(msgspec.structs.replace(ASKED, state=state + b"x")) == (
        "the state of a service's question must be at most 32768 bytes"
    )
    assert problem_with(msgspec.structs.replace(ASKED, text=" ", state=state + b"x")) == (
        "the question must have 1 to 4096 characters"
    )


@pytest.mark.parametrize(
    ("named", "echoed", "principal", "nonce", "reason"),
    [
        ("ada", "n", ADA, "n", None),
        ("ada", None, ADA, None, None),
        ("ada", "another", ADA, None, None),
        (None, "n", ADA, "n", WithholdReason.PRINCIPAL_ABSENT),
        ("bob", "n", ADA, "n", WithholdReason.PRINCIPAL_MISMATCH),
        ("", "n", Principal(""), "n", WithholdReason.PRINCIPAL_MISMATCH),
        ("ada", None, ADA, "n", WithholdReason.NONCE_MISMATCH),
        ("ada", "another", ADA, "n", WithholdReason.NONCE_MISMATCH),
    ],
)
def test_a_question_is_withheld_unless_it_is_for_the_user_of_the_call(
    named: str | None, echoed: str | None, principal: Principal, nonce: str | None, reason: WithholdReason | None
) -> None:
    """The user comes first, then the nonce, which not every service echoes."""
    assert reason_to_withhold(named, echoed, principal, nonce) is reason


def test_a_log_line_holds_no_text_of_the_service() -> None:
    """Only the kind of its question."""
    assert repr(EnricherAsks(ASKED, "ada", "n")) == "EnricherAsks(needs_approval)"
