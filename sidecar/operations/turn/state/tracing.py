"""The tracing port: a context to forward, and spans if a trace is sampled.

`observability/spans` implements the port when telemetry is on; `NoTracing` takes its place otherwise. Sampling is
checked first, so an unsampled trace creates no object.

Source: DESIGN section 11.
"""

from dataclasses import dataclass
from typing import Final, Protocol

from msgspec import Struct

from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.dispatching.outcomes import Usage
from sidecar.core.identifiers import EpisodeId
from sidecar.operations.requests import DispatchRequest
from sidecar.operations.trace_context import NO_TRACE, TraceContext
from sidecar.operations.turn.state.child import Child


class DispatchSpan(Protocol):
    """The span of one dispatch. Source: GenAI conventions, `invoke_workflow`."""

    @property
    def context(self) -> TraceContext:
        """The parent of the attempts' spans."""

    def ended(self, calls: int) -> None:
        """End the span; `calls` have run."""


class DispatchTrace(Struct, frozen=True):
    """The parent of the attempts of a dispatch: the dispatch's own span, or the context that its client sent."""

    given: TraceContext = NO_TRACE
    span: DispatchSpan | None = None

    @property
    def context(self) -> TraceContext:
        """The parent of the attempts' spans."""
        return self.given if self.span is None else self.span.context

    def ended(self, calls: int) -> None:
        """End the span, if there is one; `calls` have run."""
        if self.span is not None:
            self.span.ended(calls)


UNTRACED: Final = DispatchTrace()
"""Shared by all dispatches without a trace, so that they create no object."""


class AttemptSpan(Protocol):
    """The span of one attempt of a child. Source: GenAI conventions, `invoke_agent`."""

    @property
    def context(self) -> TraceContext:
        """The context that the sub-agent's host receives as the parent of its own spans."""

    def enter(self) -> None:
        """Tie the log lines of the current task to this span."""

    def ended(self, failure: str, usage: Usage | None) -> None:
        """End the span; `failure` is the name of the reason, empty if the attempt succeeded."""


class ToolSpan(Protocol):
    """The span of one call of a data service. Source: GenAI conventions, `execute_tool`."""

    @property
    def context(self) -> TraceContext:
        """The context that the data service receives."""

    def ended(self, failure: str, cache_meta_json: str) -> None:
        """End the span.

        Args:
            failure: why the payload was withheld; empty if it was released.
            cache_meta_json: `cache_meta` of a released envelope as JSON; empty if none was released. The payload of the
                envelope never goes into a span. Source: PC2-D-29.
        """


class Tracing(Protocol):
    """Creates spans. Never raises, never waits."""

    def dispatch(self, given: TraceContext, request: DispatchRequest, claims: SurfaceClaims) -> DispatchSpan | None:
        """Begin the span of a dispatch below the client's context. Without one, the sampling ratio may begin a trace.

        None: the trace is not sampled.
        """

    def attempt(self, child: Child, parent: TraceContext, episode_id: EpisodeId) -> AttemptSpan | None:
        """Begin the span of an attempt; None: the trace is not sampled."""

    def tool(self, child: Child, tool_id: str) -> ToolSpan | None:
        """Begin the span of a data call below `child.trace`; None: the trace is not sampled."""


@dataclass(frozen=True, slots=True)
class NoTracing:
    """Creates no spans; the client's context is forwarded nevertheless."""

    def dispatch(self, given: TraceContext, request: DispatchRequest, claims: SurfaceClaims) -> DispatchSpan | None:
        """Create none."""
        return None

    def attempt(self, child: Child, parent: TraceContext, episode_id: EpisodeId) -> AttemptSpan | None:
        """Create none."""
        return None

    def tool(self, child: Child, tool_id: str) -> ToolSpan | None:
        """Create none."""
        return None


NO_TRACING: Final = NoTracing()


class LateTracing:
    """Creates no spans until `behind` is set.

    The sidecar listens before it loads the libraries that export spans, so dispatches may run already.

    Attributes:
        behind: creates the spans; set once, as soon as the libraries are loaded.
    """

    def __init__(self) -> None:
        """Begin without spans."""
        self.behind: Tracing = NO_TRACING

    def dispatch(self, given: TraceContext, request: DispatchRequest, claims: SurfaceClaims) -> DispatchSpan | None:
        """Call `behind`, if it is set."""
        # Here and in `attempt`, the comparison saves a call for each dispatch and attempt without spans. `tool` does
        # without: a data call takes so much longer that nothing would be gained.
        return None if self.behind is NO_TRACING else self.behind.dispatch(given, request, claims)

    def attempt(self, child: Child, parent: TraceContext, episode_id: EpisodeId) -> AttemptSpan | None:
        """Call `behind`, if it is set."""
        return None if self.behind is NO_TRACING else self.behind.attempt(child, parent, episode_id)

    def tool(self, child: Child, tool_id: str) -> ToolSpan | None:
        """Call `behind`, which creates no span until it is set."""
        return self.behind.tool(child, tool_id)
