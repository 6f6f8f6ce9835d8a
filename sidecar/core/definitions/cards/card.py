"""An Agent Definition and, once its references are resolved, its card.

These are values only; `reading.py` and `resolve.py` read and check them.
"""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum, unique
from functools import cached_property
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import force_setattr

from sidecar.core.definitions.cards.ask_arguments import DEFAULT_ARGUMENTS, declared_arguments
from sidecar.core.identifiers import BlockId, Commit, DefinitionId, Digest, ModelId, Slot, ToolId, Vertical
from sidecar.core.json_schemas import canonical_text

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
NO_SLOT: Final = Slot("")
NO_VERTICAL: Final = Vertical("")


@unique
class Role(StrEnum):
    """The declared role of a definition. Documentation only: no code may depend on it (PC1-FR-1d, TN-41)."""

    ORCHESTRATOR = "orchestrator"
    NATIVE = "native"
    EXTERNAL_WRAPPER = "external-wrapper"
    INTERNAL_HELPER = "internal-helper"


@unique
class BlockCategory(StrEnum):
    """The six kinds of prompt block. Source: PC1-D-33."""

    PERSONA = "persona"
    INSTRUCTIONS = "instructions"
    CAPABILITIES = "capabilities"
    SAFETY = "safety"
    FORMAT = "format"
    CONTEXT = "context"


class Tuning(Struct, frozen=True):
    """Parameters of the model's response. None: the model's own default."""

    max_output_tokens: int | None = None
    reasoning_effort: str | None = None
    text_verbosity: str | None = None


class Limits(Struct, frozen=True):
    """The limits of one child. Source: SX-8, SX-11, TN-24, TN-25, DESIGN section 5.

    Attributes:
        attempt_timeout: the longest duration of one attempt.
        max_retries: attempts beyond the first, for transient failures only.
        idle_timeout: the longest silence of a streaming runner; None: no limit.
        wall_clock: the longest duration of all attempts together, after which the call degrades; None: no limit.
        tool_calls: the most calls through the gateway; None: no limit.
        tokens: the most tokens that the runner may report; None: no limit.
        close_on_completion: False: the child stays open until `CloseChild`.
        max_delegation_depth: 0 forbids delegation.
        calls_per_user_per_day: the most children of the slot for one principal per day in UTC; None: no limit.
    """

    attempt_timeout: timedelta = timedelta(seconds=90)
    max_retries: int = 0
    idle_timeout: timedelta | None = None
    wall_clock: timedelta | None = None
    tool_calls: int | None = None
    tokens: int | None = None
    close_on_completion: bool = True
    max_delegation_depth: int = 0
    calls_per_user_per_day: int | None = None


class RunnerRef(Struct, frozen=True):
    """Which runner executes a definition.

    Attributes:
        kind: name of a registered runner, e.g. `grpc`; None: the vertical's or the platform's default.
        target: the address of the host, in the form of that runner, e.g. `unix:/run/shop.sock`; None: its default.
    """

    kind: str | None = None
    target: str | None = None


class AgentDefinition(Struct, frozen=True, dict=True):
    """One entry of `agent_config.yaml::agents`, as written. Source: PC1-FR-1, REQUIREMENTS 6.1, DESIGN section 3.

    Attributes:
        allow_empty_answer: an answer without narration, component and missing data is a success, e.g. of a sub-agent
            that only acts; else it is a failure.
        verbatim_text: its text is passed on unchanged, with hidden characters and special tokens.
    """

    id: DefinitionId
    description: str
    role: Role
    model: ModelId
    tools: tuple[ToolId, ...] = ()
    prompt_blocks: tuple[BlockId, ...] = ()
    sub_agents: tuple[Slot, ...] = ()
    tuning: Tuning = Tuning()
    enabled_via_flag: str | None = None
    deprecated: bool = False
    slot: Slot = NO_SLOT
    vertical: Vertical = NO_VERTICAL
    runner: RunnerRef = RunnerRef()
    arguments: Mapping[str, Any] = field(default_factory=lambda: DEFAULT_ARGUMENTS)
    ownership: tuple[str, ...] = ()
    limits: Limits = Limits()
    components: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: NOTHING)
    success_criteria: tuple[str, ...] = ()
    allow_empty_answer: bool = False
    verbatim_text: bool = False

    def __post_init__(self) -> None:
        """Fill in the slot, by default the id, and the vertical, by default the slot."""
        force_setattr(self, "slot", self.slot or Slot(self.id))
        force_setattr(self, "vertical", self.vertical or Vertical(self.slot))

    @cached_property
    def offered_schema_json(self) -> str:
        """The schema of the arguments for an orchestrator's model, as canonical text, which all surfaces share."""
        return canonical_text(declared_arguments(self.arguments))

    @cached_property
    def component_schemas_json(self) -> Mapping[str, str]:
        """The components' schemas as canonical texts by name. Cached, because every component is validated."""
        return {name: canonical_text(schema) for name, schema in self.components.items()}

    @property
    def is_orchestrator(self) -> bool:
        """Whether the definition has sub-agents. `role` does not matter. Source: PC1-FR-1h, TN-43."""
        return bool(self.sub_agents)

    @property
    def cohort_flag(self) -> str | None:
        """Name of the flag that carries the cohort; None for an entry without `enabled_via_flag`. Source: TN-58."""
        return None if self.enabled_via_flag is None else f"{self.enabled_via_flag}_cohort"


