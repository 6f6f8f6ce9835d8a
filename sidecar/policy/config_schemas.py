"""Compiles the JSON schema of a plugin's settings. Fetches nothing, uses linear patterns, and hides values."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import jsonschema_rs

HIDDEN: Final = "the value"
"""Replaces a setting's value in messages, because it may be a secret."""


def compiled(schema: Mapping[str, Any]) -> "jsonschema_rs.Validator":
    """Return a validator whose messages contain no value.

    Raises:
        ValueError: the schema is no JSON schema, or it refers to another document.
    """
    import jsonschema_rs  # noqa: PLC0415  most starts have no schema to compile

    # The linear engine of patterns: with the default engine, a plugin's pattern could take exponential time.
    options = jsonschema_rs.RegexOptions()
    return jsonschema_rs.validator_for(to_plain(schema), mask=HIDDEN, offline=True, pattern_options=options)


def to_plain(value: Any) -> Any:
    """Copy mappings and sequences into dicts and lists, so that neither side can change the other's."""
    if isinstance(value, Mapping):
        # JSON has only texts as keys.
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    return value
