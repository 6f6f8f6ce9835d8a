"""Headers that every built-in connector adds to a request: the user, the idempotency key, and the trace context."""

import re
from typing import Final
from urllib.parse import quote

from sidecar.policy.protocols import EnricherCall

ON_BEHALF_OF: Final = "x-ccs-on-behalf-of"
"""The user on whose behalf the sidecar calls, percent-encoded. The service compares it with `principal`."""
IDEMPOTENCY_KEY: Final = "idempotency-key"
"""The key of a call that may change something: the same for each repetition of the call."""
TRACE_HEADERS: Final = ("traceparent", "tracestate")
"""The only trace headers that are passed on. `baggage` may contain data that the data service must not see."""
HEADER_VALUE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,510}[\x21-\x7e])?\Z")


def headers_on_behalf(call: EnricherCall) -> dict[str, str]:
    """Return the headers, or gRPC metadata, of this call alone."""
    traced = {name: call.trace_headers.get(name, "") for name in TRACE_HEADERS}
    return {
        # Encoded, because a principal may contain any character, and a header may not.
        ON_BEHALF_OF: quote(call.principal, safe=""),
        **({} if call.idempotency_key is None else {IDEMPOTENCY_KEY: call.idempotency_key}),
        # The client chose these values: a line break in one would begin another header.
        **{name: value for name, value in traced.items() if HEADER_VALUE.match(value)},
    }
