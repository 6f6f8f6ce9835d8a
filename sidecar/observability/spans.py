"""Implements the interface `Tracing`: spans with OpenTelemetry's GenAI conventions, created for sampled traces only.

Import this module after the sidecar listens: OpenTelemetry takes longer to load than all else that the start needs.
"""

from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    TraceState,
    set_span_in_context,
)

from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.dispatching.outcomes import Usage
from sidecar.core.identifiers import EpisodeId
from sidecar.observability import span_names
from sidecar.operations.requests import DispatchRequest
from sidecar.operations.trace_context import LOGGED, TraceContext
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.tracing import AttemptSpan, DispatchSpan, ToolSpan

Attributes = Mapping[str, str | int]
Clean = Callable[[str], str]
"""Returns a text without secrets."""


class RecordedSpan:
    """A span with the methods that operations use."""

    def __init__(self, span: Span, tracestate: str, clean: Clean) -> None:
        self._span = span
        self._clean = clean
        # Given to the runner host, so that its spans become children of this one.
        self.context = TraceContext(traceparent_of(span), tracestate)

    def enter(self) -> None:
        """Tie the log lines of the current task to this span."""
        LOGGED.set(self.context)

    def end(self, failure: str = "") -> None:
        """End the span; it failed if `failure` is not empty."""
        if failure:
            self._span.set_attribute(span_names.ERROR_TYPE, failure)
            # Without a description: an error text may contain data of a user.
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()


class _Dispatch(RecordedSpan):
    """The span of a dispatch; see `DispatchSpan`."""

    def ended(self, calls: int) -> None:
        self._span.set_attribute(span_names.CALLS, calls)
        self.end()


class _Attempt(RecordedSpan):
    """The span of an attempt; see `AttemptSpan`."""

    def ended(self, failure: str, usage: Usage | None) -> None:
        if usage is not None:
            self._span.set_attribute(span_names.INPUT_TOKENS, usage.input_tokens)
            self._span.set_attribute(span_names.OUTPUT_TOKENS, usage.output_tokens)
            if usage.cached_input_tokens is not None:
                self._span.set_attribute(span_names.CACHED_INPUT_TOKENS, usage.cached_input_tokens)
        self.end(failure)


class _Tool(RecordedSpan):
    """The span of a call of a data service; see `ToolSpan`."""

    def __init__(self, span: Span, parent: TraceContext, clean: Clean) -> None:
        super().__init__(span, parent.tracestate, clean)
        self._parent = parent
        self.enter()  # the log lines of the data call belong to this span, until `ended`

    def ended(self, failure: str, cache_meta_json: str) -> None:
        if cache_meta_json:
            self._span.set_attribute(span_names.CACHE_META, self._clean(cache_meta_json))
        self.end(failure)
        LOGGED.set(self._parent)  # what follows, e.g. a security incident, belongs to the attempt


