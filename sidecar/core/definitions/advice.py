"""Advice on a valid configuration: what makes an orchestrator's model choose badly.

Advice never prevents loading; `sidecar validate` prints it, and `--strict` fails on it. The rules check words, not
meaning; only evaluations show the quality of a description.
"""

import re
from collections.abc import Iterator
from typing import Final

from sidecar.core.definitions.cards.card import AgentDefinition, PromptBlock
from sidecar.core.definitions.files.documents import Entry, SourceLocation
from sidecar.core.definitions.files.names import PLATFORM_OWNER
from sidecar.core.definitions.files.placeholders import FAN_OUT_CAP, uses_fan_out_cap
from sidecar.core.definitions.files.problems import Problem, quoted
from sidecar.core.definitions.files.registries import Registries
from sidecar.core.definitions.prompt_mentions import unknown_references
from sidecar.core.definitions.prompt_size import TokenCounter
from sidecar.core.identifiers import TOOL_PREFIX, Slot, tool_name_of

DESCRIPTION_TOKENS_AT_LEAST: Final = 200
"""Source: PC1-NFR-3a."""
FIRST_WORDS: Final = 3
"""The number of compared first words. Models confuse tools whose descriptions begin alike."""

_WORD: Final = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_WHEN: Final = re.compile(r"\b(?:when|whenever|if|use (?:it|this|for)|ask (?:it|this)|for questions)\b", re.IGNORECASE)
_WHEN_NOT: Final = re.compile(r"\b(?:not|never|cannot|except|rather than|leave)\b|n['\u2019]t\b", re.IGNORECASE)
# Text that orders the model to do something, instead of describing the assistant.
_ORDERS: Final = re.compile(
    r"\b(?:always|never|first)\s+(?:call|use|ask|choose|pick|prefer|select|route)\b"
    r"|\byou\s+(?:must|should|shall|have to|need to)\b"
    r"|\b(?:must|should)\s+(?:always\s+)?be\s+(?:called|used|asked|chosen|preferred)\b"
    r"|\b(?:ignore|disregard|override)\b|\bprefer\s+this\b|\bbefore\s+(?:any|every|all)\s+other\b",
    re.IGNORECASE,
)
# A word that makes the words before it the name of a sub-agent, e.g. "agent" in "the gift cards agent".
_KIND: Final = re.compile(r"\s+(?:assistant|agent|sub-?agent|vertical|specialist|tool)\b", re.IGNORECASE)
_EDGE: Final = re.compile(r"\b")
_TOOL: Final = re.compile(TOOL_PREFIX)


def advise(registries: Registries, count: TokenCounter) -> Iterator[Problem]:
    """Yield all advice on registries without errors, in no particular order."""
    listed = _Listed(registries)
    # Only listed definitions: the description of any other one is read by no model.
    for entry in listed.entries:
        yield from _on_description(entry, listed, count)
    for entry in registries.agents.entries.values():
        if entry.value.is_orchestrator:
            yield from _on_orchestrator(entry, registries)
    for block in registries.blocks.entries.values():
        yield from _on_block(block)
    yield from unknown_references(registries)


def _listed(registries: Registries) -> list[Entry[AgentDefinition]]:
    """Return the definitions that at least one orchestrator lists."""
    slots: set[Slot] = set()
    for entry in registries.agents.entries.values():
        slots.update(entry.value.sub_agents)
    # In file order, and not in that of the set.
    return [entry for entry in registries.agents.entries.values() if entry.value.slot in slots]


