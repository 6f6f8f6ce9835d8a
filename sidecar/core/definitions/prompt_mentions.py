"""Names in prompt blocks: a model that is told to use a tool or an argument must have it.

A block is prose, so the check looks for text in the form of a name: words joined by `_`, and words in backticks.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sidecar.core.definitions.cards.ask_arguments import declared_arguments
from sidecar.core.definitions.cards.card import AgentDefinition
from sidecar.core.definitions.cross_checks import slots_of
from sidecar.core.definitions.files.names import REQUIRED_BLOCKS
from sidecar.core.definitions.files.problems import Problem, nearest, quoted
from sidecar.core.definitions.files.registries import Registries
from sidecar.core.identifiers import tool_name_of

STATUS_KEYWORD: Final = "x-status"
"""Annotation of a tool's `arguments`: the status event that the tool reports by itself when it is called."""
# A bare name counts only outside of longer words, paths, tags, entities and placeholders.
_NAME: Final = re.compile(r"`([a-z][a-z0-9_]*)`|(?<![\w{<&/.-])([a-z][a-z0-9]*(?:_[a-z0-9]+)+)(?![\w}>-])")
_OF_EVERY_PROMPT: Final = ("date", "location", "user_id", "locale")
"""Source: PC1-FR-6b."""


def unknown_references(registries: Registries) -> Iterator[Problem]:
    """Yield advice for each name in a block that is unknown to an agent with this block."""
    for entry in registries.agents.entries.values():
        definition = entry.value
        known, events = _known_to(definition, registries), _events_of(definition, registries)
        for block_name in (*REQUIRED_BLOCKS, *definition.prompt_blocks):
            # It exists: advice is given only on a configuration without errors.
            block = registries.blocks.entries[block_name]
            # Each name once, in the order of the text.
            for name in dict.fromkeys(one or other for one, other in _NAME.findall(block.value.instructions)):
                if name in known:
                    continue
                # Checked only for unknown names: a tool may have the name of a status event.
                if name in events:
                    text = f"{quoted(name)} is a status event, which the tool reports by itself; leave it out"
                else:
                    meant = nearest(name, sorted(known))
                    hint = "" if meant is None else f"; did you mean {quoted(meant)}?"
                    text = f"{quoted(name)} is no tool, argument or field that {quoted(definition.id)} has{hint}"
                yield block.place.at("instructions").advice(text, key=name)


def _known_to(definition: AgentDefinition, registries: Registries) -> frozenset[str]:
    """Return the names of an agent's tools, their arguments and fields, and the fields of its components."""
    known = {*_OF_EVERY_PROMPT, *definition.components}
    schemas: list[Mapping[str, Any]] = list(definition.components.values())
    for tool_id in definition.tools:
        tool = registries.tools[tool_id]
        known.add(tool.id)
        schemas += [tool.arguments, tool.payload_schema]
    slots = slots_of(registries)
    for slot in definition.sub_agents:
        known.add(tool_name_of(slot))
        schemas += [declared_arguments(registries.agents[name].arguments) for name in slots[slot]]
    return frozenset(known).union(*(frozenset(_words_of(schema)) for schema in schemas))


def _events_of(definition: AgentDefinition, registries: Registries) -> frozenset[str]:
    said = (registries.tools[tool_id].arguments.get(STATUS_KEYWORD) for tool_id in definition.tools)
    return frozenset(event for event in said if isinstance(event, str))


def _words_of(schema: Any) -> Iterator[str]:
    """Yield the names of properties, and the values that a schema allows."""
    if isinstance(schema, Mapping):
        for key, inner in schema.items():
            if key == "properties" and isinstance(inner, Mapping):
                yield from inner
            elif key in {"enum", "const"}:
                values = inner if isinstance(inner, list | tuple) else [inner]
                yield from (value for value in values if isinstance(value, str))
            yield from _words_of(inner)
    elif isinstance(schema, list | tuple):
        for inner in schema:
            yield from _words_of(inner)
