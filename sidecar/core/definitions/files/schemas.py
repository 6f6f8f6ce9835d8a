"""Checks that a JSON Schema in the configuration is valid and refers to no other document.

Schemas come from authors of sub-agents and are compiled by the sidecar. A reference to another document would make
a load depend on the network or on other files.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sidecar.core.definitions.files.documents import Steps
from sidecar.core.definitions.files.fields import Fields
from sidecar.core.definitions.files.problems import printable

REFERENCES: Final = ("$ref", "$dynamicRef")
IDENTITIES: Final = ("$id", "$schema")
SHOWN_AT_MOST: Final = 160
"""The most characters of the validator's message. It quotes the author's value, which may be long."""


class SchemaProblem(NamedTuple):
    """A problem in a schema, and the path to it."""

    steps: Steps
    text: str


def read_schema(fields: Fields, key: str, *, of_object: bool) -> Mapping[str, Any]:
    """Return the JSON Schema in `key`; empty if there is none.

    Args:
        fields: the mapping that may have it.
        key: the field that holds it.
        of_object: whether it must describe an object, as the arguments of a tool must.
    """
    schema = fields.mapping(key)
    if not schema:
        return schema
    problem = problem_with(schema)
    if problem is None and of_object and schema.get("type") != "object":
        problem = SchemaProblem((), "must describe an object: it needs `type: object`")
    if problem is not None:
        fields.note_at((key, *problem.steps), problem.text)
    return schema


def problem_with(schema: Mapping[str, Any]) -> SchemaProblem | None:
    """Return the problem with a schema, or None.

    References may point only into the schema itself: a validator must not follow URLs or file paths.
    """
    # Before the compiler, whose message would not say that the reference itself is the problem.
    found = _reaching_out(schema, ())
    if found is not None:
        return found
    import jsonschema_rs  # noqa: PLC0415  many a start has no schema to compile

    try:
        # With the same options as for validation: without fetching, and with patterns that run in linear time.
        jsonschema_rs.Draft202012Validator(dict(schema), offline=True, pattern_options=jsonschema_rs.RegexOptions())
    except jsonschema_rs.ValidationError as error:
        reason = printable(error.message[:SHOWN_AT_MOST])
        return SchemaProblem(tuple(error.instance_path), f"is not JSON Schema (draft 2020-12): {reason}")
    except ValueError as error:
        return SchemaProblem((), f"is not JSON Schema (draft 2020-12): {printable(str(error)[:SHOWN_AT_MOST])}")
    return None


def _reaching_out(value: Any, steps: Steps) -> SchemaProblem | None:
    if isinstance(value, list):
        inner: list[tuple[str | int, Any]] = list(enumerate(value))
    elif isinstance(value, Mapping):
        inner = list(value.items())
    else:
        return None
    for step, item in inner:
        if step in REFERENCES and isinstance(item, str) and not item.startswith("#"):
            return SchemaProblem((*steps, step), "may only point into the schema itself: #/...")
        # `$id` would change what relative references point to, and `$schema` the dialect.
        if step in IDENTITIES and isinstance(item, str):
            return SchemaProblem((*steps, step), "is not used here; leave it out (draft 2020-12 is meant)")
        found = _reaching_out(item, (*steps, step))
        if found is not None:
            return found
    return None