class _Listed:
    """The definitions that at least one orchestrator lists, with indexes that avoid comparisons of all pairs."""

    def __init__(self, registries: Registries) -> None:
        self.entries = _listed(registries)
        self._tools: dict[str, Slot] = {}
        self._names: dict[str, list[Slot]] = {}
        self._begins: dict[tuple[str, ...], list[AgentDefinition]] = {}
        self._order: dict[Slot, int] = {}
        for entry in self.entries:
            slot = entry.value.slot
            self._begins.setdefault(_beginning(entry.value.description), []).append(entry.value)
            if slot not in self._order:
                self._order[slot] = len(self._order)
                self._tools[tool_name_of(slot)] = slot
                # As written and as a person would write it: `gift_cards`, "gift cards".
                for name in (slot, slot.replace("_", " ").replace("-", " ")):
                    self._names.setdefault(name.lower(), []).append(slot)
        self._longest = max(map(len, self._tools), default=0)

    def named_in(self, text: str, but: Slot) -> Slot | None:
        """Return the first other slot whose tool is named in `text`, or whose name precedes a word such as "agent"."""
        # A set is allowed here, although `core` iterates no sets: `min` below decides by the order of the list.
        found: set[Slot] = set()
        for begin in (match.start() for match in _TOOL.finditer(text)):
            for end in range(begin + 1, min(len(text), begin + self._longest) + 1):
                # Adds the slot if the text between `begin` and `end` is the name of a tool.
                found.update(filter(None, (self._tools.get(text[begin:end]),)))
        for kind in _KIND.finditer(text):
            # `_longest` is the length of the longest tool name, and the name of a slot is shorter than that of its
            # tool. Without this limit, long descriptions would be searched in quadratic time.
            before = text[max(0, kind.start() - self._longest) : kind.start()].lower()
            for edge in _EDGE.finditer(before):
                found.update(self._names.get(before[edge.start() :], ()))
        return min(found - {but}, key=self._order.__getitem__, default=None)

    def beginning_like(self, definition: AgentDefinition) -> AgentDefinition | None:
        """Return the first definition of another slot whose description has the same first words."""
        begins = _beginning(definition.description)
        alike = self._begins.get(begins, ()) if begins else ()
        return next((other for other in alike if other.slot != definition.slot), None)


def _on_description(entry: Entry[AgentDefinition], listed: _Listed, count: TokenCounter) -> Iterator[Problem]:
    """Check one description.

    It should be long enough, say when to call the tool and when not, not name or begin like another one, and give the
    model no orders. Source: PC1-NFR-3a.
    """
    text, place = entry.value.description, entry.place.at("description")
    tokens = count(text)
    if tokens < DESCRIPTION_TOKENS_AT_LEAST:
        short = f"takes an estimated {tokens} tokens; with fewer than {DESCRIPTION_TOKENS_AT_LEAST}"
        yield place.advice(f"{short}, a model has little to tell this assistant from others by")
    if not _WHEN.search(text):
        yield place.advice("does not say when to ask this assistant; begin a sentence with When or Use it for")
    if not _WHEN_NOT.search(text):
        yield place.advice("does not say what this assistant is not for")
    order = _ORDERS.search(text)
    if order is not None:
        yield place.advice(f"{quoted(order[0])} tells the model what to do; say what this assistant is for instead")
    yield from _on_others(entry.value, place, listed)


def _on_others(definition: AgentDefinition, place: SourceLocation, listed: _Listed) -> Iterator[Problem]:
    named = listed.named_in(definition.description, definition.slot)
    if named is not None:
        text = f"names the sub-agent {quoted(named)}, which may be off or replaced; name the subject instead"
        yield place.advice(text, key=named)
    alike = listed.beginning_like(definition)
    if alike is not None:
        begins = _beginning(definition.description)
        text = f"begins with the same words as {quoted(alike.id)}: {quoted(' '.join(begins))}"
        yield place.advice(text, key=alike.id)


def _beginning(text: str) -> tuple[str, ...]:
    return tuple(word.casefold() for word in _WORD.findall(text)[:FIRST_WORDS])


def _on_orchestrator(entry: Entry[AgentDefinition], registries: Registries) -> Iterator[Problem]:
    """Check that the prompt contains the cap and no block of a vertical. Source: PC2-FR-7b, PC1-D-43."""
    blocks = [(index, registries.blocks[name]) for index, name in enumerate(entry.value.prompt_blocks)]
    if not any(uses_fan_out_cap(block) for _, block in blocks):
        text = f"hold no block that tells the model how many assistants it may ask at once ({FAN_OUT_CAP})"
        yield entry.place.at("prompt_blocks").advice(text)
    for index, block in blocks:
        if block.owner != PLATFORM_OWNER:
            text = f"{quoted(block.id)} belongs to {quoted(block.owner)}; orchestrators belong to the platform"
            yield entry.place.at("prompt_blocks", index).advice(text, key=block.id)


def _on_block(entry: Entry[PromptBlock]) -> Iterator[Problem]:
    """Check that a vertical's block has kind and owner in its name, such as `persona-shop`. Source: PC1-D-38."""
    block = entry.value
    stem = f"{block.category}-{block.owner}"
    if block.owner != PLATFORM_OWNER and block.id != stem and not block.id.startswith(f"{stem}-"):
        text = f"{quoted(block.id)} should be {stem}, or begin with {stem}-, so that its kind and owner can be seen"
        yield entry.place.at("name").advice(text, key=block.id)
