"""Content digests: content alone identifies a definition, not its place or time. Source: TN-66."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final

from msgspec import Struct

from sidecar.core.definitions.cards.card import AgentDefinition, ModelEntry, PromptBlock, ToolEntry, ToolOperation
from sidecar.core.identifiers import Digest

VERSION: Final = "card/1"
"""Goes into every digest; changes if what a digest covers changes."""
LABEL_DIGITS: Final = 12
PLACE_ONLY: Final = {"path"}
"""Fields that say where something stood; moving a file changes nothing a card says."""
LATER: Final[Mapping[str, Any]] = {
    "allow_empty_answer": False,
    "calls_per_user_per_day": None,
    "max_response_bytes": None,
    "operation": ToolOperation.EFFECT,
    "verbatim_text": False,
}
"""Fields that came after version 1, left out while they have their default: older digests stay what they were."""


def digest_of_card(
    definition: AgentDefinition, model: ModelEntry, tools: Sequence[ToolEntry], blocks: Sequence[PromptBlock]
) -> Digest:
    """Return the digest of an entry and everything it refers to. Writing a default out does not change it."""
    return Digest(f"sha256:{_sha256([VERSION, definition, model, list(tools), list(blocks)])}")


def label_of(parts: Iterable[Any]) -> str:
    """Return a short version label that changes with its parts and is the same wherever the parts are."""
    return _sha256(list(parts))[:LABEL_DIGITS]


def canonical(value: Any) -> str:
    """Return JSON with sorted keys and no blanks. Lists keep their order; times become whole microseconds."""
    return json.dumps(_plain(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _sha256(value: Any) -> str:
    return sha256(canonical(value).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        members = {name: getattr(value, name) for name in value.__struct_fields__ if name not in PLACE_ONLY}
        return {name: _plain(each) for name, each in members.items() if name not in LATER or each != LATER[name]}
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
