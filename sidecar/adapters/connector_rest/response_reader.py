"""Reads the answer of a data service."""

from typing import Final

import httpcore
import msgspec

from sidecar.adapters.http_client.response_body import body_of_response
from sidecar.core.decoding import DecodeError, from_json
from sidecar.policy.protocols import EnricherAnswer, EnricherRefused, EnricherReply, RefusalKind

OK: Final = 200
MAX_REFUSAL_BYTES: Final = 4096
"""A refusal is a short JSON object. A longer body, e.g. an error page of a proxy, is not read to its end."""
REFUSALS: Final = {
    (400, "missing_principal"): RefusalKind.MISSING_PRINCIPAL,
    (403, "principal_mismatch"): RefusalKind.PRINCIPAL_MISMATCH,
}
"""HTTP status and `code` of the refusals of a data service. Source: PC2-D-32, PC2-D-33."""


class _Refusal(msgspec.Struct, frozen=True):
    code: str = ""


async def reply_of(response: httpcore.Response, max_bytes: int) -> EnricherReply:
    """Return the envelope, unopened, or why there is none.

    Any status except 200 and the two refusals means `UNAVAILABLE`, also a redirect.
    """
    if response.status == OK:
        body = await body_of_response(response, max_bytes)
        return body if isinstance(body, EnricherRefused) else EnricherAnswer(body)
    body = await body_of_response(response, MAX_REFUSAL_BYTES)
    code = "" if isinstance(body, EnricherRefused) else _code_of(body)
    return EnricherRefused(REFUSALS.get((response.status, code), RefusalKind.UNAVAILABLE))


def _code_of(body: bytes) -> str:
    try:
        return from_json(body, _Refusal).code
    except DecodeError:
        return ""
