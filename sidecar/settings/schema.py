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
        "properties": {name: _property(setting) for name, setting in section.SETTINGS.items()},
        "required": [name for name, setting in section.SETTINGS.items() if setting.is_required()],
        "additionalProperties": False,
    }


def _property(setting: Setting) -> dict[str, Any]:
    kinds = get_args(setting.kind) if get_origin(setting.kind) is UnionType else (setting.kind,)
    # A kind that is missing in `TYPES` raises here, i.e. when the plugin is imported.
    names = [TYPES[kind] for kind in kinds]
    schema = {
        "type": names if len(names) > 1 else names[0],
        "description": setting.description,
        **_bounds(setting.limits),
    }
    return schema if setting.is_required() else schema | {"default": setting.default}


def _bounds(limits: ValueConstraints) -> dict[str, Any]:
    configured = {"minimum": limits.ge, "exclusiveMinimum": limits.gt, "maximum": limits.le}
    return {name: bound for name, bound in configured.items() if bound is not None}
