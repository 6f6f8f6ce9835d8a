"""The checks between a data service and a sub-agent, in the one order that is safe. Source: PC2-FR-12, TN-28, DESIGN 6.

    size, one JSON object → principal → duplicate members → nonce → signature → version → status → key → schema

The principal comes first, also on `partial` and `error`. Before it has passed, only the names of the members and the
principal itself are read. `partial[]` is never read (PC2-FR-10e), and `cache_meta` has no effect (PC2-D-28).
"""

from typing import Final

import msgspec

from sidecar.core.decoding import from_utf8
from sidecar.core.definitions.cards.card import ToolEntry
from sidecar.core.envelopes.fields import EnvelopeFields, fields_of
from sidecar.core.envelopes.forms import EnvelopeEncoding
from sidecar.core.envelopes.limits import EnvelopeLimits
from sidecar.core.envelopes.payloads import payload_text
from sidecar.core.envelopes.typing_registry import TypingRegistry
from sidecar.core.envelopes.verdicts import (
    EnvelopeStatus,
    Expectation,
    Judgement,
    Released,
    SignatureCheck,
    Withheld,
    WithholdReason,
)
from sidecar.core.envelopes.versions import is_compatible
from sidecar.core.identifiers import Principal

DEFAULT_LIMITS: Final = EnvelopeLimits()
STATUS_ERROR: Final = "error"


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """`EnricherResponse[T]` whose principal is the expected one and whose members are unambiguous; payload unopened.

    Attributes:
        nonce, version, status, domain_type, enricher_id: None if missing or not a string.
        payload, cache_meta: raw JSON; None if missing.

    Source: REQUIREMENTS 6.6.
    """

    nonce: str | None
    signature: str | None
    version: str | None
    status: str | None
    domain_type: str | None
    enricher_id: str | None
    payload: msgspec.Raw | None
    cache_meta: msgspec.Raw | None


def expectation_of(
    tool: ToolEntry,
    registry: TypingRegistry,
    principal: Principal,
    nonce: str | None = None,
    signature: SignatureCheck | None = None,
) -> Expectation:
    """Return the expected values for the envelope of a call to `tool`. `signature` None: it need not be signed.

    Raises:
        ValueError: the tool is not data-backed, or echoes nonces and none was given.
    """
    if tool.domain_type is None or tool.enricher_id is None:
        raise ValueError(f"Tool {tool.id!r} is not data-backed: it has no domain_type and enricher_id.")
    if tool.echoes_nonce and not nonce:
        raise ValueError(f"Tool {tool.id!r} echoes nonces; give the one that was sent.")
    return Expectation(
        principal=principal,
        domain_type=tool.domain_type,
        enricher_id=tool.enricher_id,
        version=tool.version,
        schema=registry.schema_of(tool.domain_type, tool.enricher_id),
        nonce=nonce if tool.echoes_nonce else None,
        signature=signature,
    )


def check_envelope(
    body: bytes,
    expected: Expectation,
    limits: EnvelopeLimits = DEFAULT_LIMITS,
    form: EnvelopeEncoding = EnvelopeEncoding.JSON,
) -> Judgement:
    """Release the payload of `body`, or withhold it with the first reason in the order above.

    Source: PC2-FR-10a, PC2-FR-12a, PC2-FR-12b, PC2-D-34, TN-28, TN-33.
    """
    # First: a check that reads the body would cost time for whatever a service sends.
    if len(body) > limits.max_bytes:
        return Withheld(WithholdReason.TOO_LARGE)
    outside = fields_of(body, form)
    if outside is None:
        return Withheld(WithholdReason.MALFORMED)
    # Before every other check of the contents: an envelope for another user must be counted as such, even if it is
    # invalid in other ways too.
    if not _is_for(outside, expected.principal):
        absent = expected.principal and not outside.has("principal")
        return Withheld(WithholdReason.PRINCIPAL_ABSENT if absent else WithholdReason.PRINCIPAL_MISMATCH)
    # After the principal: a repeated member must not hide that the envelope names another user.
    if outside.ambiguous:
        return Withheld(WithholdReason.MALFORMED)
    envelope = _envelope_of(outside)
    reason = _wrong_reply(outside, envelope, expected) or _wrong_content(envelope, expected)
    return Withheld(reason) if reason else _open(envelope, expected, limits)


def _is_for(outside: EnvelopeFields, principal: Principal) -> bool:
    """Return whether the members name `principal` exactly once and byte for byte; a missing member does not."""
    # Compared byte for byte: a comparison that ignores case or normalises Unicode could take two users for one.
    named = outside.text("principal")
    return bool(principal) and named is not None and named == principal


def _envelope_of(outside: EnvelopeFields) -> Envelope:
    return Envelope(
        nonce=outside.text("nonce"),
        signature=outside.text("signature"),
        version=outside.text("version"),
        status=outside.status(),
        domain_type=outside.text("domain_type"),
        enricher_id=outside.text("enricher_id"),
        payload=outside.payload(),
        cache_meta=outside.cache_meta(),
    )


def _wrong_reply(outside: EnvelopeFields, envelope: Envelope, expected: Expectation) -> WithholdReason | None:
    """Return why the envelope is not the genuine response to exactly this request."""
    # The principal is right by now. Without the nonce, a delayed or cached response to an earlier request of the same
    # user would pass.
    if expected.nonce is not None and envelope.nonce != expected.nonce:
        return WithholdReason.NONCE_MISMATCH
    if expected.signature is None:
        return None
    signed = outside.signed_part()
    genuine = signed is not None and expected.signature(signed, envelope.signature)
    return None if genuine else WithholdReason.SIGNATURE_INVALID


def _wrong_content(envelope: Envelope, expected: Expectation) -> WithholdReason | None:
    """Return why a genuine response has no payload of the expected type."""
    if envelope.version is None or not is_compatible(expected.version, envelope.version):
        return WithholdReason.VERSION_MISMATCH
    # After the version: another version may use other words for its status. Before the type: an error has no payload.
    if envelope.status == STATUS_ERROR:
        return WithholdReason.STATUS_ERROR
    # A tuple: before Python 3.12, `in` raises for an enum and a value that is no member.
    if envelope.status not in tuple(EnvelopeStatus):
        return WithholdReason.MALFORMED
    if (envelope.domain_type, envelope.enricher_id) != (expected.domain_type, expected.enricher_id):
        return WithholdReason.UNKNOWN_KEY
    return WithholdReason.UNKNOWN_KEY if expected.schema is None else None


def _open(envelope: Envelope, expected: Expectation, limits: EnvelopeLimits) -> Judgement:
    """Parse the payload for the first time."""
    # Only the payload can still be missing: `_wrong_content` has refused an unknown schema or status.
    if envelope.payload is None or expected.schema is None or envelope.status is None:
        return Withheld(WithholdReason.PAYLOAD_INVALID)
    # Only now: no parser reads a payload that may belong to another user or come from another service.
    text = payload_text(envelope.payload, expected.schema, limits.max_depth)
    if text is None:
        return Withheld(WithholdReason.PAYLOAD_INVALID)
    return Released(text, EnvelopeStatus(envelope.status), _cache_meta_of(envelope, limits))


def _cache_meta_of(envelope: Envelope, limits: EnvelopeLimits) -> str:
    raw = b"" if envelope.cache_meta is None else bytes(envelope.cache_meta)
    return from_utf8(raw) if 0 < len(raw) <= limits.max_cache_meta_bytes else "{}"
