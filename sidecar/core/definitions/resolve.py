"""Converts parsed files to a catalogue: checks, resolves references, estimates sizes, computes digests. Pure.

The adapter for directories has read and parsed the files; everything from there to cards that a bind can use happens
here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from sidecar.core.definitions.cards.ask_arguments import declared_arguments
from sidecar.core.definitions.cards.card import (
    SUB_AGENTS_AT_MOST,
    AgentDefinition,
    BlockCategory,
    Card,
    Catalogue,
    PromptBlock,
)
from sidecar.core.definitions.cards.digest import digest_of_card, label_of
from sidecar.core.definitions.cross_checks import check, slots_of
from sidecar.core.definitions.files.documents import Document
from sidecar.core.definitions.files.names import REQUIRED_BLOCKS
from sidecar.core.definitions.files.problems import Problem, Severity, in_order
from sidecar.core.definitions.files.registries import Registries, read_registries
from sidecar.core.definitions.prompt_size import (
    TokenCounter,
    estimated_tokens,
    prompt_tokens,
    tool_tokens,
    weigh,
    weigh_description,
    weigh_sub_agents,
)
from sidecar.core.identifiers import Commit, DefinitionId, Digest, Slot, ToolId, tool_name_of

PROBLEMS_AT_MOST: Final = 500
"""The most problems that are reported of one configuration, so that a hostile file cannot exhaust memory and time."""

CommitsOf: TypeAlias = Callable[[frozenset[Digest]], Mapping[Digest, Commit]]
"""Returns the commit in which each digest first appeared. A missing digest gets itself as its commit."""


class LoadedCatalogue(Struct, frozen=True):
    """The result of reading one version of a configuration.

    Attributes:
        catalogue: None if any problem is an error.
        problems: in order of file and line; warnings are possible next to a catalogue.
        prompt_tokens: estimate of each definition's longest prompt.
        tool_tokens: of each definition, by the name of each tool that its model can call, sub-agents last.
        blocks: every block that was read, used or not, in order of name.
    """

    catalogue: Catalogue | None
    problems: tuple[Problem, ...]
    prompt_tokens: Mapping[DefinitionId, int]
    tool_tokens: Mapping[DefinitionId, Mapping[str, int]] = field(default_factory=dict)
    blocks: tuple[PromptBlock, ...] = ()
    _advise: Callable[[], Iterator[Problem]] = field(default=lambda: iter(()))

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that prevent the catalogue."""
        return tuple(problem for problem in self.problems if problem.is_error)

    @property
    def advice(self) -> tuple[Problem, ...]:
        """Advice in the same order; empty without a catalogue. Computed on first use: a sidecar never needs it."""
        return in_order(islice(self._advise(), PROBLEMS_AT_MOST))


def no_commit(digests: frozenset[Digest]) -> Mapping[Digest, Commit]:
    """Return nothing: in a plain directory the digest itself is the commit. Source: PC1-D-4, DESIGN section 3."""
    return {}


def load_documents(
    documents: Sequence[Document],
    unread: Sequence[str] = (),
    earlier: Sequence[Problem] = (),
    count: TokenCounter = estimated_tokens,
    commits_of: CommitsOf = no_commit,
    max_sub_agents: int = SUB_AGENTS_AT_MOST,
) -> LoadedCatalogue:
    """Return the catalogue of parsed files, or all their problems.

    Args:
        documents: the files that could be parsed.
        unread: paths of files that could not be parsed.
        earlier: problems that were found while the files were listed and parsed.
        count: returns the tokens of a text; an estimate by default.
        commits_of: called once with all digests if there is no error.
        max_sub_agents: the model can call only so many entries of its list of sub-agents, the first ones.

    Source: PC1-FR-2e, TN-45.
    """
    problems = list(earlier)
    registries = read_registries(documents, unread, problems)
    # One more than is shown, so that `_bounded` can tell that there are more.
    problems.extend(islice(check(registries), PROBLEMS_AT_MOST + 1))
    if any(problem.is_error for problem in problems):
        # Cards need resolved references: sizes and digests of a broken configuration would only produce further
        # messages.
        return LoadedCatalogue(None, _bounded(problems), {})
    cards = {card.definition.id: card for card in _cards(registries)}
    slots = slots_of(registries)
    tokens: dict[DefinitionId, int] = {}
    tools: dict[DefinitionId, Mapping[str, int]] = {}
    for name, card in cards.items():
        sub_agents = _sub_agent_sizes(card.definition, registries, slots, count)
        own = {tool.id: tool_tokens(tool.id, tool.description, tool.arguments, count) for tool in card.tools}
        # Sub-agents beyond the limit are never offered, so they take no tokens.
        tools[name] = own | {tool_name_of(Slot(slot)): size for slot, size in sub_agents[:max_sub_agents]}
        tokens[name] = prompt_tokens(card, tools[name], count)
        problems.extend(_weights(card, tokens[name], registries, count))
        place = registries.agents.entries[name].place.at("sub_agents")
        problems.extend(weigh_sub_agents(place, sub_agents, max_sub_agents))
    # A prompt that fills half of its context window is an error, too (`weigh`).
    if any(problem.is_error for problem in problems):
        return LoadedCatalogue(None, _bounded(problems), tokens, tools)
    # Last and once: in a git repository this is the slowest part of loading.
    found = commits_of(frozenset(card.digest for card in cards.values()))
    with_commits = {name: replace(card, commit=found.get(card.digest, card.commit)) for name, card in cards.items()}
    blocks = tuple(entry.value for _, entry in sorted(registries.blocks.entries.items()))
    catalogue = _catalogue(with_commits, registries, max_sub_agents)
    return LoadedCatalogue(catalogue, _bounded(problems), tokens, tools, blocks, partial(_advice, registries, count))


