"""Releases the response of a data service to the sub-agent, or withholds it.

`release.check_envelope` is the only way from the bytes of a response to a payload (TN-33).
"""

from sidecar.core.envelopes.forms import EnvelopeEncoding
from sidecar.core.envelopes.limits import EnvelopeLimits
from sidecar.core.envelopes.release import check_envelope, expectation_of
from sidecar.core.envelopes.typing_registry import (
    PayloadSchema,
    RegistryProblem,
    TypingKey,
    TypingRegistry,
    build_typing_registry,
)
from sidecar.core.envelopes.verdicts import (
    EnvelopeStatus,
    Expectation,
    Judgement,
    Released,
    SignatureCheck,
    Withheld,
    WithholdReason,
)

__all__ = [
    "EnvelopeEncoding",
    "EnvelopeLimits",
    "EnvelopeStatus",
    "Expectation",
    "Judgement",
    "PayloadSchema",
    "RegistryProblem",
    "Released",
    "SignatureCheck",
    "TypingKey",
    "TypingRegistry",
    "Withheld",
    "WithholdReason",
    "build_typing_registry",
    "check_envelope",
    "expectation_of",
]
