"""The expected values of an envelope, and the two possible results of its checks.

`call_tool` takes the expected values from the child and its card, never from the answer; `release` compares the
answer with them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum, unique
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from sidecar.core.envelopes.typing_registry import PayloadSchema
from sidecar.core.faults import Fault
from sidecar.core.identifiers import Principal

SignatureCheck = Callable[[bytes, str | None], bool]
"""Takes the signed bytes and the `signature`; returns whether it is genuine. Source: PC2-D-35, DESIGN section 6."""


@unique
class EnvelopeStatus(StrEnum):
    """`status` of an envelope whose payload is released. Source: PC2-FR-10b, PC2-FR-10c."""

    OK = "ok"
    PARTIAL = "partial"


@unique
class WithholdReason(StrEnum):
    """Why there is no payload. For operators and counters; a sub-agent only learns "data unavailable"."""

    PRINCIPAL_MISMATCH = "principal_mismatch"
    """The envelope does not name the invoking user exactly once and byte for byte. Source: PC2-FR-12."""
    PRINCIPAL_ABSENT = "principal_absent"
    """No member `principal`: probably not an envelope. Equally severe: no user is confirmed. Source: PC2-AC-6a."""
    NONCE_MISMATCH = "nonce_mismatch"
    """The nonce is not that of the request: the right user, but the response to another request."""
    SIGNATURE_INVALID = "signature_invalid"
    """A key is configured, and the signature is invalid. Source: PC2-D-35."""
    VERSION_MISMATCH = "version_mismatch"
    """Another major version, or an unreadable version. Source: PC2-D-26, TN-29."""
    STATUS_ERROR = "status_error"
    """The service returned `error`. Source: PC2-FR-10d."""
    UNKNOWN_KEY = "unknown_key"
    """`(domain_type, enricher_id)` is not the requested one, or has no schema. Source: PC2-D-23."""
    PAYLOAD_INVALID = "payload_invalid"
    """The payload is missing, ambiguous or nested too deeply, or violates its schema."""
    MALFORMED = "malformed"
    """Not one unambiguous JSON object with a known `status`."""
    TOO_LARGE = "too_large"
    """The body exceeds the limit."""
    MISSING_PRINCIPAL = "missing_principal"
    """The service answered 400 missing_principal. Source: PC2-D-32."""
    PRINCIPAL_REFUSED = "principal_refused"
    """The service answered 403 principal_mismatch. Source: PC2-D-33."""
    UNAVAILABLE = "unavailable"
    """The service could not be reached, or returned neither an envelope nor a defined refusal."""
    TIMEOUT = "timeout"
    """The response did not arrive in time."""
    USER_TOKEN_GONE = "user_token_gone"  # noqa: S105  the name of a reason, no secret
    """The connector exchanges the user's token, and this process does not have it: it is not on record."""
    EXCHANGE_FAILED = "exchange_failed"
    """The token endpoint gave no token for the data service."""
    ASKS_BACK = "asks_back"
    """The service needs an answer from the user first."""


SECURITY_REASONS: Final = frozenset(
    {
        WithholdReason.PRINCIPAL_MISMATCH,
        WithholdReason.PRINCIPAL_ABSENT,
        WithholdReason.NONCE_MISMATCH,
        WithholdReason.SIGNATURE_INVALID,
        WithholdReason.PRINCIPAL_REFUSED,
    }
)
"""Reasons that indicate data of another user: a security incident, never retried. Source: PC2-FR-12c."""

WRONG_PRINCIPAL: Final = frozenset({WithholdReason.PRINCIPAL_MISMATCH, WithholdReason.PRINCIPAL_ABSENT})
"""Reasons that the metric of principal mismatches counts. Source: PC2-FR-12d, PC2-AC-6a."""


REMEDY_OF_REASON: Final[Mapping[WithholdReason, str]] = MappingProxyType(
    {
        WithholdReason.PRINCIPAL_MISMATCH: "an incident: the service answered for another user; find out why",
        WithholdReason.PRINCIPAL_ABSENT: (
            "no principal in the envelope: is this an envelope at all? "
            "see that the endpoint is the right one and that the service wraps its payload (docs/data-services.md)"
        ),
        WithholdReason.NONCE_MISMATCH: "an incident: the service answered another request; find out why",
        WithholdReason.SIGNATURE_INVALID: "an incident, or another key: compare the service's with `[signatures]`",
        WithholdReason.PRINCIPAL_REFUSED: "the service does not serve this user: see its log",
        WithholdReason.VERSION_MISMATCH: "the payload has another major version: adapt the tool's `version` and schema",
        WithholdReason.STATUS_ERROR: "the service itself reports an error: see its log",
        WithholdReason.UNKNOWN_KEY: "the envelope has another domain_type or enricher_id than the tool: correct either",
        WithholdReason.PAYLOAD_INVALID: "compare what the service sends with the tool's `payload_schema`",
        WithholdReason.MALFORMED: "what the service sends is no envelope: see that the endpoint is the right one",
        WithholdReason.TOO_LARGE: "the answer is over the limit: have the service send less, or raise "
        "`max_response_bytes` of the tool",
        WithholdReason.MISSING_PRINCIPAL: "the service found no principal in the request: see its log",
        WithholdReason.UNAVAILABLE: "see whether the service runs, and its log, or correct the tool's `endpoint`",
        WithholdReason.TIMEOUT: "the service took too long: see its log, or raise the tool's `timeout`",
        WithholdReason.USER_TOKEN_GONE: "bind the turn with the user's token at this sidecar: it is kept nowhere else, "
        "and a restart or another sidecar does not have it",
        WithholdReason.EXCHANGE_FAILED: "see the token endpoint's log, and the `token_...` settings of the connector",
        WithholdReason.ASKS_BACK: "nothing: the user is asked",
    }
)
"""What an operator can do, if the connector gives no more specific remedy."""


class Expectation(Struct, frozen=True):
    """The values that the envelope must have before its payload may be released.

    Attributes:
        principal: the user on whose behalf the request was made; an empty one matches nothing.
        nonce: of the request; None if the service does not echo it.
        version: the semver that this sidecar was configured for.
        schema: of `(domain_type, enricher_id)`; None: the typing registry does not know the key.
        signature: None if no key is configured.
    """

    principal: Principal
    domain_type: str
    enricher_id: str
    version: str
    schema: PayloadSchema | None
    nonce: str | None = None
    signature: SignatureCheck | None = None


@dataclass(frozen=True, slots=True)
class Released:
    """The checks passed: the payload may be sent to the sub-agent. The `repr` shows no part of it.

    Attributes:
        status: a `partial` payload is released like an `ok` one; the narration may mention that data is missing.
        cache_meta_json: for traces, never for a decision (PC2-D-28, PC2-D-29); `{}` without cache metadata.
    """

    # Hidden in the `repr`, so that no log line or traceback can show a payload.
    payload_json: str = field(repr=False)
    status: EnvelopeStatus
    cache_meta_json: str = field(repr=False)


class Withheld(Struct, frozen=True):
    """No payload. Contains the reason, and nothing that the service sent.

    Attributes:
        fault: where the connection to the service broke, if the connector knows.
        never_sent: the connector knows that the request did not reach the service.
    """

    reason: WithholdReason
    fault: Fault | None = None
    never_sent: bool = False

    @property
    def security(self) -> bool:
        """Whether this is a security incident, which is alerted and recorded as one."""
        return self.reason in SECURITY_REASONS


Judgement = Released | Withheld
