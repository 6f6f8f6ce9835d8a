from collections.abc import Callable

import pytest

from sidecar.core.definitions.cards.digest import canonical, label_of
from sidecar.core.identifiers import Slot
from tests.support.requirement import requirement
from tests.unit.definitions.building import Configuration

GOLDEN = "sha256:d1d12985012d09dd855c1bb67a12140f8c0865a079b38cd0135bb4ceba74f904"

Change = Callable[[Configuration], object]

CHANGES: dict[str, Change] = {
    "description": lambda one: one.agent("shop").update(description="Finds better offers."),
    "role": lambda one: one.agent("shop").update(role="external-wrapper"),
    "tools": lambda one: one.agent("shop").update(tools=["search_offers"]),
    "order of blocks": lambda one: one.agent("shop")["prompt_blocks"].reverse(),
    "tuning": lambda one: one.agent("shop").update(tuning={"reasoning_effort": "low"}),
    "limits": lambda one: one.agent("shop").update(limits={"attempt_timeout": "80s"}),
    "text of an own block": lambda one: one.blocks["persona-shop"].update(instructions="Other."),
    "text of an injected block": lambda one: one.blocks["safety-base"].update(instructions="Other."),
    "gate of a block": lambda one: one.blocks["persona-shop"].update(feature_gated="ai_assistant_x"),
    "model": lambda one: one.config["models"][0].update(provider_model="nano-2"),
    "tool": lambda one: one.config["tools"][0].update(timeout="3s"),
}
NO_CHANGES: dict[str, Change] = {
    "another agent": lambda one: one.agent("concierge").update(description="Leads on."),
    "a tool it does not use": lambda one: one.config["tools"].append({"id": "spare", "description": "Spare."}),
    "a default written out": lambda one: one.agent("shop").update(
        slot="shop", vertical="shop", deprecated=False, limits={"attempt_timeout": "90s", "max_retries": 0}
    ),
    "the same time in another unit": lambda one: one.agent("shop").update(limits={"attempt_timeout": "90000ms"}),
    "the order of fields": lambda one: one.config["agents"].append(dict(reversed(one.config["agents"].pop().items()))),
}


@requirement("PC1-D-4")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_a_card_says_is_in_its_digest(change: Change) -> None:
    """Entry, resolved blocks, tool declarations and model entry."""
    configuration = Configuration()
    before = configuration.card().digest

    change(configuration)

    assert configuration.card().digest != before


@pytest.mark.parametrize("change", NO_CHANGES.values(), ids=NO_CHANGES)
def test_what_a_card_does_not_say_is_not_in_its_digest(change: Change) -> None:
    """Other entries, spelling and order of fields."""
    configuration = Configuration()
    before = configuration.card().digest

    change(configuration)

    assert configuration.card().digest == before


def test_digests_are_pinned() -> None:
    """A golden value: should it change, every stored digest of every deployment would become another."""
    assert Configuration().card().digest == GOLDEN


def test_in_a_plain_directory_the_commit_is_the_digest() -> None:
    """Nothing else is known about where it came from."""
    card = Configuration().card()

    assert str(card.commit) == str(card.digest)
    assert card.digest.startswith("sha256:")


def test_version_labels_change_with_what_they_label_and_with_nothing_else() -> None:
    """A plain block changes two labels, a capabilities block all three, a tool only the definitions'."""
    configuration = Configuration()
    xml = "<can_do>Find.</can_do><cannot_do>Buy.</cannot_do>"
    configuration.blocks["caps"] = {"type": "capabilities", "name": "caps", "owner": "shop", "instructions": xml}
    before = configuration.catalogue()

    configuration.blocks["persona-shop"]["instructions"] = "Other."
    plain = configuration.catalogue()
    configuration.blocks["caps"]["instructions"] = xml + " "
    capabilities = configuration.catalogue()

    assert plain.agent_definition_version != before.agent_definition_version
    assert plain.prompt_block_registry_version != before.prompt_block_registry_version
    assert plain.xml_prompt_component_registry_version == before.xml_prompt_component_registry_version
    assert capabilities.agent_definition_version == plain.agent_definition_version
    assert capabilities.xml_prompt_component_registry_version != plain.xml_prompt_component_registry_version


def test_canonical_json_sorts_keys_keeps_lists_and_has_no_blanks() -> None:
    """Nested, with text beyond ASCII."""
    assert canonical({"b": [2, 1], "a": {"ü": None}}) == '{"a":{"ü":null},"b":[2,1]}'
    assert label_of(["a", "b"]) != label_of(["b", "a"])


def test_two_definitions_may_fill_one_slot() -> None:
    """In file order; which one is active is for the rollout to say."""
    configuration = Configuration()
    configuration.config["agents"].append({**configuration.agent("shop"), "id": "shop-next", "slot": "shop"})

    assert configuration.catalogue().slots[Slot("shop")] == ("shop", "shop-next")
