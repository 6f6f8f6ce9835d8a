"""The JSON schema of a payload, by `(domain_type, enricher_id)`.

The last check of `release`: a payload reaches a sub-agent only if it has the form that is declared for its type.

Source: PC2-D-23, PC2-T-4.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from sidecar.core.decoding import from_json
from sidecar.core.definitions.cards.card import Card, ToolEntry
from sidecar.core.envelopes.versions import major_of
from sidecar.core.identifiers import Digest, ToolId
from sidecar.core.json_schemas import canonical_text

if TYPE_CHECKING:
    import jsonschema_rs


class TypingKey(NamedTuple):
    """The key of a payload's type."""

    domain_type: str
    enricher_id: str


@dataclass(frozen=True, slots=True)
class PayloadSchema:
    """One compiled schema.

    Attributes:
        text: the schema as canonical JSON; equal texts mean equal schemas.
        declared_by: the first tool that declared it.
    """

    key: TypingKey
    text: str
    version: str
    declared_by: ToolId
    validator: "jsonschema_rs.Validator" = field(repr=False, compare=False)

    def accepts(self, payload: object) -> bool:
        """Return whether `payload`, which consists of plain JSON values, fits the schema."""
        return self.validator.is_valid(payload)


class RegistryProblem(msgspec.Struct, frozen=True):
    """Why one tool's key cannot be used. Its calls are withheld until the configuration is corrected.

    Attributes:
        message: the problem and its remedy; names tools and keys, and contains no other error's text.
    """

    tool_id: ToolId
    message: str


class TypingRegistry(msgspec.Struct, frozen=True):
    """An immutable registry. An unknown key has no schema, so nothing of its type is released."""

    schemas: Mapping[TypingKey, PayloadSchema] = msgspec.field(default_factory=dict)

    def schema_of(self, domain_type: str, enricher_id: str) -> PayloadSchema | None:
        """Return the schema of a key, or None if the key is unknown."""
        return self.schemas.get(TypingKey(domain_type, enricher_id))


def build_typing_registry(
    tools: Iterable[ToolEntry], previous: TypingRegistry | None = None
) -> tuple[TypingRegistry, tuple[RegistryProblem, ...]]:
    """Build the registry of all data-backed `tools`.

    Args:
        tools: in registry order, which decides the tool that a problem names first.
        previous: registry whose unchanged validators are reused.

    Returns:
        The registry and its problems. A key with a problem is omitted: nothing of its type is released.
    """
    # By text: tools with equal schemas share one validator, also over reloads of the configuration.
    compiled = {schema.text: schema.validator for schema in (previous or TypingRegistry()).schemas.values()}
    schemas: dict[TypingKey, PayloadSchema] = {}
    refused: set[TypingKey] = set()
    problems: list[RegistryProblem] = []
    for tool in tools:
        if tool.domain_type is None or tool.enricher_id is None:
            continue
        key = TypingKey(tool.domain_type, tool.enricher_id)
        made = _schema_of_tool(tool, key, compiled)
        known = schemas.get(key)
        # The first tool decides, so that the message names both.
        if isinstance(made, PayloadSchema) and known is not None:
            made = _agreement(known, made)
        if isinstance(made, RegistryProblem):
            problems.append(made)
            # For all tools with the key and not only for the second: it is unknown which of two contradicting schemas
            # is right.
            refused.add(key)
        else:
            schemas[key] = made
    kept = {key: schema for key, schema in schemas.items() if key not in refused}
    return TypingRegistry(kept), tuple(problems)


def _schema_of_tool(
    tool: ToolEntry, key: TypingKey, compiled: dict[str, "jsonschema_rs.Validator"]
) -> PayloadSchema | RegistryProblem:
    if not tool.payload_schema:
        return RegistryProblem(tool.id, f"Tool {tool.id!r} is data-backed but has no payload_schema; declare one.")
    # Without a major version no response could be accepted or refused; the configuration must be corrected.
    if major_of(tool.version) is None:
        return RegistryProblem(tool.id, f"Tool {tool.id!r}: version {tool.version!r} is not semver, e.g. 1.0.0.")
    try:
        text = canonical_text(tool.payload_schema)
        # Compiling takes milliseconds; most tools keep their schema when the configuration is reloaded.
        if text not in compiled:
            compiled[text] = _compile(text)
    # All that canonical text, decoder and compiler raise for what an author may write, e.g. deep nesting.
    except (ValueError, TypeError, RecursionError, msgspec.EncodeError):
        return RegistryProblem(
            tool.id,
            f"Tool {tool.id!r}: payload_schema is not a JSON schema that can be compiled offline; "
            "check keywords, patterns (no look-around) and $ref (only within the schema).",
        )
    return PayloadSchema(key, text, tool.version, tool.id, compiled[text])


def _agreement(known: PayloadSchema, other: PayloadSchema) -> PayloadSchema | RegistryProblem:
    """Return `known` if both tools declare the same type, otherwise the problem."""
    where = f"({known.key.domain_type}, {known.key.enricher_id})"
    if known.text != other.text:
        message = f"Tools {known.declared_by!r} and {other.declared_by!r} declare different payload_schema for {where}."
        return RegistryProblem(other.declared_by, message)
    # Minor versions may differ: only the major part decides about a response.
    if major_of(known.version) != major_of(other.version):
        message = f"Tools {known.declared_by!r} and {other.declared_by!r} expect different major versions of {where}."
        return RegistryProblem(other.declared_by, message)
    return known


def _compile(text: str) -> "jsonschema_rs.Validator":
    """Compile a schema that cannot fetch anything and cannot run a pattern in more than linear time."""
    import jsonschema_rs  # noqa: PLC0415  only cards with data services need it

    return jsonschema_rs.validator_for(from_json(text), offline=True, pattern_options=jsonschema_rs.RegexOptions())


class TypingRegistries:
    """The typing registry of each card's tools. A turn uses the registry of its bound card, not of the newest one."""

    KEPT = 1024
    """Far more cards than the open turns of a sidecar use. An entry that was dropped is compiled again."""

    def __init__(self) -> None:
        self._by_digest: dict[Digest, TypingRegistry] = {}

    def of_card(self, card: Card) -> TypingRegistry:
        """Return the registry of a card's tools."""
        known = self._by_digest.get(card.digest)
        if known is None:
            known, _ = build_typing_registry(card.tools)
            self._by_digest[card.digest] = known
            if len(self._by_digest) > self.KEPT:
                # Dictionaries keep the order of insertion: the first entry is the oldest.
                del self._by_digest[next(iter(self._by_digest))]
        return known
