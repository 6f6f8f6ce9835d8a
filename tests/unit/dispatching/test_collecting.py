"""What an attempt reports is checked before the parent may take it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.dispatching.outcomes import Component
from sidecar.core.dispatching.result_checks import InvalidResult, ResultCollector, ResultLimits, holds_component_data
from subagents_errors import CallFailure
from tests.support.builders import a_card
from tests.support.requirement import requirement

SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
DEFINITION = a_card("shop", components={"render_card": SCHEMA}).definition
CARD = Component("render_card", "{}", '{"title": "Coffee"}')


def collector(**limits: Any) -> ResultCollector:
    """Return an empty collector."""
    return ResultCollector(DEFINITION, ResultLimits(**limits))


@requirement("PC2-D-12", "SX-53")
def test_an_answer_is_its_pieces_in_order_and_its_components() -> None:
    """Two pieces of text and a component that fits."""
    result = collector()
    result.add_narration("Two ")
    result.add_component(CARD)
    result.add_narration("offers.")

    answer = result.answer(data_unavailable=False)

    assert (answer.narration, answer.components) == ("Two offers.", (CARD,))


@requirement("SX-53")
@pytest.mark.parametrize(
    "component",
    [
        Component("render_other", "{}", '{"title": "x"}'),
        Component("render_card", "{}", '{"title": 1}'),
        Component("render_card", "{}", "not json"),
        Component("render_card", "not json", '{"title": "x"}'),
        Component("render_card", "{}", "[" * 5000),
    ],
)
def test_a_component_against_its_contract_is_refused(component: Component) -> None:
    """Unknown name, against the schema, or not JSON at all."""
    with pytest.raises(InvalidResult) as broken:
        collector().add_component(component)

    assert broken.value.reason is CallFailure.RESULT_INVALID


def test_too_much_of_anything_is_refused() -> None:
    """Text, components and events are bounded."""
    with pytest.raises(InvalidResult, match="narration over 5"):
        collector(narration=5).add_narration("123456")
    with pytest.raises(InvalidResult, match="more than 0 components"):
        collector(components=0).add_component(CARD)
    with pytest.raises(InvalidResult, match="too large"):
        collector(component=3).add_component(CARD)
    with pytest.raises(InvalidResult, match="more than 1 events"):
        collector(events=1).refuse_flood()


@pytest.mark.parametrize(
    "narration",
    ['Look: <component type="card">{}</component>', "```json\n{}\n```", '{"title": "x"}', " [1, 2] ", "<COMPONENT x>"],
)
def test_component_data_in_the_narration_is_refused(narration: str) -> None:
    """The markers of the old path, a JSON block, and a narration that is nothing but JSON."""
    result = collector()
    result.add_narration(narration)

    with pytest.raises(InvalidResult, match="inline component JSON"):
        result.answer(data_unavailable=False)
    assert result.partial().narration == ""


@given(st.text())
def test_plain_text_is_left_alone(text: str) -> None:
    """Only structured data is refused: braces and brackets in prose are fine."""
    assert not holds_component_data(f"I found {text.replace('<', '')} for you (see {{note}}).".replace("```", ""))
