"""JSON schemas of tools and components: compiled once, and told to a model in words."""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import jsonschema_rs

STATUS_KEYWORD: Final = "x-status"
"""Annotation at the top of a tool's `arguments`: the status event that is reported when the tool is called."""
MOST_PROBLEMS: Final = 5
LONGEST_PROBLEM: Final = 200


class Schema:
    """A compiled schema.

    Args:
        text: JSON text.

    Raises:
        ValueError: it is no JSON schema.
    """

    def __init__(self, text: str) -> None:
        self.content: dict[str, Any] = json.loads(text or "{}") or {}
        # As the sidecar does: nothing is fetched, and no pattern takes more than linear time.
        options = jsonschema_rs.RegexOptions()
        self._validator = jsonschema_rs.validator_for(self.content, offline=True, pattern_options=options)

    def problems(self, value: Any) -> str:
        """Say what is wrong with a value, for the model that made it; empty if nothing is."""
        return "; ".join(self._found(value))

    def _found(self, value: Any) -> Sequence[str]:
        found = []
        for error in self._validator.iter_errors(value):
            path = "/".join(str(part) for part in error.instance_path)
            found.append(f"{path or 'arguments'}: {error.message}"[:LONGEST_PROBLEM])
            if len(found) == MOST_PROBLEMS:
                break
        return found


@lru_cache(maxsize=1024)
def schema_of(text: str) -> Schema:
    """Return the compiled form of a schema's text; cards bound how many there are."""
    return Schema(text)
