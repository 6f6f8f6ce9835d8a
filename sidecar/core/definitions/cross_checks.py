"""Checks references between entries: each resolves, and the configuration can be served. Source: PC1-FR-2."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from sidecar.core.definitions.cards.card import AgentDefinition, ToolEntry
from sidecar.core.definitions.files.documents import Entry, SourceLocation
from sidecar.core.definitions.files.names import RENDER_PREFIX, REQUIRED_BLOCKS
from sidecar.core.definitions.files.placeholders import FAN_OUT_CAP, uses_fan_out_cap
from sidecar.core.definitions.files.problems import Problem, nearest, quoted
from sidecar.core.definitions.files.registries import BLOCKS_FOLDER, Registries
from sidecar.core.identifiers import Slot

NAMED_AT_MOST: Final = 8
"""The most known names in a message, if no known name is similar to the wrong one."""


def check(registries: Registries) -> Iterator[Problem]:
    """Yield every problem between entries."""
    # The absence of `agent_config.yaml` is reported already. Without it, every reference would be reported as unknown.
    if registries.config is None:
        return
    slots = slots_of(registries)
    yield from _required_blocks(registries)
    for entry in registries.agents.entries.values():
        yield from _references(entry, registries)
        yield from _sub_agents(entry, registries, slots)
        yield from _components(entry)
    yield from _cycles(registries, slots)
    yield from _typing(registries)


def slots_of(registries: Registries) -> dict[Slot, tuple[str, ...]]:
    """Return the ids of the definitions that fill each slot, in file order."""
    slots: dict[Slot, tuple[str, ...]] = {}
    for name, entry in registries.agents.entries.items():
        slots[entry.value.slot] = (*slots.get(entry.value.slot, ()), name)
    return slots


def _references(entry: Entry[AgentDefinition], registries: Registries) -> Iterator[Problem]:
    definition, place = entry.value, entry.place
    if definition.model and definition.model not in registries.models:
        yield _unknown(place.at("model"), "model", definition.model, registries.models.ids)
    yield from _unknown_of_list(place.at("tools"), "tool", definition.tools, registries.tools.ids)
    # Files that could not be parsed may define the block. Their own problem is reported already; "unknown block" would
    # be a second message about the same mistake.
    known = (*registries.blocks.ids, *sorted(registries.unread_blocks))
    yield from _unknown_of_list(place.at("prompt_blocks"), "prompt block", definition.prompt_blocks, known)
    for index, name in enumerate(definition.prompt_blocks):
        if name in REQUIRED_BLOCKS:
            text = f"{quoted(name)} is put at the head of every prompt anyway; leave it out"
            yield place.at("prompt_blocks", index).warning(text, key=name)
        block = registries.blocks.get(name)
        if block is not None and uses_fan_out_cap(block) and not definition.is_orchestrator:
            text = f"{quoted(name)} names the fan-out cap ({FAN_OUT_CAP}), which only an orchestrator has"
            yield place.at("prompt_blocks", index).error(text, key=name)


def _unknown_of_list(place: SourceLocation, what: str, names: Sequence[str], known: Sequence[str]) -> Iterator[Problem]:
    choices = frozenset(known)
    for index, name in enumerate(names):
        if name and name not in choices:
            yield _unknown(place.at(index), what, name, known)


def _unknown(place: SourceLocation, what: str, key: str, choices: Sequence[str]) -> Problem:
    text = f"unknown {what} {quoted(key)}"
    if nearest(key, choices) is None:
        known = ", ".join(choices[:NAMED_AT_MOST]) + (", …" if len(choices) > NAMED_AT_MOST else "")
        text += f" (known: {known})" if choices else f" (no {what} is registered)"
    return place.error(text, key=key, choices=choices)


def _sub_agents(
    entry: Entry[AgentDefinition], registries: Registries, slots: dict[Slot, tuple[str, ...]]
) -> Iterator[Problem]:
    definition, place = entry.value, entry.place.at("sub_agents")
    for index, slot in enumerate(definition.sub_agents):
        if slot and slot not in slots:
            yield _unknown(place.at(index), "sub-agent", slot, tuple(slots))
    model = registries.models.get(definition.model)
    # With one call per response, sub-agents would run one after the other, and each would cost another response.
    if definition.is_orchestrator and model is not None and not model.parallel_tool_calls:
        text = f"{quoted(model.id)} cannot make several tool calls in one response, as an orchestrator must"
        yield entry.place.at("model").error(text, key=model.id)


def _components(entry: Entry[AgentDefinition]) -> Iterator[Problem]:
    tools = [tool for tool in entry.value.tools if tool.startswith(RENDER_PREFIX)]
    for name in entry.value.components:
        if name not in tools:
            text = f'{quoted(name)} is not one of this entry\'s tools that begin with "{RENDER_PREFIX}"'
            yield entry.place.at("components", name).error(text, key=name, choices=tools)


def _required_blocks(registries: Registries) -> Iterator[Problem]:
    """Check that the three required blocks exist, which every assembled prompt contains. Source: PC1-FR-12, TN-44."""
    for name in REQUIRED_BLOCKS:
        if name in registries.blocks:
            if registries.blocks[name].feature_gated is not None:
                place = registries.blocks.entries[name].place.at("feature_gated")
                yield place.error(f"{quoted(name)} is in every prompt and cannot be gated", key=name)
            if uses_fan_out_cap(registries.blocks[name]):
                place = registries.blocks.entries[name].place.at("instructions")
                text = f"{quoted(name)} is in every prompt and cannot name the cap ({FAN_OUT_CAP})"
                yield place.error(text, key=name)
        elif name not in registries.unread_blocks:
            text = f"the required prompt block {quoted(name)} is missing"
            # At the folder: a missing block has no file.
            yield Problem(BLOCKS_FOLDER, None, "", text, key=name, suggestion=nearest(name, registries.blocks.ids))


def _cycles(registries: Registries, slots: dict[Slot, tuple[str, ...]]) -> Iterator[Problem]:
    """Yield a problem for each `sub_agents` entry that closes a cycle, through which a definition reaches itself."""
    done: set[str] = set()
    for start in registries.agents.ids:
        if start not in done:
            yield from _circles_from(start, registries, slots, done)


def _circles_from(
    start: str, registries: Registries, slots: dict[Slot, tuple[str, ...]], done: set[str]
) -> Iterator[Problem]:
    """Yield the problems of the cycles that can be reached from a definition; add what was searched to `done`."""
    # Depth first with an explicit stack: a long chain of definitions would exceed the recursion limit.
    path: dict[str, Iterator[tuple[int, str]]] = {start: _fillers(start, registries, slots)}
    while path:
        here = next(reversed(path))
        step = next(path[here], None)
        if step is None:
            done.add(here)
            del path[here]
            continue
        index, below = step
        if below in path:
            names = list(path)
            circle = " → ".join([*names[names.index(below) :], below])
            place = registries.agents.entries[here].place.at("sub_agents", index)
            yield place.error(f"goes round in a circle: {circle}", key=below)
        # Searched before, from another start: its cycles are reported already.
        elif below not in done:
            path[below] = _fillers(below, registries, slots)


def _fillers(name: str, registries: Registries, slots: dict[Slot, tuple[str, ...]]) -> Iterator[tuple[int, str]]:
    for index, slot in enumerate(registries.agents[name].sub_agents):
        # Every definition of a slot: a rollout may select any of them, so none may close a circle.
        for filler in slots.get(slot, ()):
            yield index, filler


def _typing(registries: Registries) -> Iterator[Problem]:
    """Check that tools with the same typing key (`domain_type` and `enricher_id`) have the same payload.

    Otherwise an envelope could be checked against the wrong schema.
    """
    first: dict[tuple[str | None, str | None], ToolEntry] = {}
    for entry in _data_backed(registries):
        tool = entry.value
        # The first tool with a key decides, so that each message names both tools.
        other = first.setdefault((tool.domain_type, tool.enricher_id), tool)
        if other.payload_schema != tool.payload_schema or other.version != tool.version:
            key = f"({tool.domain_type}, {tool.enricher_id})"
            text = f"differs from tool {quoted(other.id)} in version or schema, though both are {key}"
            yield entry.place.at("payload_schema").error(text, key=tool.id)


def _data_backed(registries: Registries) -> Iterable[Entry[ToolEntry]]:
    return (entry for entry in registries.tools.entries.values() if entry.value.is_data_backed)
