"""The tool gateway: the only way from a sub-agent to data (DESIGN section 6).

The gateway determines the user on whose behalf the data service is called. It releases a response only if the
response is for that user. A sub-agent learns "data unavailable" and nothing else.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from sidecar.core.call_arguments import ARGUMENTS_LIMIT, read_arguments
from sidecar.core.definitions.cards.card import ToolEntry, ToolOperation
from sidecar.core.envelopes.release import check_envelope, expectation_of
from sidecar.core.envelopes.typing_registry import TypingRegistries
from sidecar.core.envelopes.verdicts import (
    REMEDY_OF_REASON,
    WRONG_PRINCIPAL,
    EnvelopeStatus,
    Judgement,
    Released,
    Withheld,
    WithholdReason,
)
from sidecar.core.errors import (
    FieldProblem,
    GrantSpent,
    InvalidRequest,
    MessageTooLarge,
    SubagentsError,
    ToolBudgetExhausted,
    ToolNotAllowed,
)
from sidecar.core.executing.tool_questions import asked_in_call, reason_to_withhold
from sidecar.core.faults import Fault
from sidecar.core.journal.marks import What
from sidecar.core.replaying.frames import Effect
from sidecar.core.user_tokens import UserToken
from sidecar.operations.ports import Clock, Ids, Recorder, RunInThread
from sidecar.operations.rules import DispatchRules
from sidecar.operations.trace_context import TraceContext
from sidecar.operations.turn.child.connector_boundary import ConnectorBoundary
from sidecar.operations.turn.child.send_effect import SendEffect
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.data_use import KeptAnswer
from sidecar.operations.turn.state.grants import GrantTable
from sidecar.operations.turn.state.tracing import Tracing
from sidecar.policy.protocols import EnricherAsks, EnricherCall, EnricherRefused, RefusalKind

SMALL_BODY = 16 * 1024
"""Responses up to this size, in bytes, are checked on the event loop. A check of the largest takes 100 ms or more."""

ASKED = "a data service asks the user; stop calling tools, the call ends with that question"
WITHHOLD_REASON_OF = {kind: WithholdReason[kind.name] for kind in RefusalKind} | {
    RefusalKind.PRINCIPAL_MISMATCH: WithholdReason.PRINCIPAL_REFUSED
}


class ToolResult(Struct, frozen=True):
    """The answer to a sub-agent's tool call. `payload_json` None: data unavailable."""

    payload_json: str | None
    partial: bool = False


class DataRequest(Struct, frozen=True):
    """One permitted call of a tool.

    Attributes:
        nonce: None if the service does not echo it.
        time_left: until the caller's deadline; None if it set none.
        attempt: number of the attempt that makes the call.
        key: idempotency key; None for a read.
    """

    tool: ToolEntry
    arguments_json: str
    nonce: str | None
    time_left: timedelta | None
    attempt: int
    key: str | None = None


