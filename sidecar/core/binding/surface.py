"""What one turn may call: values that a turn keeps from its bind to its end, whatever happens meanwhile."""

from hashlib import sha256

from msgspec import Struct
from msgspec.structs import force_setattr

from sidecar.core.binding.cohort import Cohort
from sidecar.core.definitions.cards.card import Card
from sidecar.core.definitions.prompt_size import estimated_tokens
from sidecar.core.identifiers import DefinitionId, Digest, Slot
from sidecar.core.rollout.serving import CandidateVerdict


class Candidate(Struct, frozen=True):
    """One listed slot and the definition that was looked at; None if nothing fills the slot."""

    slot: Slot
    definition_id: DefinitionId | None
    verdict: CandidateVerdict


class SurfaceTool(Struct, frozen=True):
    """One sub-agent as a tool.

    Attributes:
        description: the definition's, character for character (PC2-FR-2b).
        arguments_schema_json: canonical JSON text.
    """

    slot: Slot
    name: str
    description: str
    arguments_schema_json: str
    card: Card


class Surface(Struct, frozen=True):
    """The part of a turn's surface that is the same for everybody in its cohort.

    Attributes:
        tools: in the order of `sub_agents`.
        candidates: every listed slot, in order.
        flags_on: names of the flags that decide gated prompt blocks.
        prompt_prefix: the orchestrator's.
        binding_digest: over everything here that a call depends on.
        claimed_tools, claimed_candidates: tools and candidates as the surface token says them; filled in.
        beginning: digest of tools and prefix as a model reads them: what its provider can cache; filled in.
        beginning_tokens: estimate of the same; filled in.
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

    def __post_init__(self) -> None:
        """Say once for all turns what the surface token claims, and what prompts begin with."""
        tools = tuple((tool.slot, tool.card.digest) for tool in self.tools)
        candidates = tuple((each.slot, each.definition_id, each.verdict.value) for each in self.candidates)
        force_setattr(self, "claimed_tools", tools)  # frozen for everybody else
        force_setattr(self, "claimed_candidates", candidates)
        texts = [text for each in self.tools for text in (each.name, each.description, each.arguments_schema_json)]
        begin = "\0".join([*texts, self.prompt_prefix])
        force_setattr(self, "beginning", Digest(f"sha256:{sha256(begin.encode()).hexdigest()}"))
        force_setattr(self, "beginning_tokens", sum(map(estimated_tokens, [*texts, self.prompt_prefix])))

    def tool_named(self, name: str) -> SurfaceTool | None:
        """Return the sub-agent tool with exactly that name, if it is on the surface."""
        for tool in self.tools:
            if tool.name == name:
                return tool
        return None
