"""Serialises the request of connector `rest`."""

from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from sidecar.core.decoding import from_json
from sidecar.policy.protocols import EnricherCall
from sidecar.policy.user_headers import headers_on_behalf

HEADERS: Final = {
    "accept": "application/json",
    "accept-encoding": "gzip",  # the only encoding that `response_body.py` unpacks
    "content-type": "application/json",
    "user-agent": "dispatch-sidecar",
}


class EnricherRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`EnricherRequest` as JSON. Source: REQUIREMENTS 6.5."""

    principal: str
    domain_type: str
    enricher_id: str
    arguments: dict[str, Any]
    nonce: str | None = None


def body_of(call: EnricherCall) -> bytes | None:
    """Return the body, or None if the arguments are not one JSON object.

    The arguments come from a sub-agent. They are parsed and re-encoded, never pasted: `{}, "principal": "other"`
    would otherwise choose the user.
    """
    try:
        return msgspec.json.encode(
            EnricherRequest(
                principal=call.principal,
                domain_type=call.domain_type,
                enricher_id=call.enricher_id,
                arguments=from_json(call.arguments_json, dict[str, Any]),
                nonce=call.nonce,
            )
        )
    except ValueError:
        return None


def headers_of(call: EnricherCall) -> dict[str, str]:
    """Return the headers of this call alone."""
    return {"host": urlsplit(call.endpoint).netloc, **HEADERS, **headers_on_behalf(call)}
