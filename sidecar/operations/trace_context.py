"""The part of the W3C trace context that the sidecar reads: the trace, and whether it is sampled.

It comes from the headers of a client's call, and goes to runners and data services, so that one trace shows a turn
across all processes. Without telemetry, it is only forwarded.
"""

import re
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
# Version, trace id, span id, flags; version ff and ids of zeros are invalid.
FORM: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}\Z")
"""Later versions of the format may append fields after the flags.

They are not forwarded, so they are not parsed either.
"""
# Printable ASCII, at most 512 characters: what the W3C asks every participant to forward.
STATE_FORM: Final = re.compile(r"[\x21-\x7e][\x20-\x7e]{0,511}\Z")
SAMPLED: Final = 1
"""The bit of the flags that says that the trace is recorded."""


@dataclass(frozen=True, slots=True)
class TraceContext:
    """The parent span of a trace.

    Attributes:
        traceparent: well-formed, or empty: no trace.
        tracestate: vendors' data, forwarded unchanged.
    """

    traceparent: str = ""
    tracestate: str = ""

    @property
    def sampled(self) -> bool:
        """Whether the trace is sampled."""
        return bool(self.traceparent) and bool(int(self.traceparent[-2:], 16) & SAMPLED)

    @property
    def trace_id(self) -> str:
        """The trace, in hexadecimal; only of a context that is not empty."""
        return self.traceparent.split("-")[1]

    @property
    def span_id(self) -> str:
        """The parent span, in hexadecimal; only of a context that is not empty."""
        return self.traceparent.split("-")[2]

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers to send, without empty ones."""
        if not self.traceparent:
            return {}
        if not self.tracestate:
            return {TRACEPARENT: self.traceparent}
        return {TRACEPARENT: self.traceparent, TRACESTATE: self.tracestate}


NO_TRACE: Final = TraceContext()

LOGGED: Final = ContextVar("LOGGED", default=NO_TRACE)
"""The trace and the span that the log lines of the current task belong to. It is set only if telemetry is on: by the
interceptors for calls and operations of a lane, and by the spans for the work within them. Tasks inherit it."""


def trace_context(traceparent: str, tracestate: str) -> TraceContext:
    """Return the context that a caller sent; a malformed one counts as absent."""
    # Absent and not an error: a broken header of a proxy must not fail a call.
    if not FORM.match(traceparent):
        return NO_TRACE
    # The state is forwarded to hosts and services, so only text that is valid in a header is kept.
    return TraceContext(traceparent, tracestate if STATE_FORM.match(tracestate) else "")


def trace_of(metadata: Iterable[tuple[str, str | bytes]]) -> TraceContext:
    """Return the trace of a call as its client sent it. Source: W3C trace context."""
    found = {TRACEPARENT: "", TRACESTATE: ""}
    for name, value in metadata:
        # gRPC gives bytes for keys that end with `-bin`.
        if name in found and isinstance(value, str):
            found[name] = value
    return trace_context(found[TRACEPARENT], found[TRACESTATE]) if found[TRACEPARENT] else NO_TRACE
