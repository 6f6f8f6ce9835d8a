"""Settings of the flag backend `openfeature`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

USUAL_REASONS: Final = ("STATIC", "CACHED", "DISABLED")
"""Reasons of a provider for a value that holds for all users."""

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "provider": {
            "type": "string",
            "pattern": r"^(flagd|ofrep|[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*)$",
            "description": "`flagd`, `ofrep`, or `package.module:name` of a provider's class or of a function.",
        },
        "options": {"type": "object", "description": "Its keyword arguments, e.g. `host`; no secrets."},
        "secret_files": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Files by the keyword argument that their text is; of `ofrep`, by header.",
        },
        "context": {
            "type": "object",
            "additionalProperties": {"type": ["string", "number", "boolean"]},
            "description": "Attributes that are sent with each evaluation, the same for all users.",
        },
        "reasons": {
            "type": "array",
            "items": {"type": "string", "pattern": "^[A-Z_]{1,40}$", "not": {"enum": ["SPLIT", "ERROR", "STALE"]}},
            "minItems": 1,
            "description": "A value counts that comes with one of these; unless said STATIC, CACHED and DISABLED.",
        },
    },
    "required": ["provider"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class OpenFeatureSettings:
    """The settings of a backend; `SCHEMA` describes them."""

    provider: str
    options: Mapping[str, Any] = field(default_factory=dict)
    secret_files: Mapping[str, Path] = field(default_factory=dict)
    context: Mapping[str, str | float | bool] = field(default_factory=dict)
    reasons: frozenset[str] = frozenset(USUAL_REASONS)


def settings_from(said: Mapping[str, Any]) -> OpenFeatureSettings:
    """Return the settings in a section that fits `SCHEMA`."""
    files = {name: Path(file) for name, file in said.get("secret_files", {}).items()}
    reasons = frozenset(said.get("reasons", USUAL_REASONS))
    return OpenFeatureSettings(
        said["provider"], dict(said.get("options", {})), files, dict(said.get("context", {})), reasons
    )
