"""Arguments and components are read once, and each is held to its own schema, which is compiled once."""

from typing import Any, Final

import pytest

from sidecar.core.definitions.cards.card import ToolEntry
from sidecar.core.dispatching.calls import ToolCall
from sidecar.core.dispatching.outcomes import Component
from sidecar.core.dispatching.plan import plan_dispatch
from sidecar.core.dispatching.result_checks import InvalidResult, ResultCollector, ResultLimits
from sidecar.core.identifiers import CallId, ToolId
from sidecar.core.json_schemas import canonical_text, validator_of
from subagents_errors import CallFailure
from tests.support.builders import a_card, a_surface
from tests.support.call_counting import CallCounter, Called

READ: Final = Called("sidecar.core.decoding", "from_json")
COMPILED: Final = Called("sidecar.core.json_schemas", "validator_of")
"""What it does only for a schema that is not kept."""
WRITTEN_OUT: Final = Called("sidecar.core.json_schemas", "canonical_text")
LOOKED_THROUGH: Final = Called("sidecar.core.dispatching.result_checks", "holds_component_data")


def schema(name: str) -> dict[str, Any]:
    """Return a schema that asks for one property."""
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


def call(slot: str, arguments: str) -> ToolCall:
    """Return a call of a sub-agent."""
    return ToolCall(CallId(f"{slot} {arguments}"), f"ask_{slot}", arguments)


def test_arguments_are_read_once_and_checked_by_the_tools_own_schema() -> None:
    """Two sub-agents, called alternately: what fits one does not fit the other. To compile reads the schema, too."""
    surface = a_surface(cards=[a_card("shop", arguments=schema("what")), a_card("rewards", arguments=schema("who"))])
    good = [call("shop", '{"what": "x", "intent_count": 2}'), call("rewards", '{"who": "x"}')]
    bad = [call("shop", '{"who": "x"}'), call("rewards", '{"what": "x"}')]
    validator_of.cache_clear()

    with CallCounter().counting() as first:
        plan = plan_dispatch(surface, good, 0, 9)
    with CallCounter().counting() as second:
        again = plan_dispatch(surface, good * 3, 0, 9)
    refused = plan_dispatch(surface, bad, 0, 9).settled

    assert [each.arguments_json for each in plan.run] == ['{"what":"x"}', '{"who": "x"}']
    assert [each.arguments_json for each in again.run] == ['{"what":"x"}', '{"who": "x"}'] * 3
    assert [refused[place].hint for place in (0, 1)] == ["Wrong: `what` is missing.", "Wrong: `who` is missing."]
    assert (first.counted[READ], first.counted[COMPILED]) == (2 + 2, 2)
    assert (second.counted[READ], second.counted[COMPILED], second.counted[WRITTEN_OUT]) == (6, 0, 0)


def test_a_component_is_checked_by_its_own_schema_which_is_written_out_and_compiled_once() -> None:
    """Three attempts with two kinds of components; two definitions that name theirs alike differ."""
    shop = a_card("shop", components={"card": schema("a"), "list": schema("b")}).definition
    other = a_card("rewards", components={"card": schema("b")}).definition
    validator_of.cache_clear()

    with CallCounter().counting() as counter:
        for _ in range(3):
            collector = ResultCollector(shop, ResultLimits())
            collector.add_component(Component("card", "{}", '{"a": "x"}'))
            collector.add_component(Component("list", "{}", '{"b": "x"}'))
        ResultCollector(other, ResultLimits()).add_component(Component("card", "{}", '{"b": "x"}'))

    assert counter.counted[WRITTEN_OUT] == 3
    assert counter.counted[COMPILED] == 2  # by its text: two that say the same are one
    with pytest.raises(InvalidResult) as broken:
        ResultCollector(other, ResultLimits()).add_component(Component("card", "{}", '{"a": "x"}'))
    assert broken.value.reason is CallFailure.RESULT_INVALID


def test_the_schema_of_a_tool_is_written_out_once() -> None:
    """Each tool's for itself."""
    tools = [ToolEntry(ToolId(name), name, arguments=schema(name)) for name in ("a", "b")]

    with CallCounter().counting() as counter:
        texts = [tool.arguments_schema_json for tool in tools * 2]

    assert counter.counted[WRITTEN_OUT] == 2
    assert texts == [canonical_text(schema(name)) for name in "abab"]


def test_a_narration_is_looked_through_once_until_there_is_more_of_it() -> None:
    """Answer and evidence are of the same text; what comes later is in the next."""
    collector = ResultCollector(a_card("shop").definition, ResultLimits())

    with CallCounter().counting() as counter:
        assert collector.evidence().narration == ""
        collector.add_narration("so it is")
        assert collector.answer(data_unavailable=False).narration == collector.evidence().narration == "so it is"
        collector.add_narration(", ```json")
        assert collector.evidence().narration == ""
        with pytest.raises(InvalidResult):
            collector.answer(data_unavailable=False)

    assert counter.counted[LOOKED_THROUGH] == 3
