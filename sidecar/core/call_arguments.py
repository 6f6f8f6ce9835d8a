"""Reads the arguments of a tool call, and describes problems so that a model can correct them.

A problem names the path, the rule and the allowed values, all from the schema. It contains nothing from the caller:
neither a value nor a name that the schema does not have, because both may contain what a user said.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from sidecar.core.decoding import DecodeError, from_json
from sidecar.core.json_schemas import ValidationProblem, canonical_text, validator_of

ARGUMENTS_LIMIT: Final = 64 * 1024
"""The most UTF-8 bytes of one call's arguments."""
PROBLEMS_AT_MOST: Final = 3
ALLOWED_AT_MOST: Final = 200
"""The most characters of allowed values in one problem."""
LINE_AT_MOST: Final = 480
"""Characters of all problems together; the line becomes the hint of an outcome, which is recorded."""

_LIMITS: Final = {
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be more than {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "minProperties": "must have at least {} fields",
    "maxProperties": "must have at most {} fields",
    "pattern": "must match {}",
    "format": "must have the format {}",
    "const": "must be {}",
}
_CHOICES: Final = ("anyOf", "oneOf")


def read_arguments(text: str, schema_text: str) -> dict[str, Any] | str:
    """Return the arguments, or one line about why they cannot be used.

    Args:
        text: as a model wrote it; not validated.
        schema_text: canonical text of the tool's schema.
    """
    # Before parsing: the cost of the parser grows with the text.
    if len(text.encode(errors="replace")) > ARGUMENTS_LIMIT:
        return f"the arguments must have at most {ARGUMENTS_LIMIT} bytes"
    try:
        decoded = from_json(text)
    except DecodeError:
        return "the arguments must be a JSON object, and are not JSON"
    if not isinstance(decoded, dict):
        return "the arguments must be a JSON object"
    return decoded if validator_of(schema_text).is_valid(decoded) else argument_problem(schema_text, decoded)


def argument_problem(schema_text: str, value: Any) -> str:
    """Return one line about the first problems of a value that does not fit its schema."""
    schema, known = _schema(schema_text)
    # Lazily: a model can send thousands of problems, and only a few are shown.
    found = islice(validator_of(schema_text).iter_errors(value), PROBLEMS_AT_MOST)
    # Without repetitions: problems of different values can read the same, because names are hidden.
    line = "; ".join(dict.fromkeys(_described(error, schema, known) for error in found))
    return line if len(line) <= LINE_AT_MOST else f"{line[:LINE_AT_MOST]}…"


@lru_cache(maxsize=2048)
def _schema(schema_text: str) -> tuple[Mapping[str, Any], frozenset[str]]:
    """Return a schema and every name of a property in it."""
    schema = from_json(schema_text)
    return schema, frozenset(_names(schema))


def _names(schema: Any) -> Iterator[str]:
    inner: Sequence[Any] = ()
    if isinstance(schema, dict):
        properties = schema.get("properties")
        yield from properties if isinstance(properties, dict) else ()
        inner = tuple(schema.values())
    elif isinstance(schema, list):
        inner = schema
    for each in inner:
        yield from _names(each)


def _described(error: ValidationProblem, schema: Mapping[str, Any], known: frozenset[str]) -> str:
    path = _path(error.instance_path, known)
    match error.kind.name:
        case "required":
            # A required name comes from the schema, so it may be shown.
            name = str(error.kind.value)
            return f"`{path}.{name}` is missing" if path else f"`{name}` is missing"
        case "additionalProperties" | "unevaluatedProperties":
            allowed = _allowed_names(error.schema_path, schema)
            return f"{_named(path)} may only hold {allowed}"
        case _:
            return f"{_named(path)} {_rule(error)}"


def _named(path: str) -> str:
    return f"`{path}`" if path else "the arguments"


def _rule(error: ValidationProblem) -> str:
    keyword, said = error.kind.name, error.kind.value
    if keyword == "type":
        return f"must be of type {' or '.join(said)}"
    if keyword == "enum":
        return f"must be one of {_shown(said)[1:-1]}"  # without the brackets of the JSON list
    if keyword in _LIMITS:
        return _LIMITS[keyword].format(_shown(said))
    # Only if all alternatives failed at the same place: otherwise their rules would be about different values.
    if keyword in _CHOICES and all(each and each[0].instance_path == error.instance_path for each in said):
        return " or ".join(dict.fromkeys(_rule(each[0]) for each in said))
    return f"does not fit the rule {keyword} of the schema"


def _path(steps: Sequence[str | int], known: frozenset[str]) -> str:
    """Return a path such as `filters.from[2]`.

    A name that is not in the schema comes from the caller and is shown as `*`.
    """
    path = ""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            # A name that the schema does not have was written by the model, and may repeat what the user said.
            path += f"{'.' if path else ''}{step if step in known else '*'}"
    return path


def _allowed_names(schema_path: Sequence[str | int], schema: Any) -> str:
    here = schema
    # The last step is the violated keyword itself; the object around it has the names.
    for step in schema_path[:-1]:
        if isinstance(here, dict):
            here = here.get(step)
        else:
            here = here[step] if isinstance(here, list) and isinstance(step, int) and step < len(here) else None
    names = here.get("properties", {}) if isinstance(here, dict) else {}
    return ", ".join(names)[:ALLOWED_AT_MOST] or "what the schema names"


def _shown(allowed: Any) -> str:
    text = canonical_text(allowed)
    return text if len(text) <= ALLOWED_AT_MOST else f"{text[:ALLOWED_AT_MOST]}…"
