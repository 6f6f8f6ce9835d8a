"""An Agent Definition, and its card: the definition with all references resolved.

A card is what a turn is bound to and what a runner receives. Its digest identifies it in surface tokens, contracts,
rollouts and the record. These are values only: `definitions/files` reads the entries, and `resolve.py` makes the cards.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum, unique
from functools import cached_property
from hashlib import sha256
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import force_setattr

from sidecar.core.definitions.cards.ask_arguments import DEFAULT_ARGUMENTS, declared_arguments
from sidecar.core.definitions.cards.entries import (
    NOTHING,
    BlockCategory,
    ModelEntry,
    PromptBlock,
    ToolEntry,
    ToolOperation,
)
from sidecar.core.identifiers import BlockId, Commit, DefinitionId, Digest, ModelId, Slot, ToolId, Vertical
from sidecar.core.json_schemas import canonical_text

NO_SLOT: Final = Slot("")
NO_VERTICAL: Final = Vertical("")


@unique
class Role(StrEnum):
    """The declared role of a definition. Documentation only: no code may depend on it (PC1-FR-1d, TN-41)."""

    ORCHESTRATOR = "orchestrator"
    NATIVE = "native"
    EXTERNAL_WRAPPER = "external-wrapper"
    INTERNAL_HELPER = "internal-helper"


class Tuning(Struct, frozen=True):
    """Parameters of the model's response. None: the model's own default.

    Attributes:
        max_output_tokens: maximum length of the answer; at least 1.
        reasoning_effort: for example `low`.
        text_verbosity: for example `medium`.
    """

    max_output_tokens: int | None = None
    reasoning_effort: str | None = None
    text_verbosity: str | None = None


class Limits(Struct, frozen=True):
    """The limits of one child. Source: SX-8, SX-11, TN-24, TN-25, DESIGN section 5.

    Attributes:
        attempt_timeout: maximum duration of one attempt to run the sub-agent.
        max_retries: attempts beyond the first, after temporary failures only.
        idle_timeout: maximum time without a message of the runner; None: no limit.
        wall_clock: maximum duration of all attempts together; a call that exceeds it gets a degraded outcome. None: no
            limit.
        tool_calls: maximum number of calls of data-backed tools, which the sidecar's tool gateway makes; at least 1.
            The calls of all attempts count, and those of sub-agents to which it delegates. None: no limit.
        tokens: maximum number of tokens that the runner may report; at least 1. None: no limit.
        close_on_completion: whether an answer counts as accepted if the consumer-agent gives no verdict before the turn
            ends. With `false` it must give a verdict (`CloseChild` or `EndTurn`); otherwise the child is closed as not
            accepted, with the reason `turn_ended`.
        max_delegation_depth: 0 forbids delegation; with 1 the sub-agent may call other sub-agents, which may not call
            further ones.
        calls_per_user_per_day: maximum number of calls of the slot for one user in a day (UTC); at least 1. None: no
            limit.
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
        target: address of the runner host, e.g. `unix:/run/garden.sock`; without a `kind`, or with `grpc`, it must
            begin with a gRPC scheme. None: that of the settings.
    """

    kind: str | None = None
    target: str | None = None


class AgentDefinition(Struct, frozen=True, dict=True):
    """One entry of `agent_config.yaml::agents`, as written. Source: PC1-FR-1, REQUIREMENTS 6.1, DESIGN section 3.

    Attributes:
        id: unique name of the definition; also part of the names of its feature flags (`enabled_via_flag`).
        description: becomes the tool's description word for word; a warning above about 400 tokens.
        role: documentation; nothing depends on it.
        model: the `id` of a model.
        tools: ids of the tools that the sub-agent may call, in this order.
        prompt_blocks: names of its prompt blocks, in this order.
        sub_agents: slots of the sub-agents that it may call; an entry with sub-agents is an orchestrator. Cycles are
            errors; more than 7 sub-agents give a warning. The entry's model is offered the first 10
            (`definitions.max_sub_agents`) and must have `parallel_tool_calls`.
        tuning: parameters of the model's response.
        enabled_via_flag: the kill flag, `ai_assistant_subagent_<id>`; `<flag>_cohort` is the cohort flag. A new entry
            serves no user until it is promoted, which needs a flag. As soon as the entry names a flag, the definition
            serves users only while both flags are on, until an operator retires them.
        deprecated: the definition is kept for replay, but never offered.
        slot: the name that orchestrators list; the tool is `ask_<slot>`. Several entries may have the same slot; the
            rollout decides which is active. Default: the `id`.
        vertical: the vertical whose flag backend, gates, policies, runner and connector apply. Default: the `slot`.
        runner: the runner that executes the sub-agent.
        arguments: arguments of the tool `ask_<slot>`, besides the two that every such tool accepts. Default: `request`
            and optional `intent_count`.
        ownership: names of the data that the sub-agent writes. Calls of sub-agents that share one of these names run
            one after the other in a turn.
        limits: limits of one call.
        components: JSON Schemas of the components that its `render_*` tools create, by the name of the tool.
        success_criteria: texts that are added to the contract of each call.
        allow_empty_answer: whether a call may succeed without narration, component or missing-data note, e.g. because
            the sub-agent only acts. Otherwise such a call fails with `RESULT_EMPTY`.
        verbatim_text: whether the text of the sub-agent is passed on unchanged. Otherwise hidden characters are
            removed, and special tokens of model templates, such as `[INST]`, are split by a space so that they have no
            effect.
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
        # The struct is frozen; this is part of its construction. The digest therefore covers the filled-in values, and
        # an entry that writes its defaults out has the same digest as one that omits them.
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


class Card(Struct, frozen=True):
    """A definition with everything it refers to. Source: PC1-D-4.

    Attributes:
        blocks: the injected platform blocks first, then the declared ones in order (PC1-D-18).
        digest: of entry, blocks, tools and model; the definition's identity.
        commit: the commit in which that digest first appeared; in a directory without Git, the digest itself.
    """

    definition: AgentDefinition
    model: ModelEntry
    tools: tuple[ToolEntry, ...]
    blocks: tuple[PromptBlock, ...]
    digest: Digest
    commit: Commit

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags that the definition and its blocks mention."""
        definition = self.definition
        # With the flags of its blocks, which decide about its prompt although they do not decide whether it serves.
        named = (definition.enabled_via_flag, definition.cohort_flag, *(block.feature_gated for block in self.blocks))
        return tuple(name for name in named if name is not None)

    @property
    def shape(self) -> str:
        """A hash of model, tools and prompt blocks without their order. Only a new definition may change them.

        Source: PF1-FR-12a.
        """
        definition = self.definition
        # Sorted: a change of the order is a minor change, which may be made in place.
        parts = ([definition.model], sorted(definition.tools), sorted(definition.prompt_blocks))
        # Separators that no id contains: a name cannot move from one list to another without another hash.
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


__all__: Sequence[str] = (
    "AgentDefinition",
    "BlockCategory",
    "Card",
    "Catalogue",
    "Limits",
    "ModelEntry",
    "NO_SLOT",
    "NO_VERTICAL",
    "PromptBlock",
    "Role",
    "RunnerRef",
    "SUB_AGENTS_AT_MOST",
    "ToolEntry",
    "ToolOperation",
    "Tuning",
)
