"""The surface of one turn: immutable values from its bind to its end.

A surface is the list of sub-agents that the turn may call, with their tool schemas and the prompt. Turns with equal
decisions share one surface, so nothing in it may depend on a single turn or user.
"""

from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import force_setattr

from sidecar.core.binding.cohort import Cohort
from sidecar.core.definitions.cards.ask_arguments import undeclared_arguments
from sidecar.core.definitions.cards.card import Card
from sidecar.core.definitions.cards.prompt import prefix_of
from sidecar.core.definitions.files.placeholders import filled
from sidecar.core.definitions.prompt_size import estimated_tokens
from sidecar.core.identifiers import DefinitionId, Digest, Slot
from sidecar.core.rollout.serving import CandidateVerdict

Made = TypeVar("Made")
PROMPTS_KEPT: Final = 256
"""Cached beginnings of prompts, which surfaces share: few differences of cohorts affect a sub-agent's prompt."""


class Candidate(Struct, frozen=True):
    """One listed slot with the examined definition; None if no definition fills the slot."""

    slot: Slot
    definition_id: DefinitionId | None
    verdict: CandidateVerdict


class SurfaceTool(Struct, frozen=True, dict=True):
    """One sub-agent as a tool.

    Derived values are computed at the first call and cached here. They are not part of the value, and live as long as
    the surface.

    Attributes:
        description: the definition's, character for character (PC2-FR-2b).
        arguments_schema_json: canonical JSON text.
    """

    slot: Slot
    name: str
    description: str
    arguments_schema_json: str
    card: Card

    @cached_property
    def ownership(self) -> tuple[str, ...]:
        """The data that a call owns: its own slot always, and what the card declares. Source: TN-17, TN-21."""
        return (f"slot:{self.slot}", *self.card.definition.ownership)

    @cached_property
    def held_back(self) -> tuple[str, ...]:
        """Names of arguments for the sidecar only, which the sub-agent does not receive."""
        return undeclared_arguments(self.card.definition.arguments)

    def made_once(self, make: "Callable[[SurfaceTool], Made]") -> Made:
        """Return the result of `make` for this tool, computed once. It must not be None."""
        # The function is the key: every caller must pass the same object each time, and no lambda.
        made: Made | None = self._made.get(make)
        if made is None:
            made = self._made[make] = make(self)
        return made

    @cached_property
    # A dictionary for each tool: if tools shared one, the calls of every tool would get the contract of the first.
    def _made(self) -> "dict[Callable[[SurfaceTool], Any], Any]":
        return {}


class Surface(Struct, frozen=True, dict=True):
    """The part of a turn's surface that all users of its cohort share.

    Values that its calls share are computed at the first call and cached here. They are not part of the value.

    Attributes:
        tools: in the order of `sub_agents`.
        candidates: every listed slot, in order.
        flags_on: names of the flags that decide gated prompt blocks.
        prompt_prefix: the orchestrator's.
        binding_digest: over everything here that a call depends on.
        claimed_tools, claimed_candidates: tools and candidates in the form of the surface token; computed.
        beginning: digest of tools and prefix as a model reads them, which a provider can cache; computed.
        beginning_tokens: estimated tokens of these; computed.
    """

    orchestrator: Card
    tools: tuple[SurfaceTool, ...]
    candidates: tuple[Candidate, ...]
    cohort: Cohort
    flags_on: frozenset[str]
    prompt_prefix: str
    prefix_digest: Digest
    fan_out_cap: int
    max_dispatches: int
    binding_digest: Digest
    claimed_tools: tuple[tuple[Slot, Digest], ...] = ()
    claimed_candidates: tuple[tuple[Slot, DefinitionId | None, str], ...] = ()
    beginning: Digest = Digest("")
    beginning_tokens: int = 0

    @cached_property
    def daily_limits(self) -> Mapping[Slot, int]:
        """The calls that one principal may make in a day, by slot; only slots with such a limit."""
        limits = ((tool.slot, tool.card.definition.limits.calls_per_user_per_day) for tool in self.tools)
        return {slot: calls for slot, calls in limits if calls is not None}

    def __post_init__(self) -> None:
        """Compute once for all turns the claims of the surface token, and the beginning of prompts."""
        tools = tuple((tool.slot, tool.card.digest) for tool in self.tools)
        candidates = tuple((each.slot, each.definition_id, each.verdict.value) for each in self.candidates)
        force_setattr(self, "claimed_tools", tools)  # the struct is frozen; this is part of its construction
        force_setattr(self, "claimed_candidates", candidates)
        texts = [text for each in self.tools for text in (each.name, each.description, each.arguments_schema_json)]
        # A separator that no text contains: otherwise a word could move between two texts without changing the digest.
        begin = "\0".join([*texts, self.prompt_prefix])
        force_setattr(self, "beginning", Digest(f"sha256:{sha256(begin.encode()).hexdigest()}"))
        force_setattr(self, "beginning_tokens", sum(map(estimated_tokens, [*texts, self.prompt_prefix])))

    @cached_property
    def by_name(self) -> Mapping[str, SurfaceTool]:
        """The sub-agent tools by their exact names."""
        return {tool.name: tool for tool in self.tools}

    def prompt_prefix_of(self, card: Card) -> str:
        """Return the beginning of the prompts of a sub-agent, which is the same for all calls of the cohort."""
        prefix = self._prompts.get(card.digest)
        if prefix is None:
            prefix = _the_same(filled(prefix_of(card.blocks, self.flags_on), self.fan_out_cap))
            self._prompts[card.digest] = prefix
        return prefix

    @cached_property
    # A dictionary for each surface: its flags and its cap are part of the prompt, and another cohort has others.
    def _prompts(self) -> dict[Digest, str]:
        return {}


@lru_cache(PROMPTS_KEPT)
def _the_same(text: str) -> str:
    """Return an equal text that is already in memory, if there is one, so that surfaces share it."""
    return text
