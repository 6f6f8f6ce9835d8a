"""The delegation contract."""

import json

import msgspec
import pytest

from sidecar.core.definitions.cards.card import Limits
from sidecar.core.executing.contract import Contract, TurnText, contract_from_json
from sidecar.core.identifiers import ToolId
from tests.support.builders import a_card, a_surface, contract_of
from tests.support.requirement import requirement

TEXT = TurnText(task_prompt="Find me coffee and my points.", prior_context="Earlier: order 17.")


def a_contract(**fields: object) -> Contract:
    """Return the contract of a call to a card with `fields`."""
    surface = a_surface(cards=[a_card("shop", **fields)])
    return contract_of(surface.tools[0], "coffee", TEXT, "turn-1")


@requirement("SX-5", "SX-6")
def test_parent_and_step_say_what_is_delegated_and_why() -> None:
    """Run is the turn, step is the emission index, description is the request."""
    contract = a_contract(success_criteria=("names a price",))

    assert msgspec.to_builtins(contract.parent) == {
        "run_id": "turn-1",
        "step_idx": 3,
        "task_prompt": "Find me coffee and my points.",
        "goal_summary": "Earlier: order 17.",
    }
    assert contract.step.title == "ask_shop"
    assert contract.step.description == "coffee"
    assert contract.step.success_criteria == ("names a price",)


@requirement("SX-7", "SX-14")
def test_permissions_are_the_cards_tools_and_no_delegation() -> None:
    """Spawning children is off unless the card says otherwise."""
    contract = a_contract(tools=(ToolId("search_offers"),))

    assert contract.permissions.allowed_tools == ("search_offers",)
    assert contract.permissions.can_spawn_children is False
    assert contract.permissions.max_delegation_depth == 0


@requirement("SX-8", "SX-9", "SX-11")
def test_execution_and_outputs_have_their_defaults() -> None:
    """90 seconds, no retry for chat, closed on completion, markdown under the sample's path."""
    contract = a_contract()

    assert msgspec.to_builtins(contract.execution) == {
        "attempt_timeout_ms": 90000,
        "max_retries": 0,
        "close_on_completion": True,
    }
    assert msgspec.to_builtins(contract.outputs) == {
        "report_format": "markdown",
        "report_path_pattern": ".orchestrix/step-<idx>-result.md",
    }
    assert a_contract(limits=Limits(max_retries=1)).execution.max_retries == 1


@requirement("SX-10")
def test_a_stored_contract_lacking_any_minimum_field_is_refused() -> None:
    """Each field of SX's sample is taken out in turn; extra fields are allowed."""
    whole = json.loads(a_contract().to_json())
    assert contract_from_json(json.dumps(whole | {"note": "extra"})) == a_contract()

    for part in ("parent", "step", "permissions", "execution", "outputs"):
        with pytest.raises(ValueError, match=part):
            contract_from_json(json.dumps({key: value for key, value in whole.items() if key != part}))
    for part in ("parent", "step", "permissions", "execution", "outputs"):
        for name in whole[part]:
            lacking = whole | {part: {key: value for key, value in whole[part].items() if key != name}}
            with pytest.raises(ValueError, match=name):
                contract_from_json(json.dumps(lacking))


def test_a_summary_does_not_grow_with_the_conversation() -> None:
    """Bounded by characters."""
    contract = contract_of(a_surface("shop").tools[0], text=TurnText("", "x" * 100_000))

    assert len(contract.parent.goal_summary) == 16 * 1024
