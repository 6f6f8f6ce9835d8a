"""What the operations need of tracing: a context to pass on, and spans if a trace is sampled.

Sampling is checked first, so an unsampled trace creates no object. These are ports like those of `ports.py`. Source:
DESIGN section 11.
"""

from dataclasses import dataclass
from typing import Final, Protocol

from msgspec import Struct

from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.dispatching.outcomes import Usage
from sidecar.core.identifiers import EpisodeId
from sidecar.operations.requests import DispatchRequest
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.trace_context import NO_TRACE, TraceContext


class DispatchSpan(Protocol):
    """One dispatch, being traced. Source: GenAI conventions, `invoke_workflow`."""

    @property
    def context(self) -> TraceContext:
        """What the spans of its attempts hang below."""

    def ended(self, calls: int) -> None:
        """End it; `calls` have run."""


class DispatchTrace(Struct, frozen=True):
    """The parent of the attempts of a dispatch: the dispatch's own span, or the context that its client sent."""

    given: TraceContext = NO_TRACE
    span: DispatchSpan | None = None

    @property
    def context(self) -> TraceContext:
        """What attempts hang below."""
        return self.given if self.span is None else self.span.context

    def ended(self, calls: int) -> None:
        """End the span, if there is one; `calls` have run."""
        if self.span is not None:
            self.span.ended(calls)


UNTRACED: Final = DispatchTrace()


class AttemptSpan(Protocol):
    """One attempt of a child, being traced. Source: GenAI conventions, `invoke_agent`."""

    @property
    def context(self) -> TraceContext:
        """What the sub-agent's host gets, so that its own spans hang below this one."""

    def ended(self, failure: str, usage: Usage | None) -> None:
        """End it; `failure` is the reason's name, empty if it did not fail."""


class ToolSpan(Protocol):
    """One call of a data service, being traced. Source: GenAI conventions, `execute_tool`."""

    @property
    def context(self) -> TraceContext:
        """What the data service gets."""

    def ended(self, failure: str, cache_meta_json: str) -> None:
        """End it.

        Args:
            failure: why the payload was withheld; empty if it was released.
            cache_meta_json: of a released envelope, never its payload. Source: PC2-D-29.
        """


class Tracing(Protocol):
    """Makes spans. Never raises, never waits."""

    def dispatch(self, given: TraceContext, request: DispatchRequest, claims: SurfaceClaims) -> DispatchSpan | None:
        """Begin the span of a dispatch below what its client sent; without that, chance may begin a trace.

        None: the trace is not sampled.
        """

    def attempt(self, child: Child, parent: TraceContext, episode_id: EpisodeId) -> AttemptSpan | None:
        """Begin the span of an attempt; None: the trace is not sampled."""

    def tool(self, child: Child, tool_id: str) -> ToolSpan | None:
        """Begin the span of a data call below `child.trace`; None: the trace is not sampled."""


@dataclass(frozen=True, slots=True)
class NoTracing:
    """Makes no spans; a client's context is passed on all the same."""

    def dispatch(self, given: TraceContext, request: DispatchRequest, claims: SurfaceClaims) -> DispatchSpan | None:
        """Make none."""
        return None

    def attempt(self, child: Child, parent: TraceContext, episode_id: EpisodeId) -> AttemptSpan | None:
        """Make none."""
        return None

    def tool(self, child: Child, tool_id: str) -> ToolSpan | None:
        """Make none."""
        return None


NO_TRACING: Final = NoTracing()


class LateTracing:
    """Makes no spans until something is there that does: what makes them is loaded after the sidecar listens.

    Attributes:
        behind: what makes them.
    """

    def __init__(self) -> None:
        """Begin without spans."""
        self.behind: Tracing = NO_TRACING

    def dispatch(self, given: TraceContext, request: DispatchRequest, claims: SurfaceClaims) -> DispatchSpan | None:
        """Delegate to the loaded tracing, if any."""
        return None if self.behind is NO_TRACING else self.behind.dispatch(given, request, claims)

    def attempt(self, child: Child, parent: TraceContext, episode_id: EpisodeId) -> AttemptSpan | None:
        """Delegate to the loaded tracing, if any."""
        return None if self.behind is NO_TRACING else self.behind.attempt(child, parent, episode_id)

    def tool(self, child: Child, tool_id: str) -> ToolSpan | None:
        """Delegate to the loaded tracing."""
        return self.behind.tool(child, tool_id)
