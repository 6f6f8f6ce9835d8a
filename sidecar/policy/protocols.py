"""The interfaces of the objects that plugins provide: runners, connectors, flag backends.

The hooks of `hookspecs.py` only register descriptors. During a turn the sidecar calls these protocols, each call with a
deadline. An exception of a plugin fails only the call in which it was raised. Plugins run in the sidecar's process and
are trusted: these contracts protect against mistakes, not against malice.
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
    """The context that a sub-agent inherits from its turn; limited in size (PC2-FR-5, TN-13, PC2-D-14).

    Attributes:
        locale, location: from the client; None: the client has stated that they are unknown.
        prior_context: the orchestrator's summary of the conversation; empty if there is none.
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
    """Another sub-agent of the turn that the sub-agent may call, in the form of a tool for its model."""

    name: str
    description: str
    arguments_schema_json: str


class RunRequest(msgspec.Struct, frozen=True):
    """One attempt of one child.

    Attributes:
        attempt: number of the attempt, from 1.
        card: the definition when the turn was bound. Runner hosts with their own definitions compare its digest only.
        arguments_json: the arguments of the model's tool call, valid by the card's schema.
        prompt_prefix: the beginning of the sub-agent's prompt, which is the same for all calls of the cohort.
        prompt_suffix: the rest of the prompt: date, location, user and locale.
        contract_json: the contract of the child: its limits and retries.
        grant: bearer token for the tool gateway; valid for this attempt only.
        timeout: the time that this attempt has left when `run` is called.
        trace_headers: W3C trace context to pass on.
        delegates: the sub-agents that this one may call as tools, in order.
        continuation: question and state of an earlier child, and the answer; None: the run begins new work.
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
    """Progress, as an identifier such as `searching_offers`, which the client translates; never prose (PC2-FR-13a)."""

    type: str
    attributes: Mapping[str, str] = {}


class ComponentMade(msgspec.Struct, frozen=True):
    """One call of a `render_*` tool by the sub-agent: its input and its component (PC1-FR-3c, PC1-FR-10b)."""

    name: str
    tool_input_json: str
    component_data_json: str


class NarrationPart(msgspec.Struct, frozen=True):
    """A piece of the answer's text; pieces are joined in order."""

    text: str


class UsageReported(msgspec.Struct, frozen=True):
    """Tokens used by the attempt so far (running totals, not differences).

    Attributes:
        cached_input_tokens: the input tokens that the provider read from its cache; None: the provider did not say.
    """

    input_tokens: int
    output_tokens: int
    cached_input_tokens: int | None = None


class RunFinished(msgspec.Struct, frozen=True):
    """The attempt has ended. Later events are ignored.

    Attributes:
        data_unavailable: whether the sub-agent had to answer without data that it needed. The outcome is then degraded.
        asked: a question to the user or the orchestrator; the call is suspended until it is answered.
    """

    data_unavailable: bool = False
    asked: Asked | None = None


RunnerEvent = StatusReported | ComponentMade | NarrationPart | UsageReported | RunFinished


class RunnerError(Exception):
    """The attempt failed. The circuit breaker counts the error if `unreachable` or `connection_lost` is true.

    Args:
        detail: a text for operators; never shown to a model or user.
        transient: whether another attempt may succeed. Only then the retries of the contract are used.
        unreachable: the host could not be reached.
        connection_lost: the connection broke after an event of the host, or no event came in time.
        fault: where the connection failed; None: at the runner's target.
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

    `run` yields events until `RunFinished`, unless it raises `RunnerError` or is cancelled. If it does not end soon
    after it was cancelled, the sidecar stops waiting for it and discards its later events.
    """

    @property
    def target(self) -> str:
        """A name of the runner host, e.g. its address. Each pair of target and slot has a circuit breaker."""

    def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Execute one attempt and yield its events. Raises `RunnerError`."""

    async def close(self) -> None:
        """Release connections. Called once, at shutdown."""


class EnricherCall(msgspec.Struct, frozen=True):
    """One request to a data service on the user's behalf. Source: PC2-FR-11, REQUIREMENTS 6.5.

    Attributes:
        endpoint, domain_type, enricher_id: from the tool's entry.
        principal: the user's id, filled in by the gateway, never by the sub-agent.
        nonce: random text that the service must repeat in its envelope; None: the service does not support nonces.
        timeout: for the whole exchange, including a repetition.
        trace_headers: W3C trace context to pass on.
        idempotency_key: key to be passed on; the same for each repetition of the call. None: the call only reads.
        repeatable: whether the connector may send the request twice; false if the call changes something.
        answer: the user's answer to an earlier `EnricherAsks` of this call.
        user_token: for connectors with `needs_user_token`; None for others, or if this process does not have it.
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
    """The envelope as received: nothing may parse it before the gateway has compared its principal.

    Attributes:
        form: the encoding of `body`; a connector whose service has neither encoding writes JSON.
    """

    body: bytes
    form: EnvelopeEncoding = EnvelopeEncoding.JSON

    def __repr__(self) -> str:
        """Show the size only, so that no log line can hold an unchecked payload."""
        return f"EnricherAnswer({len(self.body)} bytes)"


@unique
class RefusalKind(StrEnum):
    """Why there is no envelope. `USER_TOKEN_GONE`, `EXCHANGE_FAILED`: the user's token is missing, or not accepted."""

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
        fault: where the connection failed, for logs; None: no connection failed. Not compared by `==`.
        sent: false if the service has certainly received nothing. Only then a call that changes something is repeated.
    """

    kind: RefusalKind
    fault: Fault | None = field(default=None, compare=False)
    sent: bool = field(default=True, compare=False)


EnricherReply = EnricherAnswer | EnricherRefused | EnricherAsks


class Connector(Protocol):
    """Sends a request to a data service and returns the raw envelope. Never parses the body."""

    async def enrich(self, call: EnricherCall) -> EnricherReply:
        """Send `call`. Every failure is returned as `EnricherRefused`, none is raised."""

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
