"""Signed answers: genuine only as they were sent, whichever their form."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.ccs.faults import Fault, FaultKind
from examples.ccs.signing import Signer, signed_json, signed_message
from sidecar.core.envelopes import EnvelopeEncoding, Judgement, Released, Withheld, WithholdReason, check_envelope
from sidecar.core.envelopes.limits import EnvelopeLimits
from sidecar.core.envelopes.signatures import SignatureRules
from sidecar.core.identifiers import Vertical
from tests.support.requirement import requirement
from tests.unit.envelopes.building import CANARY, body, expecting, tool
from tests.unit.envelopes.wire_building import wire

KEY = b"k" * 32
SIGNER = Signer("k1", KEY)
RULES = SignatureRules(keys={"k0": b"o" * 32, "k1": KEY}, tools=("notes",))
JSON_SIGNED = signed_json(body(), SIGNER, None)
WIRE_SIGNED = signed_message(wire(), SIGNER, None)
FORMS = [(EnvelopeEncoding.JSON, JSON_SIGNED), (EnvelopeEncoding.PROTOBUF, WIRE_SIGNED)]
INVALID = Withheld(WithholdReason.SIGNATURE_INVALID)


def judged(text: bytes, form: EnvelopeEncoding, rules: SignatureRules = RULES) -> Judgement:
    """Judge an answer that must be signed."""
    return check_envelope(text, expecting(signature=rules.is_genuine), EnvelopeLimits(), form)


@requirement("PC2-D-35")
@pytest.mark.parametrize(("form", "signed"), FORMS)
def test_a_signed_answer_is_released_and_an_unsigned_one_withheld(form: EnvelopeEncoding, signed: bytes) -> None:
    """Either form; where nothing need be signed, both pass."""
    unsigned = body() if form is EnvelopeEncoding.JSON else wire()

    assert isinstance(judged(signed, form), Released)
    assert judged(unsigned, form) == INVALID
    for text in (signed, unsigned):
        assert isinstance(check_envelope(text, expecting(), EnvelopeLimits(), form), Released)


@requirement("PC2-D-35")
@pytest.mark.parametrize(("form", "signed"), FORMS)
@settings(max_examples=400, deadline=None, database=None)
@given(data=st.data())
def test_an_answer_with_any_byte_altered_is_withheld(form: EnvelopeEncoding, signed: bytes, data: Any) -> None:
    """One byte changed, taken out or put in, anywhere: blanks and the signature's own digits too."""
    at = data.draw(st.integers(0, len(signed) - 1))
    byte = data.draw(st.binary(min_size=1, max_size=1).filter(lambda one: one != signed[at : at + 1]))
    altered = data.draw(
        st.sampled_from(
            [signed[:at] + byte + signed[at + 1 :], signed[:at] + signed[at + 1 :], signed[:at] + byte + signed[at:]]
        )
    )
    if altered == signed:
        return
    verdict = judged(altered, form)

    assert isinstance(verdict, Withheld)
    assert CANARY not in repr(verdict)


@pytest.mark.parametrize(
    "signature",
    [
        "", "v1", "v1:k1", "v1:k1:", "v2:k1:{digits}", "v1:k0:{digits}", "v1:k2:{digits}", "V1:k1:{digits}",
        "v1:k1:{upper}", "v1:k1:{digits} ", "v1:k1:{digits}00", "v1::{digits}", "é",
    ],
)  # fmt: skip
def test_only_the_exact_form_under_a_known_key_is_genuine(signature: str) -> None:
    """The right digits under another version, key or spelling."""
    digits = SIGNER.signature(b"text").decode().rpartition(":")[2]

    assert RULES.is_genuine(b"text", f"v1:k1:{digits}")
    assert not RULES.is_genuine(b"text", signature.format(digits=digits, upper=digits.upper()))
    assert not RULES.is_genuine(b"text", None)


def test_a_signature_that_stands_twice_is_worth_nothing() -> None:
    """The same text in the payload too: which bytes were signed could not be told."""
    text = SIGNER.signature(b"").decode()
    twice = body(payload={"note": text}, signature=text)

    assert judged(twice, EnvelopeEncoding.JSON) == INVALID
    doubled = JSON_SIGNED[:-1] + b"," + JSON_SIGNED[JSON_SIGNED.index(b'"signature"') :]
    assert judged(doubled, EnvelopeEncoding.JSON) == Withheld(WithholdReason.MALFORMED)


@pytest.mark.parametrize("kind", [FaultKind.BAD_SIGNATURE, FaultKind.UNSIGNED])
def test_the_reference_services_faults_are_found(kind: FaultKind) -> None:
    """An answer that was altered after it was signed, and one that was not signed."""
    fault = Fault(kind=kind)
    query = {"note": "query"}

    assert judged(signed_json(body(payload=query), SIGNER, fault), EnvelopeEncoding.JSON) == INVALID
    assert judged(signed_message(wire(payload=query), SIGNER, fault), EnvelopeEncoding.PROTOBUF) == INVALID


def test_a_key_may_be_asked_for_by_connector_vertical_or_tool() -> None:
    """A tool's own connector, its vertical's, the platform's; nobody else's answers need be signed."""
    shop, rewards = Vertical("shop"), Vertical("rewards")
    plain, own = tool("notes"), tool("notes", connector="other")
    none = SignatureRules(keys={"k1": KEY}, connector_of={rewards: "grpc"}, default_connector="rest")

    def asked(**names: Any) -> list[bool]:
        rules = replace(none, **names)
        pairs = ((shop, plain), (rewards, plain), (shop, own))
        return [rules.check_for(vertical, each) is not None for vertical, each in pairs]

    assert asked() == [False, False, False]
    assert asked(connectors=("rest",)) == [True, False, False]
    assert asked(connectors=("grpc",)) == [False, True, False]
    assert asked(connectors=("other",)) == [False, False, True]
    assert asked(verticals=("shop",)) == [True, False, True]
    assert asked(tools=("notes",)) == [True, True, True]