def _advice(registries: Registries, count: TokenCounter) -> Iterator[Problem]:
    from sidecar.core.definitions.advice import advise  # noqa: PLC0415  only `sidecar validate` asks for it

    return advise(registries, count)


def _bounded(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return the problems in order. If there are too many, warnings are removed first, and a last line reports it."""
    ordered = in_order(problems)
    # `in_order` has removed duplicates, so the number is that of different problems.
    if len(ordered) <= PROBLEMS_AT_MOST:
        return ordered
    # `sorted` is stable: among the errors, the first ones stay.
    kept = in_order(sorted(ordered, key=lambda problem: not problem.is_error)[:PROBLEMS_AT_MOST])
    more = Problem("", None, "", f"there are more than {PROBLEMS_AT_MOST} problems; mend these first", Severity.WARNING)
    return (*kept, more)


def _cards(registries: Registries) -> Iterator[Card]:
    for entry in registries.agents.entries.values():
        definition = entry.value
        model = registries.models[definition.model]
        tools = tuple(registries.tools[tool] for tool in definition.tools)
        blocks = _blocks_of(definition, registries)
        digest = digest_of_card(definition, model, tools, blocks)
        yield Card(definition, model, tools, blocks, digest, Commit(digest))


def _blocks_of(definition: AgentDefinition, registries: Registries) -> tuple[PromptBlock, ...]:
    """Return the required blocks, then the declared ones in order, without repeating required blocks.

    Source: PC1-FR-12, PC1-D-18, PC1-D-19, TN-42, TN-44.
    """
    declared = (name for name in definition.prompt_blocks if name not in REQUIRED_BLOCKS)
    return tuple(registries.blocks[name] for name in (*REQUIRED_BLOCKS, *declared))


def _sub_agent_sizes(
    definition: AgentDefinition, registries: Registries, slots: Mapping[Slot, tuple[str, ...]], count: TokenCounter
) -> list[tuple[str, int]]:
    """Return each listed slot with the tokens of its tool, for the definition of the slot with the most tokens."""

    def size(slot: Slot, name: str) -> int:
        filler = registries.agents[name]
        return tool_tokens(tool_name_of(slot), filler.description, declared_arguments(filler.arguments), count)

    # The largest counts: a rollout may select any definition of the slot.
    return [(slot, max(size(slot, name) for name in slots[slot])) for slot in definition.sub_agents]


def _weights(card: Card, tokens: int, registries: Registries, count: TokenCounter) -> Iterator[Problem]:
    place = registries.agents.entries[card.definition.id].place
    for problem in (
        weigh(place.at("prompt_blocks"), tokens, card.model.context_window),
        weigh_description(place, card.definition.description, count),
    ):
        if problem is not None:
            yield problem


def _catalogue(cards: Mapping[DefinitionId, Card], registries: Registries, max_sub_agents: int) -> Catalogue:
    blocks = [entry.value for _, entry in sorted(registries.blocks.entries.items())]
    # The specification calls the blocks of this category XML prompt components.
    xml = [block for block in blocks if block.category is BlockCategory.CAPABILITIES]
    slots = {slot: tuple(DefinitionId(name) for name in names) for slot, names in slots_of(registries).items()}
    tools = {ToolId(name): entry.value for name, entry in registries.tools.entries.items()}
    return Catalogue(
        cards=MappingProxyType(dict(cards)),
        slots=MappingProxyType(slots),
        tools=MappingProxyType(tools),
        # Sorted: two sidecars that list the same files in another order must report the same version.
        agent_definition_version=label_of(sorted(card.digest for card in cards.values())),
        prompt_block_registry_version=label_of(blocks),
        xml_prompt_component_registry_version=label_of(xml),
        blocks=frozenset(block.id for block in blocks),
        max_sub_agents=max_sub_agents,
    )
