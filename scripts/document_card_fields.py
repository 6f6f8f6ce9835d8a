"""Writes `docs/card-fields.md`, the reference of every field of a definition, from the classes of a card.

Names and order are those that the reader of the files accepts; types, defaults and meanings those of the classes.
`--check` only compares.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo, fields

from scripts.document_hooks import documented
from scripts.generate_protos import REPOSITORY
from scripts.generated_page import write_or_check
from sidecar.core.definitions.cards import card
from sidecar.core.definitions.files.agent_entries import AGENT_FIELDS, LIMIT_FIELDS, RUNNER_FIELDS, TUNING_FIELDS
from sidecar.core.definitions.files.registry_entries import BLOCK_FIELDS, DATA_ONLY_FIELDS, MODEL_FIELDS, TOOL_FIELDS
from sidecar.settings.values import duration_text

PAGE: Final = REPOSITORY / "docs/card-fields.md"
SOURCES: Final = tuple(REPOSITORY / f"sidecar/core/definitions/cards/{name}.py" for name in ("card", "entries"))
HEAD: Final = """# Fields of a definition

Made from `sidecar/core/definitions` by `python -m scripts.document_card_fields`; do not edit. [Agent
definitions](definitions.md) explains how to write one, with examples.

The column **change** of [agents](#agents) says whether a change of the field is major or minor, or makes a new
definition ([what a change means](definitions.md#identity-and-what-a-change-means)). Durations carry their unit:
`250ms`, `90s`, `15m`. A tool that is not backed by data must not have the fields marked with *. Any field that is not
listed here is an error.
"""


class Section(NamedTuple):
    """A table of the page.

    Attributes:
        known: the names that the reader accepts, in order.
        of: the class that holds what was read.
        renamed: names of the class, by those of the file.
    """

    title: str
    text: str
    known: Sequence[str]
    of: type[msgspec.Struct]
    renamed: Mapping[str, str] = {}


SECTIONS: Final = (
    Section("Agents", "An entry of `agents` in `agent_config.yaml`.", AGENT_FIELDS, card.AgentDefinition),
    Section("tuning", "Of an agent.", TUNING_FIELDS, card.Tuning),
    Section("runner", "Of an agent.", RUNNER_FIELDS, card.RunnerRef),
    Section("limits", "Of an agent.", LIMIT_FIELDS, card.Limits),
    Section("Models", "An entry of `models` in `agent_config.yaml`.", MODEL_FIELDS, card.ModelEntry),
    Section("Tools", "An entry of `tools` in `agent_config.yaml`.", TOOL_FIELDS, card.ToolEntry),
    Section(
        "Prompt blocks",
        "A file below `prompts/components`.",
        BLOCK_FIELDS,
        card.PromptBlock,
        {"type": "category", "name": "id"},
    ),
)
MARK: Final = "\0"
OTHERWISE: Final = re.compile(r"[.;] (?:None|Default): (?=[^.]+\.$)")
"""What precedes the meaning of a default, at the end of what a class says of a field."""
STATUS: Final = "another way to write `deprecated`; a contradiction is an error."
"""Of the only field that the reader turns into another one."""
NEW: Final = frozenset({"id", "slot"})
MAJOR: Final = frozenset({"model", "tools", "prompt_blocks"})
"""What `Card.shape` covers."""
ONCE_RETIRED: Final = "minor; may be removed only after an operator has retired the flags"


def page() -> str:
    """Return the text of the page."""
    said = {
        node.name: documented(node).names
        for source in SOURCES
        for node in ast.parse(source.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef)
    }
    parts = [HEAD]
    for section in SECTIONS:
        parts += _section(section, said[section.of.__name__])
    return "".join(parts)


def _section(section: Section, said: Mapping[str, str]) -> Iterator[str]:
    is_agent = section.of is card.AgentDefinition
    level = "##" if section.title[0].isupper() else "###"
    yield f"\n{level} {section.title}\n\n{section.text}\n\n| field | type | default | meaning |"
    yield f"{' change |' if is_agent else ''}\n|---|---|---|---|{'---|' if is_agent else ''}\n"
    by_name = {each.name: each for each in fields(section.of)}
    for name in section.known:
        if is_agent and name == "status":
            kind, default, meaning = "`active`, `deprecated`", "none", STATUS
        else:
            field = by_name[section.renamed.get(name, name)]
            meaning, _, otherwise = OTHERWISE.sub(MARK, said[field.name]).partition(MARK)
            kind, default = _kind(field.type), otherwise.removesuffix(".") or _default(field)
        star = "*" if section.of is card.ToolEntry and name in DATA_ONLY_FIELDS else ""
        change = f" {_change(name)} |" if is_agent else ""
        yield f"| `{name}`{star} | {kind} | {default} | {meaning.removesuffix('.')} |{change}\n"


def _kind(of: Any) -> str:
    """Return a type in the words of a file."""
    if get_origin(of) is UnionType or NoneType in get_args(of):
        (of,) = (each for each in get_args(of) if each is not NoneType)
    if get_origin(of) is tuple:
        return f"list of {_kind(get_args(of)[0])}s"
    if isinstance(of, type) and issubclass(of, Enum):
        return ", ".join(f"`{each.value}`" for each in of)
    if isinstance(of, type) and issubclass(of, msgspec.Struct):
        return next(f"[{each.title}](#{each.title})" for each in SECTIONS if each.of is of)
    words = {str: "text", bool: "true or false", int: "number", float: "number", timedelta: "time"}
    if of in words:
        return words[of]
    if get_origin(of) is not None:
        return "map of JSON Schemas" if get_origin(get_args(of)[1]) is not None else "JSON Schema"
    return "id" if of.__supertype__ is str else _kind(of.__supertype__)


def _default(field: FieldInfo) -> str:
    if field.required:
        return "none" if NoneType in get_args(field.type) else "**required**"
    told = field.default
    match told:
        case Enum():
            told = told.value
        case bool() | int():
            told = str(told).lower()
        case timedelta():
            told = duration_text(told)
        case ():
            told = "[]"
        case _:
            pass
    return f"`{told}`" if isinstance(told, str) and told else "none"


def _change(name: str) -> str:
    if name in NEW:
        return "new definition"
    if name == "enabled_via_flag":
        return ONCE_RETIRED
    if name not in MAJOR:
        return "minor"
    return "major" if name == "model" else "major (added, removed); minor (reordered)"


def main() -> int:
    """Write the page, or say that it is not current."""
    return write_or_check(PAGE, page())


if __name__ == "__main__":
    sys.exit(main())