class SampledSpans:
    """Creates the spans. No attribute contains a user, a prompt, an answer or a payload.

    Args:
        tracer: samples everything, because this class decides about sampling before it creates a span.
        ratio: sampled share of the dispatches whose client sent no context.
        chance: returns a number from 0 up to 1.
        clean: redacts secrets in a text.
    """

    def __init__(self, tracer: Tracer, ratio: float, chance: Callable[[], float], clean: Clean) -> None:
        self._tracer = tracer
        self._ratio = ratio
        self._chance = chance
        self._clean = clean

    def dispatch(self, given: TraceContext, request: DispatchRequest, claims: SurfaceClaims) -> DispatchSpan | None:
        """Begin `invoke_workflow dispatch`."""
        # The decision of the client is followed, so that a trace is complete or absent.
        if not (given.sampled if given.traceparent else self._chance() < self._ratio):
            return None
        attributes = {
            span_names.OPERATION: span_names.INVOKE_WORKFLOW,
            span_names.WORKFLOW_NAME: span_names.WORKFLOW,
            span_names.CONVERSATION_ID: claims.episode_id,
            span_names.TURN_ID: claims.turn_id,
            span_names.DISPATCH_ID: request.dispatch_id,
        }
        title = f"{span_names.INVOKE_WORKFLOW} {span_names.WORKFLOW}"
        span = _Dispatch(self._begin(title, given, SpanKind.INTERNAL, attributes), given.tracestate, self._clean)
        span.enter()  # in the task of the RPC: the tasks of the dispatch, which it creates, inherit the context
        return span

    def attempt(self, child: Child, parent: TraceContext, episode_id: EpisodeId) -> AttemptSpan | None:
        """Begin `invoke_agent <slot>`."""
        if not parent.sampled:
            return None
        card = child.tool.card
        # `rpartition`: a text without a colon is only a model, and the provider is unknown.
        provider, _, model = card.model.provider_model.rpartition(":")
        attributes: Attributes = {
            span_names.OPERATION: span_names.INVOKE_AGENT,
            span_names.PROVIDER: provider or span_names.PROVIDER_UNKNOWN,
            span_names.AGENT_ID: card.definition.id,
            span_names.AGENT_NAME: child.slot,
            span_names.AGENT_VERSION: card.digest,
            span_names.REQUEST_MODEL: model,
            span_names.CONVERSATION_ID: episode_id,
            span_names.TOOL_NAME: child.tool.name,
            span_names.TOOL_CALL_ID: child.call_id,
            span_names.TURN_ID: child.log.run_id,  # in the record, a turn is a run
            span_names.DISPATCH_ID: child.dispatch_id,
            span_names.CHILD_ID: child.child_id,
            span_names.ATTEMPT: child.attempts,
        }
        title = f"{span_names.INVOKE_AGENT} {child.slot}"
        return _Attempt(self._begin(title, parent, SpanKind.CLIENT, attributes), parent.tracestate, self._clean)

    def tool(self, child: Child, tool_id: str) -> ToolSpan | None:
        """Begin `execute_tool <tool>`."""
        parent = child.trace
        if not parent.sampled:
            # The log lines of this call belong to the attempt's trace, also without a span. The host's request may lack
            # the trace, so it is set here.
            LOGGED.set(parent)
            return None
        attributes = {
            span_names.OPERATION: span_names.EXECUTE_TOOL,
            span_names.TOOL_NAME: tool_id,
            span_names.TOOL_TYPE: span_names.TOOL_TYPE_DATASTORE,
            span_names.AGENT_NAME: child.slot,
            span_names.CHILD_ID: child.child_id,
        }
        title = f"{span_names.EXECUTE_TOOL} {tool_id}"
        return _Tool(self._begin(title, parent, SpanKind.INTERNAL, attributes), parent, self._clean)

    def _begin(self, title: str, parent: TraceContext, kind: SpanKind, attributes: Attributes) -> Span:
        # Names of models or tools may come from plugins, which may put a key into them.
        cleaned: dict[str, Any] = {
            name: self._clean(value) if isinstance(value, str) else value for name, value in attributes.items()
        }
        return self._tracer.start_span(title, set_span_in_context(remote(parent), None), kind, cleaned)


def traceparent_of(span: Span) -> str:
    """Return the W3C header that names a span as the parent."""
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def remote(parent: TraceContext) -> Span:
    """Return a span of another process, or an invalid one for an empty context."""
    if not parent.traceparent:
        # An invalid parent makes OpenTelemetry begin a new trace.
        return NonRecordingSpan(SpanContext(0, 0, is_remote=False))
    flags = parent.traceparent[-2:]
    context = SpanContext(
        int(parent.trace_id, 16),
        int(parent.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(int(flags, 16)),
        # Passed on unchanged: other systems of the client keep their own data in it.
        trace_state=TraceState.from_header([parent.tracestate]) if parent.tracestate else None,
    )
    return NonRecordingSpan(context)
