"""The request as it goes over the wire."""

import re
from typing import Any, Final
from urllib.parse import quote

import msgspec

from sidecar.policy.protocols import EnricherCall

ON_BEHALF_OF: Final = "x-ccs-on-behalf-of"
"""The user whom the calling credential stands for, percent-encoded; the service compares it with `principal`."""
TRACE_HEADERS: Final = ("traceparent", "tracestate")
"""The only headers passed on. `baggage` is not: it may hold what the data service has no business to know."""
HEADER_VALUE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,510}[\x21-\x7e])?\Z")


class EnricherRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`EnricherRequest` as JSON. Source: REQUIREMENTS 6.5."""

    principal: str
    domain_type: str
    enricher_id: str
    arguments: dict[str, Any]
    nonce: str | None = None


def body_of(call: EnricherCall) -> bytes | None:
    """Return the body, or None if the arguments are not one JSON object.

    The arguments come from a sub-agent: they are parsed and written anew, never pasted, or `{}, "principal": "other"`
    would choose the user.
    """
    try:
        return msgspec.json.encode(
            EnricherRequest(
                principal=call.principal,
                domain_type=call.domain_type,
                enricher_id=call.enricher_id,
                arguments=msgspec.json.decode(call.arguments_json, type=dict[str, Any]),
                nonce=call.nonce,
            )
        )
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None


def headers_of(call: EnricherCall) -> dict[str, str]:
    """Return the headers of this call alone."""
    traced = {name: call.trace_headers.get(name, "") for name in TRACE_HEADERS}
    return {
        "content-type": "application/json",
        ON_BEHALF_OF: quote(call.principal, safe=""),
        **{name: value for name, value in traced.items() if HEADER_VALUE.match(value)},
    }
