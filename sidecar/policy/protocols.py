"""The interfaces of the objects that plugins provide: runners, connectors, flag backends.

pluggy hooks only *register* descriptors (`hookspecs.py`). During a turn the sidecar calls these protocols, with a
deadline around each call. An exception of such an object is caught at its boundary: it fails its own call and nothing
else. In-process plugins are trusted; these contracts protect against mistakes, not against malice.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum, unique
from typing import Protocol

import msgspec

from sidecar.core.definitions.cards.card import Card
from sidecar.core.dispatching.questions import Answerer, Answering, Asked, Continuation, Decision, QuestionKind
from sidecar.core.envelopes.forms import EnvelopeEncoding
from sidecar.core.executing.tool_questions import EnricherAsks, ServiceAnswer
from sidecar.core.faults import Fault
from sidecar.core.flag_states import FlagReport, FlagValue
from sidecar.core.identifiers import AttemptId, ChildId, EpisodeId, Principal, ToolId, TurnId
from sidecar.core.user_tokens import UserToken
from sidecar.policy.flags import FlagBackend, FlagWriter, NamedFlagBackend


class InheritedContext(msgspec.Struct, frozen=True):
    """The context that a sub-agent inherits; limited in size, by reference where it could grow.

    Source: PC2-FR-5, TN-13, PC2-D-14.

    Attributes:
        locale, location: None means explicitly unknown.
        prior_context: the orchestrator's summary; empty when there is none.
        task_prompt: the user's message of this turn, if the client gave it.
    """

    principal: Principal
    episode_id: EpisodeId
    turn_id: TurnId
    locale: str | None
    location: str | None
    prior_context: str = ""
    task_prompt: str = ""


class DelegateTool(msgspec.Struct, frozen=True):
    """Another sub-agent of the turn that may be called, as a tool."""

    name: str
    description: str
    arguments_schema_json: str


class RunRequest(msgspec.Struct, frozen=True):
    """One attempt of one child.

    Attributes:
        attempt: 1 for the first.
        card: the definition as bound; a runner that keeps definitions looks at `card.digest` only.
        arguments_json: what the model put into the tool call, checked against the card's schema.
        contract_json: the delegation contract with SX's field names.
        grant: bearer token for the tool gateway; valid for this attempt only.
        timeout: time left for this attempt when `run` was called.
        trace_headers: W3C trace context to pass on.
        delegates: the sub-agents that it may delegate to, in surface order; empty unless its contract allows it.
        continuation: what an earlier child asked back, its state, and the answer; None: the run begins new work.
    """

    child_id: ChildId
    attempt_id: AttemptId
    attempt: int
    card: Card
    arguments_json: str
    context: InheritedContext
    prompt_prefix: str
    prompt_suffix: str
    contract_json: str
    grant: str
    timeout: timedelta
    trace_headers: Mapping[str, str] = {}
    delegates: tuple[DelegateTool, ...] = ()
    continuation: Continuation | None = None


class StatusReported(msgspec.Struct, frozen=True):
    """Progress, as a typed identifier such as `searching_offers`; never prose. Source: PC2-FR-13a."""

    type: str
    attributes: Mapping[str, str] = {}


class ComponentMade(msgspec.Struct, frozen=True):
    """One `render_*` call: its input and its component. Source: PC1-FR-3c, PC1-FR-10b."""

    name: str
    tool_input_json: str
    component_data_json: str


class NarrationPart(msgspec.Struct, frozen=True):
    """A piece of the answer's text; pieces are joined in order."""

    text: str


class UsageReported(msgspec.Struct, frozen=True):
    """Tokens used by the attempt so far (running totals, not differences).

    Attributes:
        cached_input_tokens: of the input tokens, those that the provider read from its cache; None: it does not say.
    """

    input_tokens: int
    output_tokens: int
    cached_input_tokens: int | None = None


class RunFinished(msgspec.Struct, frozen=True):
    """The attempt came to its end. Nothing after it counts.

    Attributes:
        data_unavailable: the sub-agent says that it had to answer without the data it needed (axis 2).
        asked: what it asks back; the call is suspended then.
    """

    data_unavailable: bool = False
    asked: Asked | None = None


RunnerEvent = StatusReported | ComponentMade | NarrationPart | UsageReported | RunFinished