class CallTool:
    """The operation: one tool call of a sub-agent, which runs in another process or in this one."""

    def __init__(
        self,
        rules: DispatchRules,
        grants: GrantTable,
        connectors: ConnectorBoundary,
        effects: SendEffect,
        *,
        clock: Clock,
        ids: Ids,
        recorder: Recorder,
        tracing: Tracing,
        off_loop: RunInThread,
        user_token: Callable[[str], UserToken | None],
    ) -> None:
        self._rules = rules
        self._grants = grants
        self._connectors = connectors
        self._effects = effects
        self._clock, self._ids, self._recorder, self._tracing = clock, ids, recorder, tracing
        self._off_loop, self._user_token = off_loop, user_token
        self._registries = TypingRegistries()

    async def __call__(
        self, grant: str, tool_id: str, arguments_json: str, time_left: timedelta | None = None
    ) -> ToolResult:
        """Call one data-backed tool.

        Args:
            grant: of the running attempt.
            tool_id: exactly one of the contract's tools.
            arguments_json: must fit the tool's schema.
            time_left: until the caller's deadline; None if it set none.

        Raises:
            GrantInvalid, ToolNotAllowed, ToolBudgetExhausted, InvalidRequest, MessageTooLarge.
            GrantSpent: the attempt is over, or a data service asks the user and the attempt ends with that question.
            StoreUnavailable: the key of an effect could not be recorded, so the effect was not sent.
        """
        child = self._grants.claim(grant).child
        if child.tool_question is not None:
            raise GrantSpent(ASKED)
        try:
            tool = self._allowed(child, tool_id, arguments_json)
        except SubagentsError as refused:
            self._note(child, What.TOOL_REFUSED, tool_id[:64], str(refused.reason))
            raise
        child.use(Effect.CALLED, tool.id)  # before the await: the outcome depends on it even if no response comes
        child.ledger.use_tool_call()
        began = self._clock.monotonic()
        if tool.id in child.data.barred:  # it returned another user's data once; no call repeats that (PC2-FR-12e)
            return ToolResult(None)
        nonce = self._ids.new("nonce") if tool.echoes_nonce else None  # new for each call, so no old response fits
        request = DataRequest(tool, arguments_json, nonce, time_left, child.attempts)
        judgement = await self._judged(child, request, grant)
        if isinstance(judgement, KeptAnswer):
            child.use(Effect.RELEASED, tool.id)
            return ToolResult(judgement.payload_json, judgement.partial)
        self._account(child, tool, judgement, self._clock.monotonic() - began)
        # The attempt may have ended while the service answered: then its grant no longer permits the payload.
        self._grants.claim(grant)
        if child.tool_question is not None:
            raise GrantSpent(ASKED)
        if isinstance(judgement, Withheld):
            return ToolResult(None)
        child.use(Effect.RELEASED, tool.id)  # after the last check: counts only payloads that the sub-agent received
        return ToolResult(judgement.payload_json, judgement.status is EnvelopeStatus.PARTIAL)

    def _allowed(self, child: Child, tool_id: str, arguments_json: str) -> ToolEntry:
        """Check tool, arguments, then budget: a malformed call must not degrade the outcome. Source: SX-13, TN-102."""
        allowed = tool_id in child.contract.permissions.allowed_tools
        tool = next((entry for entry in child.tool.card.tools if entry.id == tool_id), None)
        if not allowed or tool is None or not tool.is_data_backed:
            served = f"{child.tool.card.definition.id}, digest {child.tool.card.digest}"
            raise ToolNotAllowed(
                f"the contract of the served card ({served}) does not allow this tool",
                metadata={"tool_id": tool_id[:64]},
            )
        if len(arguments_json.encode(errors="replace")) > ARGUMENTS_LIMIT:  # a lone surrogate must not raise here
            raise MessageTooLarge(
                f"arguments_json is over {ARGUMENTS_LIMIT} bytes", metadata={"limit": str(ARGUMENTS_LIMIT)}
            )
        self._check_arguments(tool, arguments_json)
        budget, left = child.contract.budgets.tool_calls, child.ledger.tool_calls_left
        if left is not None and left <= 0:
            child.use(Effect.BUDGET, tool.id)
            raise ToolBudgetExhausted(f"the child has used its {budget} tool calls", metadata={"limit": str(budget)})
        return tool

    def _check_arguments(self, tool: ToolEntry, arguments_json: str) -> None:
        arguments = read_arguments(arguments_json, tool.arguments_schema_json)
        if isinstance(arguments, str):  # the problem
            raise InvalidRequest("the arguments cannot be used", fields=[FieldProblem("arguments_json", arguments)])

    async def _judged(self, child: Child, request: "DataRequest", grant: str) -> Judgement | KeptAnswer:
        """Call the data service as the tool's operation permits.

        A read is sent at once, an idempotent call with a key. An effect is sent only after its key is recorded, and
        never a second time.
        """
        tool = request.tool
        if tool.operation is ToolOperation.READ:
            return await self._traced(child, request)
        if tool.operation is ToolOperation.IDEMPOTENT:
            key = self._effects.key_of(child, tool, request.arguments_json)
            return await self._traced(child, replace(request, key=key))
        admitted = await self._effects.admit(child, tool, request.arguments_json)
        if isinstance(admitted, KeptAnswer):
            return admitted
        try:
            self._grants.claim(grant)  # the attempt may have ended during the append, and another may run now
        except SubagentsError:
            self._effects.not_sent(child, tool, admitted)
            raise
        return await self._effects.send(child, tool, admitted, self._traced(child, replace(request, key=admitted.key)))

    async def _traced(self, child: Child, request: "DataRequest") -> Judgement:
        """Call the data service, within a span if the trace is sampled."""
        span = self._tracing.tool(child, request.tool.id)
        if span is None:
            return await self._ask(child, request, child.trace)
        failure, cache_meta = "cancelled", ""  # what the span gets if the await below raises
        try:
            judgement = await self._ask(child, request, span.context)
            failure, cache_meta = _span_attributes(judgement)
        finally:
            span.ended(failure, cache_meta)
        return judgement

    async def _ask(self, child: Child, request: "DataRequest", trace: TraceContext) -> Judgement:
        """Call the data service once and check its response; the call is never repeated. Source: PC2-FR-12e."""
        tool, nonce, time_left, user_answer = request.tool, request.nonce, request.time_left, child.tool_answer
        call = EnricherCall(
            tool_id=tool.id,
            endpoint=tool.endpoint or "",
            domain_type=tool.domain_type or "",
            enricher_id=tool.enricher_id or "",
            principal=child.principal,
            arguments_json=request.arguments_json,
            nonce=nonce,
            timeout=tool.timeout if time_left is None else min(tool.timeout, time_left),
            trace_headers=trace.headers,
            idempotency_key=request.key,
            repeatable=tool.operation is not ToolOperation.EFFECT,
            answer=None if user_answer is None else user_answer.take(tool.id, request.arguments_json, request.attempt),
            user_token=self._user_token(child.contract.parent.run_id),
        )
        reply = await self._connectors.ask(child.tool.card, call)
        if isinstance(reply, EnricherRefused):
            return Withheld(WITHHOLD_REASON_OF[reply.kind], reply.fault, never_sent=not reply.sent)
        if isinstance(reply, EnricherAsks):
            reason = reason_to_withhold(reply.principal, reply.nonce, child.principal, nonce)
            if reason is not None:
                return Withheld(reason)  # nothing of the question leaves the gateway
            child.ask_for_tool(asked_in_call(reply.asked, tool.id, request.arguments_json), request.attempt)
            # `never_sent`: a service that asks has carried out nothing, so the call may be sent again with the answer.
            return Withheld(WithholdReason.ASKS_BACK, never_sent=True)
        limits = self._rules.envelopes
        if len(reply.body) > (tool.max_response_bytes or limits.default_bytes):
            return Withheld(WithholdReason.TOO_LARGE)
        card = child.tool.card
        check = self._rules.signatures.check_for(card.definition.vertical, tool)
        expected = expectation_of(tool, self._registries.of_card(card), child.principal, nonce, check)
        check_body = partial(check_envelope, reply.body, expected, limits, reply.form)
        return check_body() if len(reply.body) <= SMALL_BODY else await self._off_loop(check_body)

    def _account(self, child: Child, tool: ToolEntry, judgement: Judgement, seconds: float) -> None:
        """Count, log and record the result of a data call. None of it contains anything that the service sent.

        Called before the grant is checked again: withheld data counts even if the attempt is over.
        Source: PC2-FR-12c, PC2-FR-12d.
        """
        if isinstance(judgement, Released):
            self._recorder.data_call(child.slot, tool.id, "released", seconds)
            return
        self._recorder.data_call(child.slot, tool.id, judgement.reason, seconds)
        child.use(Effect.BARRED if judgement.security else Effect.WITHHELD, tool.id)
        fault = fault_of(judgement, tool)
        if judgement.security:
            self._recorder.security_incident(child.slot, tool.id, child.child_id, judgement.reason)
        elif judgement.reason is not WithholdReason.ASKS_BACK:
            self._warn(child, tool, judgement.reason, fault)
        if judgement.reason in WRONG_PRINCIPAL:
            self._recorder.principal_mismatch(child.slot, tool.id, child.child_id)
        if judgement.reason is WithholdReason.VERSION_MISMATCH:
            self._recorder.version_mismatch(child.slot, tool.id)
        where = fault.target, fault.address, fault.errno, fault.remedy
        self._note(child, What.DATA_WITHHELD, tool.id, judgement.reason.value, *where)

    def _warn(self, child: Child, tool: ToolEntry, reason: WithholdReason, fault: Fault) -> None:
        """Log one line for withheld data. Incidents have their own line."""
        message = f"{child.slot} got no data of {tool.id}, {reason}, {fault.in_words()}: {fault.remedy}"
        about = {"sub_agent_id": child.slot, "tool_id": tool.id, "reason": reason.value, **fault.details()}
        self._recorder.anomaly("data_withheld", message, about)

    def _note(self, child: Child, what: What, *values: str) -> None:
        child.note_repeatable(self._clock.now(), what, *values)


def fault_of(withheld: Withheld, tool: ToolEntry) -> Fault:
    """Return where and why data is missing: from the connector, or else derived from the reason."""
    if withheld.fault is not None:
        return withheld.fault
    target = (tool.endpoint or "").partition("?")[0]  # a query string may contain an API key
    return Fault(target, target, remedy=REMEDY_OF_REASON[withheld.reason])


def _span_attributes(judgement: Judgement) -> tuple[str, str]:
    """Return the span attributes of a data call: the failure, and `cache_meta` if all checks passed."""
    if isinstance(judgement, Released):
        return "", judgement.cache_meta_json
    return judgement.reason.value, ""
