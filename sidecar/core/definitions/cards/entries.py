"""What an Agent Definition refers to: models, tools and prompt blocks.

Several cards refer to one entry; `registry_entries` reads the entries, and `resolve` puts them into the cards.
"""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum, unique
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct, field

from sidecar.core.identifiers import BlockId, ModelId, ToolId
from sidecar.core.json_schemas import canonical_text

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@unique
class BlockCategory(StrEnum):
    """The six kinds of prompt block. Source: PC1-D-33."""

    PERSONA = "persona"
    INSTRUCTIONS = "instructions"
    CAPABILITIES = "capabilities"
    SAFETY = "safety"
    FORMAT = "format"
    CONTEXT = "context"


class ModelEntry(Struct, frozen=True):
    """One entry of `agent_config.yaml::models`.

    Attributes:
        id: name of the model in definitions: lower-case letters, digits, `.`, `_`, `-`.
        provider_model: the model's name at its provider.
        context_window: size of the context window in tokens. If the estimated size of a prompt exceeds a quarter of it,
            `sidecar validate` prints a warning; half of it, an error.
        parallel_tool_calls: whether one response may contain several calls (PC1-NFR-6).
        base_url: address of an OpenAI-compatible endpoint, without user name and password; None: the provider's own.
        price_per_million_input, price_per_million_output: US dollars with at most six decimals, for costs; None:
            unknown.
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
    """Changes something each time. The call's idempotency key is recorded before the call is sent. Nothing repeats the
    call while its result is unknown."""


class ToolEntry(Struct, frozen=True, dict=True):
    """One entry of `agent_config.yaml::tools`: an operation of a data service, or a tool that an agent runs itself.

    Attributes:
        id: must not begin with `ask_`; a tool `render_…` creates a component.
        description: shown to the model.
        arguments: arguments that the model passes.
        connector: name of a registered connector (the plugin that calls the data service), e.g. `rest`; None: the
            vertical's or the platform's default.
        endpoint: address of the data service, without user name and password; required if backed by data. For `rest`
            and `grpc` it must begin with a scheme: `https://…`, `unix:…`.
        domain_type: together with `enricher_id` identifies the type of the payload; tools with the same two values must
            agree on version and schema. A tool without the two fields is local.
        enricher_id: see `domain_type`.
        version: version of the payload that the sub-agent expects, as major.minor.patch; responses with the same major
            version are accepted.
        echoes_nonce: whether the service returns the request's nonce, so that an old response cannot be mistaken for a
            new one.
        payload_schema: schema of the response's payload; required if backed by data.
        timeout: maximum duration of one call.
        operation: what a call changes at the service, and therefore whether it may be repeated; a warning if it is not
            written.
        max_response_bytes: maximum size of an envelope, from 1024; never more than `dispatch.envelopes.max_bytes` (1
            MiB). None: `dispatch.envelopes.default_bytes` (256 KiB).
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
        id: the name that `prompt_blocks` lists.
        category: a block of the category `capabilities` must contain `<can_do>…</can_do>`, then
            `<cannot_do>…</cannot_do>`. Blocks of other categories must not contain these tags.
        instructions: the text of the prompt, unchanged except for the placeholder of the fan-out cap.
        feature_gated: a flag beginning with `ai_assistant_`; the block is part of the prompt only if this flag is on.
            None: it always is.
        owner: the team that may change the block.
        path: relative to the configuration root, for messages.
    """

    id: BlockId
    category: BlockCategory
    instructions: str
    feature_gated: str | None
    owner: str
    path: str
