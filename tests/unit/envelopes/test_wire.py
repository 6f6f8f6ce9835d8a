"""Envelopes that come as protobuf messages are judged as strictly as those that come as JSON."""

import itertools
import json
import random
from collections.abc import Mapping
from typing import Any

import pytest

from sidecar.core.envelopes import (
    EnvelopeEncoding,
    EnvelopeStatus,
    Judgement,
    Released,
    Withheld,
    WithholdReason,
    check_envelope,
)
from sidecar.core.envelopes.limits import EnvelopeLimits
from subagents.envelope.v1 import envelope_pb2
from tests.support.requirement import requirement
from tests.unit.envelopes.building import ADA, CANARY, expecting
from tests.unit.envelopes.wire_building import message, wire


def judged(body: bytes, limits: EnvelopeLimits | None = None, **expected: Any) -> Judgement:
    """Judge a message."""
    return check_envelope(body, expecting(**expected), limits or EnvelopeLimits(), EnvelopeEncoding.PROTOBUF)


@pytest.mark.parametrize("status", ["ok", "partial"])
def test_a_right_message_is_released(status: str) -> None:
    """The payload's text as it was sent; `cache_meta` as JSON, for traces."""
    verdict = judged(wire(status=status, cache_meta={"cached": True, "ttl_seconds": -1, "key": "k"}))

    assert isinstance(verdict, Released)
    assert (verdict.payload_json, verdict.status) == (json.dumps({"note": CANARY}), EnvelopeStatus(status))
    meta = {"cached": True, "cacheable": False, "ttl_seconds": -1, "key": "k"}
    assert json.loads(verdict.cache_meta_json) == meta


@requirement("PC2-T-5")
@pytest.mark.parametrize("first", [True, False])
def test_a_second_principal_is_a_mismatch_whichever_comes_last(first: bool) -> None:
    """A protobuf parser would keep the last one; here neither counts. Also if both are ours."""
    for other in (ADA, "user-grace"):
        extra = envelope_pb2.EnricherResponse(principal=other).SerializeToString()
        body = extra + wire() if first else wire() + extra
        assert judged(body) == Withheld(WithholdReason.PRINCIPAL_MISMATCH)


@pytest.mark.parametrize("field", ["status", "payload_json", "version", "nonce", "cache_meta", "domain_type"])
def test_any_other_field_that_stands_twice_is_malformed(field: str) -> None:
    """Each field that is not repeated, once more at the end."""
    whole = message(status="ok")
    again = envelope_pb2.EnricherResponse()
    if field == "cache_meta":
        again.cache_meta.CopyFrom(whole.cache_meta)
    else:
        setattr(again, field, getattr(whole, field))
    assert judged(whole.SerializeToString() + again.SerializeToString()) == Withheld(WithholdReason.MALFORMED)


FAULTS: list[tuple[WithholdReason, Mapping[str, Any]]] = [
    (WithholdReason.PRINCIPAL_MISMATCH, {"principal": "user-grace"}),
    (WithholdReason.NONCE_MISMATCH, {"nonce": "nonce-2"}),
    (WithholdReason.SIGNATURE_INVALID, {"signature": "forged"}),
    (WithholdReason.VERSION_MISMATCH, {"version": "2.0.0"}),
    (WithholdReason.STATUS_ERROR, {"status": "error"}),
    (WithholdReason.UNKNOWN_KEY, {"enricher_id": "write"}),
    (WithholdReason.PAYLOAD_INVALID, {"payload": {"note": 7}}),
]


@requirement("PC2-T-32")
@pytest.mark.parametrize("chosen", [c for n in range(1, 8) for c in itertools.combinations(range(7), n)])
def test_the_order_of_checks_is_that_of_json(chosen: tuple[int, ...]) -> None:
    """All 127 combinations of the seven faults: the earliest check names the reason."""
    changes = {"signature": "good"} | {name: value for index in chosen for name, value in FAULTS[index][1].items()}

    verdict = judged(wire(**changes), signature=lambda _signed, signature: signature == "good")

    assert verdict == Withheld(FAULTS[chosen[0]][0])


MALFORMED = {
    "a cut tag": wire() + b"\x80",
    "a cut length": wire() + b"\x0a\xff",
    "a length beyond the end": wire() + b"\x0a\x05ab",
    "a group": wire() + b"\x7b\x7c",
    "field number 0": wire() + b"\x02\x00",
    "a number of eleven bytes": wire() + b"\x58" + b"\xff" * 10 + b"\x01",
    "a principal that is a number": wire(principal=None) + b"\x20\x01",
    "a JSON envelope": b'{"principal": "user-ada"}',
    "a payload that is no JSON": wire(payload=None) + b"\x32\x03{]}",
    "a payload that is not UTF-8": wire(payload=None) + b'\x32\x03"\xff"',
    "a payload with NaN": wire(payload=None) + b'\x32\x0c{"note": NaN',
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_is_no_message_is_malformed(body: bytes) -> None:
    """Whatever stands before the fault."""
    assert judged(body) == Withheld(WithholdReason.MALFORMED)


def test_fields_of_a_later_minor_version_are_skipped() -> None:
    """Numbers, texts and fixed-width fields that nobody here knows, repeated; and the failed sources."""
    unknown = b"\x58\x01" * 2 + b"\x62\x01x" * 2 + b"\x69" + b"\0" * 8 + b"\x75" + b"\0" * 4
    body = wire(partial=[{"source": "a", "critical": True}, {"source": "b", "critical": False}]) + unknown

    assert isinstance(judged(body), Released)


@requirement("PC2-T-5")
def test_no_altered_byte_ever_makes_another_principal_pass() -> None:
    """Each byte of an envelope for somebody else, changed at random and cut everywhere: never released."""
    chance = random.Random(7)
    body = wire(principal="user-grace")
    for at in range(len(body)):
        changed = bytearray(body)
        changed[at] ^= 1 << chance.randrange(8)
        for text in (bytes(changed), body[:at]):
            verdict = judged(text)
            assert isinstance(verdict, Withheld)
            assert CANARY not in repr(verdict)


def test_a_message_over_the_limit_is_too_large() -> None:
    """One of exactly the limit is not."""
    body = wire()
    assert isinstance(judged(body, EnvelopeLimits(max_bytes=len(body))), Released)
    assert judged(body, EnvelopeLimits(max_bytes=len(body) - 1)) == Withheld(WithholdReason.TOO_LARGE)


def test_the_signed_bytes_are_the_message_without_the_signature() -> None:
    """Wherever the field stands."""
    seen: list[bytes] = []

    def noted(signed: bytes, _signature: str | None) -> bool:
        seen.append(signed)
        return True

    signature = envelope_pb2.EnricherResponse(signature="s").SerializeToString()
    for body in (wire() + signature, signature + wire()):
        assert isinstance(judged(body, signature=noted), Released)
    assert seen == [wire(), wire()]
