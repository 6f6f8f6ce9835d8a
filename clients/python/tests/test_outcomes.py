import pytest

from subagents_client import Axis, CallFailure, CallOutcome, CallStatus, Component, DispatchResult, Outcome
from subagents_client.outcomes import SENTENCES
from tests.support.requirement import requirement


def outcome(kind: Outcome, narration: str = "", **more: object) -> CallOutcome:
    """Return an outcome."""
    return CallOutcome(
        call_id="call-1",
        tool_name="ask_shop",
        sub_agent_id="shop",
        outcome=kind,
        narration=narration,
        **more,  # type: ignore[arg-type]  # fields by name
    )


def test_an_answer_is_told_as_it_is_and_without_component_data() -> None:
    """The user sees components by another way."""
    card = Component("render_offer_card", '{"id": 1}', '{"canary": true}')

    assert outcome(Outcome.SUCCEEDED, "Two offers.", components=[card]).tool_message() == "Two offers."


@requirement("PC2-T-27")
def test_only_missing_data_is_called_missing_data() -> None:
    """A budget that ran out is something else."""
    without_data = outcome(Outcome.DEGRADED, "One offer.", data_unavailable=True).tool_message()
    cut_short = outcome(Outcome.DEGRADED, "One offer.").tool_message()

    assert without_data.startswith("One offer.\n\n")
    assert "data" in without_data
    assert "data" not in cut_short
    assert "incomplete" in cut_short


@pytest.mark.parametrize("kind", list(Outcome))
def test_every_end_has_words_and_none_has_codes(kind: Outcome) -> None:
    """A tool call answered with an empty text is refused by some providers."""
    words = outcome(kind).tool_message()

    assert words.strip()
    assert kind.name not in words


@requirement("PC2-D-38")
def test_a_failure_is_told_in_the_sidecars_neutral_sentence() -> None:
    """Not the reason's name."""
    status = CallStatus(CallFailure.ATTEMPT_TIMEOUT, Axis.EXECUTION, "This took too long.")

    assert outcome(Outcome.FAILED, status=status).tool_message() == "This took too long."
    assert outcome(Outcome.FAILED).tool_message() == SENTENCES[Outcome.FAILED]


def test_what_is_missing_is_listed_in_emission_order() -> None:
    """Degraded answers are answers."""
    ends = [outcome(Outcome.DROPPED), outcome(Outcome.DEGRADED, "x"), outcome(Outcome.FAILED)]
    result = DispatchResult(dispatch_id="dispatch-1", outcomes=ends)

    assert result.missing() == [ends[0], ends[2]]
    assert result.outcome("call-1") is ends[0]
    with pytest.raises(KeyError):
        result.outcome("call-9")
