"""From the tool registry to compiled payload schemas."""

from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from sidecar.core.envelopes import TypingKey, build_typing_registry
from sidecar.core.envelopes.typing_registry import TypingRegistries
from tests.support.builders import a_card
from tests.support.requirement import requirement
from tests.unit.envelopes.building import SCHEMA, tool

OTHER = {"type": "object"}


def test_the_registry_of_a_card_is_made_once_while_few_others_are_asked_for() -> None:
    """The one that was made first gives way to a new one."""
    registries = TypingRegistries()
    cards = [a_card(f"c{number}") for number in range(TypingRegistries.KEPT + 1)]
    made = [registries.of_card(card) for card in cards[:-1]]

    assert [registries.of_card(card) is each for card, each in zip(cards, made, strict=False)] == [True] * len(made)
    newest = registries.of_card(cards[-1])
    assert registries.of_card(cards[-1]) is newest
    assert registries.of_card(cards[1]) is made[1]
    assert registries.of_card(cards[0]) is not made[0]


@requirement("PC2-T-4", "PC2-D-23")
def test_each_key_has_the_schema_its_tool_declares() -> None:
    """Two keys, and a tool that is not data-backed: each key accepts its own payload, unknown keys have nothing."""
    counts = tool("count", enricher_id="count", payload_schema={"type": "integer"})
    registry, problems = build_typing_registry([tool(), counts, tool("local", domain_type=None, enricher_id=None)])

    assert problems == ()
    notes, count = registry.schema_of("notes", "read"), registry.schema_of("notes", "count")
    assert notes is not None
    assert count is not None
    assert (notes.accepts({"note": ""}), notes.accepts(7)) == (True, False)
    assert (count.accepts({"note": ""}), count.accepts(7)) == (False, True)
    for unknown in (("notes", "write"), ("Notes", "read"), ("", "read"), ("notes", "")):
        assert registry.schema_of(*unknown) is None


def test_two_tools_may_share_a_key_if_their_schemas_mean_the_same() -> None:
    """The same schema with members in another order and read-only mappings, and another minor version."""
    frozen = MappingProxyType({**dict(reversed(SCHEMA.items())), "required": ("note",)})
    registry, problems = build_typing_registry([tool("a"), tool("b", payload_schema=frozen, version="1.9.0")])

    assert problems == ()
    assert len(registry.schemas) == 1


CONFLICTS = [
    ({"payload_schema": OTHER}, "Tools 'a' and 'b' declare different payload_schema for (notes, read)."),
    ({"version": "2.0.0"}, "Tools 'a' and 'b' expect different major versions of (notes, read)."),
]


@pytest.mark.parametrize(("changes", "message"), CONFLICTS)
def test_a_key_whose_tools_disagree_is_reported_and_has_no_schema(changes: dict[str, Any], message: str) -> None:
    """Tool b declares the key of tool a otherwise; a third tool that agrees with a does not bring it back."""
    registry, problems = build_typing_registry([tool("a"), tool("b", **changes), tool("c")])

    assert [(problem.tool_id, problem.message) for problem in problems] == [("b", message)]
    assert registry.schema_of("notes", "read") is None


BAD = [
    ({"payload_schema": {}}, "has no payload_schema"),
    ({"payload_schema": {"type": "strong"}}, "not a JSON schema"),
    ({"payload_schema": {"pattern": "("}}, "not a JSON schema"),
    ({"payload_schema": {"pattern": "(?=a)b"}}, "not a JSON schema"),
    ({"payload_schema": {"$ref": "http://127.0.0.1:9/schema.json"}}, "not a JSON schema"),
    ({"payload_schema": {"const": object()}}, "not a JSON schema"),
    ({"payload_schema": {"maximum": float("nan")}}, "not a JSON schema"),
    ({"version": "1"}, "is not semver"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_a_tool_whose_schema_cannot_be_used_is_reported(changes: dict[str, Any], message: str) -> None:
    """No schema, a broken one, one that would fetch something or run a slow pattern, a version that is none."""
    registry, (problem,) = build_typing_registry([tool("bad", **changes)])

    assert problem.tool_id == "bad"
    assert message in problem.message
    assert registry.schemas == {}


def test_a_schema_cannot_read_a_file(tmp_path: Path) -> None:
    """A `$ref` to a file that exists and is a schema: still refused, for it would be outside the configuration."""
    outside = tmp_path / "schema.json"
    outside.write_text('{"type": "object"}')

    registry, (problem,) = build_typing_registry([tool(payload_schema={"$ref": outside.as_uri()})])

    assert "not a JSON schema" in problem.message
    assert registry.schemas == {}


def test_a_rebuild_keeps_the_validators_of_unchanged_schemas() -> None:
    """One schema unchanged, one changed: the first is not compiled again, and what is gone is forgotten."""
    first, _ = build_typing_registry([tool("a"), tool("b", enricher_id="b", payload_schema=OTHER)])
    second, _ = build_typing_registry([tool("a"), tool("b", enricher_id="b", payload_schema={"type": "null"})], first)

    def validator(registry: Any, enricher_id: str) -> object:
        return registry.schema_of("notes", enricher_id).validator

    assert validator(second, "read") is validator(first, "read")
    assert validator(second, "b") is not validator(first, "b")
    assert not second.schemas[TypingKey("notes", "b")].accepts({})