class RunnerError(Exception):
    """The attempt failed (axis 1).

    Args:
        detail: for the operator's timeline; never shown to a model or user.
        transient: whether another attempt may succeed; only then the contract's retries are used.
        unreachable: the host could not be reached at all.
        connection_lost: the connection broke after the host had reported something, or nothing came in time. Either of
            the two is a transport fault, which the breaker counts; an error of the sub-agent is neither.
        fault: where a transport fault happened; None: at the runner's target.
    """

    def __init__(
        self,
        detail: str,
        *,
        transient: bool = False,
        unreachable: bool = False,
        connection_lost: bool = False,
        fault: Fault | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.transient = transient
        self.unreachable = unreachable
        self.connection_lost = connection_lost
        self.fault = fault


class Runner(Protocol):
    """Executes sub-agents.

    `run` yields events until `RunFinished`, raises `RunnerError`, or is cancelled. It must end soon after it is
    cancelled; otherwise it is abandoned, and its later events are discarded.
    """

    @property
    def target(self) -> str:
        """Names what fails together, e.g. the host's address; a breaker counts each slot of it for itself."""

    def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Execute one attempt."""

    async def close(self) -> None:
        """Release connections. Called once, at shutdown."""


class EnricherCall(msgspec.Struct, frozen=True):
    """One request to a data service on the user's behalf. Source: PC2-FR-11, REQUIREMENTS 6.5.

    Attributes:
        principal: filled in by the gateway, never by the child.
        nonce: to be echoed in the envelope; None if the service does not do that.
        timeout: for the whole exchange.
        trace_headers: W3C trace context to pass on.
        idempotency_key: to be passed on; the same for each repetition of the call. None: a read.
        repeatable: the connector may send the request a second time on its own; never so for an effect.
        answer: of the user, to what `EnricherAsks` asked in this call before.
        user_token: for connectors with `needs_user_token`; None: this process does not have it, or for any other one.
    """

    tool_id: ToolId
    endpoint: str
    domain_type: str
    enricher_id: str
    principal: Principal
    arguments_json: str
    nonce: str | None
    timeout: timedelta
    trace_headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    idempotency_key: str | None = None
    repeatable: bool = True
    answer: ServiceAnswer | None = None
    user_token: UserToken | None = None


class EnricherAnswer(msgspec.Struct, frozen=True):
    """The envelope as it came, unopened: nothing may read it before the principal check.

    Attributes:
        form: what the bytes are; a connector that speaks neither form writes JSON.
    """

    body: bytes
    form: EnvelopeEncoding = EnvelopeEncoding.JSON

    def __repr__(self) -> str:
        """Show the size only, so that no log line can hold an unchecked payload."""
        return f"EnricherAnswer({len(self.body)} bytes)"


@unique
class RefusalKind(StrEnum):
    """Why there is no envelope. The last two: the connector exchanges the user's token, and there is none."""

    MISSING_PRINCIPAL = "missing_principal"
    """The service answered 400 missing_principal. Source: PC2-D-32."""
    PRINCIPAL_MISMATCH = "principal_mismatch"
    """The service answered 403 principal_mismatch. Source: PC2-D-33."""
    UNAVAILABLE = "unavailable"
    TIMEOUT = "timeout"
    TOO_LARGE = "too_large"
    MALFORMED = "malformed"
    USER_TOKEN_GONE = "user_token_gone"  # noqa: S105  the name of a reason, no secret
    EXCHANGE_FAILED = "exchange_failed"


@dataclass(frozen=True, slots=True)
class EnricherRefused:
    """The service gave no envelope.

    Attributes:
        fault: where the way to the service broke, for log and timeline; None: the kind says it all. Not compared.
        sent: False only if the connector knows that nothing has reached the service: only then an effect is repeated.
    """

    kind: RefusalKind
    fault: Fault | None = field(default=None, compare=False)
    sent: bool = field(default=True, compare=False)


EnricherReply = EnricherAnswer | EnricherRefused | EnricherAsks


class Connector(Protocol):
    """Carries one request to a data service and brings the raw envelope back. Never retries, never opens the body."""

    async def enrich(self, call: EnricherCall) -> EnricherReply:
        """Send `call`; whatever goes wrong comes back as `EnricherRefused`."""

    async def close(self) -> None:
        """Release connections. Called once, at shutdown."""


__all__: Sequence[str] = (
    "Answerer",
    "Answering",
    "Asked",
    "ComponentMade",
    "Connector",
    "Continuation",
    "Decision",
    "DelegateTool",
    "EnricherAnswer",
    "EnricherAsks",
    "EnricherCall",
    "EnricherRefused",
    "EnricherReply",
    "Fault",
    "FlagBackend",
    "FlagReport",
    "FlagValue",
    "FlagWriter",
    "InheritedContext",
    "NamedFlagBackend",
    "NarrationPart",
    "QuestionKind",
    "RefusalKind",
    "RunFinished",
    "RunRequest",
    "Runner",
    "RunnerError",
    "RunnerEvent",
    "ServiceAnswer",
    "StatusReported",
    "UsageReported",
)