class ModelEntry(Struct, frozen=True):
    """One entry of `agent_config.yaml::models`.

    Attributes:
        provider_model: the provider's name of the model.
        context_window: tokens.
        parallel_tool_calls: whether one response may hold several tool calls (PC1-NFR-6).
        base_url: of an OpenAI-compatible endpoint; None: the provider's own.
        price_per_million_input, price_per_million_output: in US dollars; None: unknown.
    """

    id: ModelId
    provider_model: str
    context_window: int
    parallel_tool_calls: bool = True
    base_url: str | None = None
    price_per_million_input: float | None = None
    price_per_million_output: float | None = None


@unique
class ToolOperation(StrEnum):
    """The effect of a tool's calls at its service; a tool without a declaration is an `EFFECT`, the safe assumption."""

    READ = "read"
    """Changes nothing. May be repeated at any time, without a key."""
    IDEMPOTENT = "idempotent"
    """May change something, once: the service recognises a repetition by its key, or a repetition is harmless."""
    EFFECT = "effect"
    """Changes something each time. Its key is on record first; nothing repeats it while its result is unknown."""


class ToolEntry(Struct, frozen=True, dict=True):
    """One entry of `agent_config.yaml::tools`: how the gateway reaches a data service, or a tool an agent runs itself.

    Attributes:
        description: shown to the model that may call the tool.
        arguments: JSON schema.
        connector: name of a registered connector, e.g. `rest`; None: the platform default. Empty for a local tool.
        endpoint: where the connector sends the request; a URL for `rest`.
        domain_type, enricher_id: key into the typing registry; both None for a tool that is not data-backed.
        version: semver of the payload this side was written for; the same major version is accepted.
        echoes_nonce: whether the service echoes the request's nonce.
        payload_schema: JSON schema of the payload.
        timeout: the longest duration of one call.
        operation: the effect of a call at the service, which determines whether it may be repeated.
        max_response_bytes: the largest envelope; None: the platform's default.
    """

    id: ToolId
    description: str
    arguments: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    connector: str | None = None
    endpoint: str | None = None
    domain_type: str | None = None
    enricher_id: str | None = None
    version: str = "1.0.0"
    echoes_nonce: bool = False
    payload_schema: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    timeout: timedelta = timedelta(seconds=10)
    operation: ToolOperation = ToolOperation.EFFECT
    max_response_bytes: int | None = None

    @cached_property
    def arguments_schema_json(self) -> str:
        """The schema of the arguments as canonical text. Cached, because every call of the tool is validated."""
        return canonical_text(self.arguments)

    @property
    def is_data_backed(self) -> bool:
        """Whether a call goes to a data service and returns an envelope."""
        return self.domain_type is not None


class PromptBlock(Struct, frozen=True):
    """One file of `prompts/components/`. Source: PC1-D-61, PC1-D-48.

    Attributes:
        feature_gated: the flag that adds the block to the prompt; None: the block is always part of it.
        owner: the team that may change the block.
        path: relative to the configuration root, for messages.
    """

    id: BlockId
    category: BlockCategory
    instructions: str
    feature_gated: str | None
    owner: str
    path: str


class Card(Struct, frozen=True):
    """A definition with everything it refers to. Source: PC1-D-4.

    Attributes:
        blocks: the injected platform blocks first, then the declared ones in order (PC1-D-18).
        digest: of entry, blocks, tools and model; the definition's identity.
        commit: where that digest first appeared; in a plain directory, the digest itself.
    """

    definition: AgentDefinition
    model: ModelEntry
    tools: tuple[ToolEntry, ...]
    blocks: tuple[PromptBlock, ...]
    digest: Digest
    commit: Commit

    @property
    def shape(self) -> str:
        """A hash of model, tools and prompt blocks without their order. Only a new definition may change them.

        Source: PF1-FR-12a.
        """
        definition = self.definition
        parts = ([definition.model], sorted(definition.tools), sorted(definition.prompt_blocks))
        return sha256("\x1e".join("\x1f".join(part) for part in parts).encode()).hexdigest()


SUB_AGENTS_AT_MOST: Final = 10
"""The default of `definitions.max_sub_agents`. Source: PC1-D-58, TN-50."""


class Catalogue(Struct, frozen=True):
    """One consistent version of the configuration. Immutable; a turn keeps the version of its bind.

    Attributes:
        cards: by definition id.
        slots: ids of the definitions that fill each slot, in file order.
        tools: the whole tool registry, by id.
        blocks: the names of all prompt blocks, used or not.
        agent_definition_version: label of the whole definition set, for the cohort.
        prompt_block_registry_version: label of all blocks, for the cohort.
        xml_prompt_component_registry_version: label of the `capabilities` blocks, for the cohort.
        max_sub_agents: the number of entries at the beginning of an orchestrator's list that its model can call.
    """

    cards: Mapping[DefinitionId, Card]
    slots: Mapping[Slot, tuple[DefinitionId, ...]]
    tools: Mapping[ToolId, ToolEntry]
    agent_definition_version: str
    prompt_block_registry_version: str
    xml_prompt_component_registry_version: str
    blocks: frozenset[BlockId]
    max_sub_agents: int = SUB_AGENTS_AT_MOST
