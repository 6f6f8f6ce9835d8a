"""Content digests: content alone identifies a definition, not its place or time.

A turn names the definitions it was bound to by digest. A changed definition has another digest, so a recorded turn
always leads to the content that it ran with.

Source: TN-66.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final

from msgspec import Struct

from sidecar.core.definitions.cards.card import AgentDefinition, ModelEntry, PromptBlock, ToolEntry, ToolOperation
from sidecar.core.identifiers import Digest

VERSION: Final = "card/1"
"""Part of every digest. Must change if digests begin to cover other fields."""
LABEL_DIGITS: Final = 12
PLACE_ONLY: Final = {"path"}
"""Fields without influence on the digest: a moved file is no change of the card."""
LATER: Final[Mapping[str, Any]] = {
    "allow_empty_answer": False,
    "calls_per_user_per_day": None,
    "max_response_bytes": None,
    "operation": ToolOperation.EFFECT,
    "verbatim_text": False,
}
"""Fields that were added after version 1. They are left out if they have their default, so that older digests remain
valid. The names apply to all structs: a field of another struct must not have one of them."""


def digest_of_card(
    definition: AgentDefinition, model: ModelEntry, tools: Sequence[ToolEntry], blocks: Sequence[PromptBlock]
) -> Digest:
    """Return the digest of an entry and everything it refers to. An explicit default has the same digest as none."""
    return Digest(f"sha256:{_sha256([VERSION, definition, model, list(tools), list(blocks)])}")


def label_of(parts: Iterable[Any]) -> str:
    """Return a short version label of some parts. Equal parts have the same label in every sidecar."""
    return _sha256(list(parts))[:LABEL_DIGITS]


def canonical(value: Any) -> str:
    """Return JSON with sorted keys and no blanks. Lists keep their order; times become whole microseconds."""
    # Recorded digests depend on every byte of this form: another spelling would make every definition a new one.
    return json.dumps(_plain(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _sha256(value: Any) -> str:
    return sha256(canonical(value).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        # Field by field and by name: the order in which a struct declares its fields must not change any digest.
        members = {name: getattr(value, name) for name in value.__struct_fields__ if name not in PLACE_ONLY}
        return {name: _plain(each) for name, each in members.items() if name not in LATER or each != LATER[name]}
    if isinstance(value, timedelta):
        # Whole microseconds, because a float of seconds could be written in several ways.
        return value // timedelta(microseconds=1)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
