"""Classifies the changes between two versions of one definition, and decides whether they may be made in place.

A major change makes a new definition: another model, an entry added to or removed from `tools` or `prompt_blocks`, or
another slot. Everything else is minor. The table of fields is in `docs/definitions.md`. Within a slot, `Card.shape`
changes exactly with the major changes. Source: PF1-FR-12a, PF1-FR-12e, PF1-D-58, TN-68.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from msgspec import Struct

from sidecar.core.definitions.cards.card import AgentDefinition, Card, ModelEntry, PromptBlock, ToolEntry
from sidecar.core.definitions.cards.digest import PLACE_ONLY, canonical
from sidecar.core.definitions.files.problems import quoted

MAJOR: Final = frozenset({"model", "slot"})
"""Fields whose every change is major."""
MAJOR_LISTS: Final = frozenset({"tools", "prompt_blocks"})
"""Lists whose entries may not be added or removed in place. A change of the order is minor."""
NAMED_AT_MOST: Final = 8
"""The most names in one message."""
GATED_AT_ONCE: Final = (
    "what serves already serves no user from then on until both its flags are on; the next raise of its ramp switches "
    "them on, and taking the name out again does not undo it"
)
"""The caution about a definition that names a flag for the first time."""

Part = TypeVar("Part", ModelEntry, ToolEntry, PromptBlock)


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One changed field.

    Attributes:
        field: its name. In a model, tool or block that the definition uses, kind and id precede it:
            `tool:search.timeout`.
        text: the change in words, for a message.
        caution: the reason why a reviewer should examine a minor change carefully; empty: no reason.
    """

    field: str
    text: str
    caution: str = ""


class Changes(NamedTuple):
    """Major and minor changes, each in the order of the definition's fields; shared parts come last."""

    major: tuple[FieldChange, ...]
    minor: tuple[FieldChange, ...]


def changes_between(old: Card | AgentDefinition, new: Card | AgentDefinition) -> Changes:
    """Return the changes from `old` to `new`, two versions of one definition.

    Two entries are compared by their own fields. For two cards, the models, tools and blocks that both use are also
    compared; a change in one of them is a minor change of the definition.

    Raises:
        ValueError: the ids differ, so these are two definitions.
    """
    was = old.definition if isinstance(old, Card) else old
    now = new.definition if isinstance(new, Card) else new
    if was.id != now.id:
        raise ValueError(f"{quoted(was.id)} and {quoted(now.id)} are two definitions; compare states of one")
    changed = _changed_fields(was, now)
    major = [change for name in changed if (change := _major(name, was, now)) is not None]
    minor = [change for name in changed if (change := _minor(name, was, now)) is not None]
    if isinstance(old, Card) and isinstance(new, Card):
        minor.extend(_used(old, new))
    return Changes(tuple(major), tuple(minor))


def nested_changes(old: Part, new: Part) -> tuple[FieldChange, ...]:
    """Return the changes in a model, tool or block with the same name. For its users, each change is minor."""
    return tuple(_part_change(name, old, new) for name in _changed_fields(old, new))


def _changed_fields(old: Struct, new: Struct) -> tuple[str, ...]:
    """Return the changed fields. Compares in the same way as digests, so that a change means another digest."""
    if canonical(old) == canonical(new):
        return ()
    # A block that moves to another file is no change: its path is not part of any digest.
    names = [name for name in old.__struct_fields__ if name not in PLACE_ONLY]
    return tuple(name for name in names if canonical(getattr(old, name)) != canonical(getattr(new, name)))


def _major(name: str, old: AgentDefinition, new: AgentDefinition) -> FieldChange | None:
    before, after = getattr(old, name), getattr(new, name)
    if name in MAJOR:
        return FieldChange(name, f"{name}: {quoted(before)} became {quoted(after)}")
    # Reordered lists have no differences here; `_minor` reports them.
    if name in MAJOR_LISTS and (differences := _differences(before, after)):
        return FieldChange(name, f"{name}: {differences}")
    return None


def _minor(name: str, old: AgentDefinition, new: AgentDefinition) -> FieldChange | None:
    if name in MAJOR:
        return None
    before, after = getattr(old, name), getattr(new, name)
    if not isinstance(before, tuple):
        return FieldChange(
            name, f"{name} changed", GATED_AT_ONCE if (name, before) == ("enabled_via_flag", None) else ""
        )
    # Counted with multiplicity: a name that is listed twice, and once afterwards, has changed.
    differences = _differences(before, after)
    if differences:
        return None if name in MAJOR_LISTS else FieldChange(name, f"{name}: {differences}")
    caution = (
        "the order is part of the prompt's prefix: every cached prompt becomes invalid" if name in MAJOR_LISTS else ""
    )
    return FieldChange(name, f"{name}: reordered", caution)


def _differences(before: Sequence[str], after: Sequence[str]) -> str:
    """Describe the added and removed entries, counting duplicates; empty: only the order may differ."""
    # Counters keep the order of the lists, so that messages are the same each time.
    added, removed = Counter(after) - Counter(before), Counter(before) - Counter(after)
    parts = [f"{word} {_listed(names)}" for word, names in (("added", added), ("removed", removed)) if names]
    return ", ".join(parts)


def _listed(names: Mapping[str, int]) -> str:
    shown = [quoted(name) for name in names][:NAMED_AT_MOST]
    return ", ".join(shown) + (", …" if len(names) > NAMED_AT_MOST else "")


def _part_change(name: str, old: Part, new: Part) -> FieldChange:
    if name == "provider_model":
        before, after = quoted(getattr(old, name)), quoted(getattr(new, name))
        caution = "another model behind the same key; if it answers differently, give it a key and a definition"
        # The model is named by its key, so this change is minor, although another model answers.
        return FieldChange(name, f"{name}: {before} became {after}", caution)
    return FieldChange(name, f"{name} changed")


def _used(old: Card, new: Card) -> Iterator[FieldChange]:
    """Yield the changes in models, tools and blocks that both cards use."""
    # Another model is reported as a major change of the field `model`; its details would only repeat that.
    if old.model.id == new.model.id:
        yield from _named(f"model:{new.model.id}", nested_changes(old.model, new.model))
    tools = {tool.id: tool for tool in old.tools}
    for tool in new.tools:
        if tool.id in tools:
            yield from _named(f"tool:{tool.id}", nested_changes(tools[tool.id], tool))
    blocks = {block.id: block for block in old.blocks}
    for block in new.blocks:
        if block.id in blocks:
            yield from _named(f"block:{block.id}", nested_changes(blocks[block.id], block))


def _named(subject: str, changes: Sequence[FieldChange]) -> Iterator[FieldChange]:
    for change in changes:
        yield FieldChange(f"{subject}.{change.field}", f"{subject}: {change.text}", change.caution)
