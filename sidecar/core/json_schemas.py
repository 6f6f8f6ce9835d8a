"""JSON schemas of the configuration as text and as compiled validators.

A schema is compiled once per distinct text and kept; the configuration bounds how many there are.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol, cast

from sidecar.core.decoding import from_json


class ProblemKind(Protocol):
    """The keyword of a schema that a value violates, with the keyword's value."""

    name: str
    value: Any


class ValidationProblem(Protocol):
    """One violation of a schema; both paths begin at the top."""

    kind: ProblemKind
    instance_path: Sequence[str | int]
    schema_path: Sequence[str | int]


class Validator(Protocol):
    """A compiled schema."""

    def is_valid(self, instance: Any) -> bool:
        """Return whether a decoded JSON value fits."""

    def iter_errors(self, instance: Any) -> Iterator[ValidationProblem]:
        """Yield the violations of a decoded JSON value."""


def canonical_text(value: Any) -> str:
    """Return canonical JSON: sorted keys, no spaces. Nested read-only mappings and tuples are allowed."""
    # Digests of surfaces and idempotency keys depend on every byte of this form: it must not change.
    return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


@lru_cache(maxsize=2048)
def validator_of(schema_text: str) -> Validator:
    """Return the compiled form of a schema's canonical text.

    It cannot fetch a `$ref` and cannot run a pattern in more than linear time.
    """
    import jsonschema_rs  # noqa: PLC0415  many a start has no schema to compile

    schema = from_json(schema_text)
    # Linear time: a pattern with backtracking could be made to run for minutes by what a sub-agent or a service sends.
    options = jsonschema_rs.RegexOptions()
    return cast(Validator, jsonschema_rs.validator_for(schema, offline=True, pattern_options=options))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
