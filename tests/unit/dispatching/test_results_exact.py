"""Results of an attempt, exactly: what the model gets of a narration, what is no text, and counts of tokens."""

from typing import Any

import pytest

from sidecar.core.dispatching.harmless_text import harmless
from sidecar.core.dispatching.outcomes import Component, Usage
from sidecar.core.dispatching.result_checks import MOST_TOKENS, InvalidResult, ResultCollector, ResultLimits, usage_of
from subagents_errors import CallFailure
from tests.support.builders import a_card


def collector() -> ResultCollector:
    """Return an empty collector."""
    return ResultCollector(a_card("shop").definition, ResultLimits())


@pytest.mark.parametrize("text", ["<|im_start|>", "[INST]", "a\u200bb", "caf\u00e9\u202e", "bell\x07", "a\x07<b"])
def test_the_model_gets_a_narration_in_its_harmless_form(text: str) -> None:
    """Whatever makes it harmful: a special token, a hidden character, or a control character."""
    result = collector()
    result.add_narration(text)

    assert result.evidence().narration == harmless(text) != text
    assert result.answer(data_unavailable=False).narration == harmless(text)


def test_the_evidence_of_an_attempt_is_what_it_has_said_so_far() -> None:
    """Before anything was read, and after."""
    result = collector()
    said = [result.evidence()]
    for text in ("Two", " offers"):
        result.add_narration(text)
        said += [result.evidence(), result.evidence()]

    assert [each.narration for each in said] == ["", "Two", "Two", "Two offers", "Two offers"]


def test_what_is_no_text_breaks_the_contract() -> None:
    """A runner in the same process may hand over any object."""
    parts: Any = (b"bytes", Component("card", "{}", b"bytes"), Component(b"card", "{}", "{}"))  # type: ignore[arg-type]  # as a runner without types may do
    for part in parts:
        with pytest.raises(InvalidResult) as refused:
            collector().add_component(part) if isinstance(part, Component) else collector().add_narration(part)
        what = "a bytes in the place of a text"
        assert (refused.value.reason, refused.value.detail) == (CallFailure.RESULT_INVALID, what)


def test_reported_tokens_are_kept_within_what_is_possible() -> None:
    """Negative counts are zero, and no more tokens come from a cache than were read."""
    assert usage_of(5, 7, None) == Usage(5, 7, None)
    assert usage_of(5, 7, 3) == Usage(5, 7, 3)
    assert usage_of(5, 7, 9) == Usage(5, 7, 5)
    assert usage_of(5, 7, -1) == Usage(5, 7, 0)
    assert usage_of(-5, -7, 0) == Usage(0, 0, 0)
    assert usage_of(MOST_TOKENS, MOST_TOKENS, MOST_TOKENS) == Usage(MOST_TOKENS, MOST_TOKENS, MOST_TOKENS)


@pytest.mark.parametrize(
    "counts", [(True, 0, None), (0, 1.0, None), (0, 0, "1"), (0, 0, 1.5), (0, MOST_TOKENS + 1, None)]
)
def test_tokens_that_are_no_whole_number_or_too_many_break_the_contract(counts: Any) -> None:
    """Of any of the three counts."""
    with pytest.raises(InvalidResult) as refused:
        usage_of(*counts)

    detail = "reported tokens that are no whole number, or too many"
    assert (refused.value.reason, refused.value.detail) == (CallFailure.RESULT_INVALID, detail)
