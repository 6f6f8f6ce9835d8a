"""The arguments of `ask_<slot>`: those that a card declares, and two that every sub-agent tool accepts.

With these two, the orchestrator's model declares its intent count and passes context. The sidecar reads them; a
sub-agent whose card does not declare them never sees them. Source: DESIGN section 3, TN-12, TN-16.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

INTENT_COUNT: Final = "intent_count"
PRIOR_CONTEXT: Final = "prior_context"
PRIOR_CONTEXT_LIMIT: Final = 16 * 1024
"""The most characters of `prior_context`."""

FOR_THE_SIDECAR: Final[Mapping[str, Any]] = MappingProxyType(
    {
        INTENT_COUNT: {
            "type": "integer",
            "minimum": 1,
            "description": "How many separate intents the user's message holds.",
        },
        PRIOR_CONTEXT: {
            "type": "string",
            "maxLength": PRIOR_CONTEXT_LIMIT,
            "description": "What this assistant needs to know of earlier turns, if it was not the one asked last.",
        },
    }
)
DEFAULT_ARGUMENTS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "type": "object",
        "properties": {
            "request": {"type": "string", "description": "What the user wants from this assistant, in full."},
            INTENT_COUNT: FOR_THE_SIDECAR[INTENT_COUNT],
        },
        "required": ["request"],
        "additionalProperties": False,
    }
)
"""The arguments of a card that declares none. They are part of its digest, so a change here changes every such card."""


def declared_arguments(declared: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema for the orchestrator's model: the card's schema, plus the missing ones of the two arguments."""
    # An argument that the card declares itself keeps the card's description.
    missing = {name: FOR_THE_SIDECAR[name] for name in undeclared_arguments(declared)}
    return {**declared, "properties": {**declared.get("properties", {}), **missing}} if missing else declared


def undeclared_arguments(declared: Mapping[str, Any]) -> tuple[str, ...]:
    """Return which of the two arguments a card's schema does not declare; its sub-agent must not get them."""
    own = declared.get("properties", {})
    return tuple(name for name in FOR_THE_SIDECAR if name not in own)
