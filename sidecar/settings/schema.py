"""Converts a section to the JSON schema that every plugin's descriptor needs; built-in plugins declare sections."""

from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin

from sidecar.settings.limits import ValueConstraints
from sidecar.settings.section import Section, Setting

TYPES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", NoneType: "null"}


def json_schema(section: type[Section]) -> dict[str, Any]:
    """Return the schema of a section whose settings are texts, numbers, booleans, or None."""
    return {
        "type": "object",
        "description": (section.__doc__ or "").strip(),
        "properties": {name: _property(one) for name, one in section.SETTINGS.items()},
        "required": [name for name, one in section.SETTINGS.items() if one.is_required()],
        "additionalProperties": False,
    }


def _property(one: Setting) -> dict[str, Any]:
    kinds = get_args(one.kind) if get_origin(one.kind) is UnionType else (one.kind,)
    # A kind that is missing in `TYPES` raises here, i.e. when the plugin is imported.
    names = [TYPES[kind] for kind in kinds]
    schema = {"type": names if len(names) > 1 else names[0], "description": one.description, **_bounds(one.limits)}
    return schema if one.is_required() else schema | {"default": one.default}


def _bounds(limits: ValueConstraints) -> dict[str, Any]:
    configured = {"minimum": limits.ge, "exclusiveMinimum": limits.gt, "maximum": limits.le}
    return {name: bound for name, bound in configured.items() if bound is not None}
