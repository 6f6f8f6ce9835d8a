"""How a data service signs an answer: HMAC-SHA256 over its own bytes, with nothing parsed and written anew.

The signature is `v1:<key id>:<64 lower-case hexadecimal digits>`. A JSON body is signed with the empty string in the
member `signature`, which is then filled in; a message is signed without its field 10, which is then appended.
"""

import hmac
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from examples.ccs.faults import Fault, FaultKind

PLACE: Final = b'"signature":""'
FIELD_10: Final = b"\x52"
"""Field `signature` of `EnricherResponse`: number 10, length-delimited."""


@dataclass(frozen=True, slots=True)
class Signer:
    """One key."""

    key_id: str
    key: bytes = field(repr=False)

    def signature(self, signed: bytes) -> bytes:
        """Return the signature of some bytes."""
        return f"v1:{self.key_id}:{hmac.new(self.key, signed, sha256).hexdigest()}".encode()


def signed_json(body: bytes, signer: Signer, fault: Fault | None) -> bytes:
    """Return a JSON object signed, or wrong as the fault asks; what is no object stays as it is."""
    kind = None if fault is None else fault.kind
    if kind in {FaultKind.UNSIGNED, FaultKind.GZIP_BOMB} or not body.endswith(b"}") or not body.startswith(b"{"):
        return body
    prepared = body[:-1] + b"," + PLACE + b"}"
    signature = signer.signature(prepared)
    sent = _altered(prepared) if kind is FaultKind.BAD_SIGNATURE else prepared
    return sent[: -len(PLACE) - 1] + b'"signature":"' + signature + b'"}'


def signed_message(body: bytes, signer: Signer, fault: Fault | None) -> bytes:
    """Return a serialised `EnricherResponse` signed, or wrong as the fault asks."""
    kind = None if fault is None else fault.kind
    if kind is FaultKind.UNSIGNED:
        return body
    signature = signer.signature(body)
    sent = _altered(body) if kind is FaultKind.BAD_SIGNATURE else body
    return sent + FIELD_10 + bytes([len(signature)]) + signature


def _altered(body: bytes) -> bytes:
    """Return the bytes with one letter of the payload changed, so that it is as well-formed as before."""
    at = body.index(b"query") if b"query" in body else len(body) - 1
    return body[:at] + b"Q" + body[at + 1 :]
