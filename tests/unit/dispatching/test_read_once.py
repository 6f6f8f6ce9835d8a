"""Arguments and components are read once, and each is held to its own schema, which is compiled once."""

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from sidecar.core import json_schemas
from sidecar.core.decoding import from_json
from sidecar.core.definitions.cards.card import AgentDefinition, ToolEntry
from sidecar.core.dispatching import result_checks
from sidecar.core.dispatching.calls import ToolCall
from sidecar.core.dispatching.outcomes import Component
from sidecar.core.dispatching.plan import plan_dispatch
from sidecar.core.dispatching.result_checks import ResultBroken, ResultCollector, ResultLimits
from sidecar.core.identifiers import CallId, ToolId
from subagents_errors import CallFailure
from tests.support.builders import a_card, a_surface


class Counted:
    """A function that says what it was called with."""

    def __init__(self, really: Any) -> None:
        self.really, self.given = really, list[Any]()

    def __call__(self, given: Any, *others: Any, **more: Any) -> Any:
        """Do it."""
        self.given.append(given)
        return self.really(given, *others, **more)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    """Return the schemas that are compiled, none being kept from before."""
    counted = Counted(jsonschema_rs.validator_for)
    monkeypatch.setattr(jsonschema_rs, "validator_for", counted)
    json_schemas.validator_of.cache_clear()
    yield counted
    json_schemas.validator_of.cache_clear()


def schema(name: str) -> dict[str, Any]:
    """Return a schema that asks for one property."""
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


def call(slot: str, arguments: str) -> ToolCall:
    """Return a call of a sub-agent."""
    return ToolCall(CallId(f"{slot} {arguments}"), f"ask_{slot}", arguments)


def test_arguments_are_read_once_and_checked_by_the_tools_own_schema(
    compiled: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sub-agents, called alternately: what fits one does not fit the other."""
    read = Counted(from_json)
    monkeypatch.setattr("sidecar.core.call_arguments.from_json", read)
    surface = a_surface(cards=[a_card("shop", arguments=schema("what")), a_card("rewards", arguments=schema("who"))])
    good = [call("shop", '{"what": "x", "intent_count": 2}'), call("rewards", '{"who": "x"}')]
    bad = [call("shop", '{"who": "x"}'), call("rewards", '{"what": "x"}')]

    plan = plan_dispatch(surface, good * 3, 0, 9)
    assert [each.call for each in plan.run] == good * 3
    assert [each.arguments_json for each in plan.run] == ['{"what":"x"}', '{"who": "x"}'] * 3
    assert read.given == [each.arguments_json for each in good * 3]
    assert len(compiled.given) == 2
    refused = plan_dispatch(surface, bad, 0, 9).settled
    assert [refused[place].hint for place in (0, 1)] == ["Wrong: `what` is missing.", "Wrong: `who` is missing."]
    assert len(compiled.given) == 2


def test_a_component_is_checked_by_its_own_schema_which_is_written_out_and_compiled_once(
    compiled: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three attempts, each with two kinds of components; two definitions that name theirs alike differ."""
    written = Counted(json_schemas.canonical_text)
    monkeypatch.setattr("sidecar.core.definitions.cards.card.canonical_text", written)
    shop: AgentDefinition = a_card("shop", components={"card": schema("a"), "list": schema("b")}).definition
    other: AgentDefinition = a_card("rewards", components={"card": schema("b")}).definition
    for _ in range(3):
        collector = ResultCollector(shop, ResultLimits())
        collector.add_component(Component("card", "{}", '{"a": "x"}'))
        collector.add_component(Component("list", "{}", '{"b": "x"}'))
    ResultCollector(other, ResultLimits()).add_component(Component("card", "{}", '{"b": "x"}'))
    with pytest.raises(ResultBroken) as broken:
        ResultCollector(other, ResultLimits()).add_component(Component("card", "{}", '{"a": "x"}'))

    assert broken.value.reason is CallFailure.RESULT_INVALID
    assert written.given == [schema("a"), schema("b"), schema("b")]
    assert compiled.given == [schema("a"), schema("b")]  # by its text: two that say the same are one


def test_the_schema_of_a_tool_is_written_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tool's for itself."""
    written = Counted(json_schemas.canonical_text)
    monkeypatch.setattr("sidecar.core.definitions.cards.card.canonical_text", written)
    tools = [ToolEntry(ToolId(name), name, arguments=schema(name)) for name in ("a", "b")]

    texts = [tool.arguments_schema_json for tool in tools * 2]

    assert texts == [json_schemas.canonical_text(schema(name)) for name in "abab"]
    assert written.given == [schema("a"), schema("b")]


def test_a_narration_is_looked_through_once_until_there_is_more_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer and evidence are of the same text; what comes later is in the next."""
    looked = Counted(result_checks.holds_component_data)
    monkeypatch.setattr(result_checks, "holds_component_data", looked)
    collector = ResultCollector(a_card("shop").definition, ResultLimits())

    assert collector.evidence().narration == ""
    collector.add_narration("so it is")
    assert collector.answer(data_unavailable=False).narration == collector.evidence().narration == "so it is"
    collector.add_narration(", ```json")
    assert collector.evidence().narration == ""
    with pytest.raises(ResultBroken):
        collector.answer(data_unavailable=False)
    assert looked.given == ["", "so it is", "so it is, ```json"]
