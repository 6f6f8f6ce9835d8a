"""Which envelope is released, and why another is not."""

import itertools
import json
from collections.abc import Mapping
from typing import Any

import pytest

from sidecar.core.envelopes import (
    EnvelopeLimits,
    EnvelopeStatus,
    Released,
    Withheld,
    WithholdReason,
    build_typing_registry,
    check_envelope,
    expectation_of,
)
from sidecar.core.envelopes.verdicts import REMEDY_OF_REASON
from tests.support.requirement import requirement
from tests.unit.envelopes.building import ADA, CANARY, NONCE, body, expecting, members, tool


@requirement("PC2-D-25")
@pytest.mark.parametrize("status", ["ok", "partial"])
@pytest.mark.parametrize("version", ["1.2.0", "1.0.0", "1.99.3", "1.2.0-rc.1", "1.2.0+build.7"])
def test_the_right_envelope_of_the_same_major_version_is_released(status: str, version: str) -> None:
    """`ok` and `partial`, each with versions of major 1: the payload's text comes out unchanged."""
    verdict = check_envelope(body(status=status, version=version), expecting())

    assert verdict == Released(json.dumps({"note": CANARY}), EnvelopeStatus(status), _cache_meta())


def _cache_meta() -> str:
    return json.dumps(members()["cache_meta"])


LOOK_ALIKES = {
    "another user": "user-grace",
    "case": "User-ada",
    "trailing dot": "user-ada.",
    "trailing space": "user-ada ",
    "leading space": " user-ada",
    "zero-width": "user-\u200bada",
    "soft hyphen": "user-\u00adada",
    "cyrillic a": "user-\u0430da",
    "full width": "user-\uff41da",
    "NUL": "user-ada\x00",
    "empty": "",
    "prefix": "user-ad",
    "null": None,
    "number": 7,
    "list": [ADA],
    "object": {"id": ADA},
    "true": True,
}


@requirement("PC2-T-5")
@pytest.mark.parametrize("status", ["ok", "partial", "error"])
@pytest.mark.parametrize("principal", LOOK_ALIKES.values(), ids=LOOK_ALIKES.keys())
def test_a_principal_that_only_looks_right_is_a_mismatch(status: str, principal: object) -> None:
    """Each look-alike, under each status: withheld as a security incident."""
    verdict = check_envelope(json.dumps({**members(status=status), "principal": principal}).encode(), expecting())

    assert verdict == Withheld(WithholdReason.PRINCIPAL_MISMATCH)
    assert isinstance(verdict, Withheld)
    assert verdict.security


@pytest.mark.parametrize(("ours", "theirs"), [("josé", "jose\u0301"), ("jose\u0301", "josé"), ("ﬁ", "fi")])
def test_principals_are_not_normalised(ours: str, theirs: str) -> None:
    """The same name composed and decomposed: equal to a reader, not to the check."""
    assert check_envelope(body(principal=theirs), expecting(principal=ours)) == Withheld(
        WithholdReason.PRINCIPAL_MISMATCH
    )
    assert isinstance(check_envelope(body(principal=ours), expecting(principal=ours)), Released)


def test_an_escaped_principal_is_the_same_principal() -> None:
    r"""`\u0061` is only another way to write `a`, in the value and in the member's name."""
    text = body().replace(b'"principal": "user-ada"', b'"princip\\u0061l": "user-\\u0061da"')

    assert isinstance(check_envelope(text, expecting()), Released)


@requirement("PC2-T-5")
@pytest.mark.parametrize("text", [b"{}", b'{"offers": []}', b'{"Principal": "user-ada"}', b'{"status": "ok"}'])
def test_a_body_without_a_principal_is_told_apart_and_is_an_incident_all_the_same(text: bytes) -> None:
    """A service that forgot the envelope, or spells the member another way: no user is confirmed."""
    verdict = check_envelope(text, expecting())

    assert verdict == Withheld(WithholdReason.PRINCIPAL_ABSENT)
    assert isinstance(verdict, Withheld)
    assert verdict.security
    assert "no principal in the envelope: is this an envelope at all?" in REMEDY_OF_REASON[verdict.reason]


def test_nothing_is_for_an_empty_principal() -> None:
    """An expectation without principal matches not even an envelope with an empty one."""
    assert check_envelope(body(principal=""), expecting(principal="")) == Withheld(WithholdReason.PRINCIPAL_MISMATCH)


@pytest.mark.parametrize("other", ['"user-grace"', '"user-ada"', "7", "null"])
@pytest.mark.parametrize("name", ["principal", "princip\\u0061l"])
@pytest.mark.parametrize("first", [True, False])
def test_a_principal_named_twice_is_a_mismatch(other: str, name: str, first: bool) -> None:
    """The second name before or after the right one, escaped or not, and even with the same value."""
    extra = f'"{name}": {other}'
    text = body().decode()
    doubled = f"{{{extra}, {text[1:]}" if first else f"{text[:-1]}, {extra}}}"

    assert check_envelope(doubled.encode(), expecting()) == Withheld(WithholdReason.PRINCIPAL_MISMATCH)


@pytest.mark.parametrize("name", ["status", "payload", "version", "cache_meta", "unheard_of"])
def test_any_other_member_named_twice_is_malformed(name: str) -> None:
    """A duplicate of each member, at the end, where many parsers would take it."""
    text = body(unheard_of=1).decode()
    doubled = f'{text[:-1]}, "{name}": {json.dumps(members(unheard_of=1)[name])}}}'

    assert check_envelope(doubled.encode(), expecting()) == Withheld(WithholdReason.MALFORMED)


FAULTS: list[tuple[WithholdReason, Mapping[str, Any]]] = [
    (WithholdReason.PRINCIPAL_MISMATCH, {"principal": "user-grace"}),
    (WithholdReason.NONCE_MISMATCH, {"nonce": "nonce-2"}),
    (WithholdReason.SIGNATURE_INVALID, {"signature": "forged"}),
    (WithholdReason.VERSION_MISMATCH, {"version": "2.0.0"}),
    (WithholdReason.STATUS_ERROR, {"status": "error"}),
    (WithholdReason.UNKNOWN_KEY, {"enricher_id": "write"}),
    (WithholdReason.PAYLOAD_INVALID, {"payload": {"note": 7}}),
]
"""In the order in which they are checked."""


@requirement("PC2-T-32", "PC2-D-26", "PC2-D-24")
@pytest.mark.parametrize("chosen", [c for n in range(1, 8) for c in itertools.combinations(range(7), n)])
def test_the_first_fault_in_the_order_of_checks_is_the_reason(chosen: tuple[int, ...]) -> None:
    """All 127 combinations of the seven faults: the earliest check names the reason."""
    changes = {name: value for index in chosen for name, value in FAULTS[index][1].items()}
    expected = expecting(signature=lambda _body, signature: signature == "good")

    assert check_envelope(body(**{"signature": "good"} | changes), expected) == Withheld(FAULTS[chosen[0]][0])


BROKEN = {
    "empty": b"",
    "not JSON": b"<html>",
    "array": b"[]",
    "string": b'"user-ada"',
    "null": b"null",
    "cut short": body()[:-1],
    "trailing data": body() + b"{}",
    "trailing comma": body()[:-1] + b",}",
    "byte order mark": b"\xef\xbb\xbf" + body(),
    "not UTF-8": body().replace(b"canary", b"can\xffry"),
    "encoded surrogate": body().replace(b"canary", b"can\xed\xa0\x80ry"),
    "UTF-16": body().decode().encode("utf-16"),
    "NaN": body(payload={"note": "", "any": float("nan")}),
    "infinity": body(cache_meta={"ttl": float("inf")}),
    "deep": body().replace(b'"partial": []', b'"partial": ' + b"[" * 100_000 + b"]" * 100_000),
    "half a surrogate pair": body().replace(b"canary", b"can\\ud800ry"),
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_not_one_json_object_is_malformed(text: bytes) -> None:
    """Each way not to be the JSON text of one object."""
    assert check_envelope(text, expecting()) == Withheld(WithholdReason.MALFORMED)


NOT_A_VERSION = [
    "",
    "1",
    "1.2",
    "v1.2.0",
    "1.2.0.0",
    "01.2.0",
    " 1.2.0",
    "1.2.0\n",
    "\uff11.2.0",
    "1.2.0 ",
    "2.0.0",
    "0.9.0",
]


@requirement("PC2-D-26")
@pytest.mark.parametrize("version", [*NOT_A_VERSION, 1, ["1.2.0"]])
def test_a_version_of_another_major_or_none_is_a_version_mismatch(version: object) -> None:
    """Other majors, and everything that is not semver."""
    assert check_envelope(body(version=version), expecting()) == Withheld(WithholdReason.VERSION_MISMATCH)


@pytest.mark.parametrize("status", ["OK", "ok ", "success", "", 200, True])
def test_a_status_of_unknown_meaning_is_malformed(status: object) -> None:
    """`status` is the only decision boundary; what it does not say cannot be guessed."""
    assert check_envelope(body(status=status), expecting()) == Withheld(WithholdReason.MALFORMED)


DEEP_31 = json.loads("[" * 31 + "]" * 31)
PAYLOADS = {
    "duplicate": b'{"note": "a", "note": "b"}',
    "deep duplicate": b'{"note": "", "any": [{"a": {"b": 1, "b": 2}}]}',
    "escaped duplicate": b'{"note": "a", "n\\u006fte": "b"}',
    "infinite": b'{"note": "", "any": 1e999}',
    "infinite beside another container": b'{"note": "", "any": [[[1e999]], [[]]]}',
    "thousands of digits": b'{"note": "", "any": ' + b"9" * 5000 + b"}",
    "33 levels": json.dumps({"note": "", "any": [DEEP_31]}).encode(),
    "5000 levels": b'{"note": "", "any": ' + b"[" * 900 + b"]" * 900 + b"}",
    "other type": b'{"note": 1}',
    "extra member": b'{"note": "", "hidden": 1}',
    "null": b"null",
}


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS.keys())
def test_an_ambiguous_too_deep_or_unfitting_payload_is_withheld(payload: bytes) -> None:
    """Each payload that parsers could disagree about, or that its schema does not admit."""
    text = body(payload="HERE").replace(b'"HERE"', payload)

    assert check_envelope(text, expecting()) == Withheld(WithholdReason.PAYLOAD_INVALID)


def test_a_payload_of_exactly_the_deepest_level_is_released() -> None:
    """32 levels, the payload's own object among them."""
    assert isinstance(check_envelope(body(payload={"note": "", "any": DEEP_31}), expecting()), Released)


def test_a_body_over_the_limit_is_not_even_scanned() -> None:
    """At the limit released, one byte over withheld, whatever it holds."""
    text = body()

    assert isinstance(check_envelope(text, expecting(), EnvelopeLimits(max_bytes=len(text))), Released)
    over = check_envelope(b"\xff" * len(text), expecting(), EnvelopeLimits(max_bytes=len(text) - 1))
    assert over == Withheld(WithholdReason.TOO_LARGE)


@requirement("PC2-D-28", "PC2-D-29")
@pytest.mark.parametrize("cache_meta", [{}, {"cached": True}, {"cached": False, "ttl": -1}, None, [1], "x" * 5000])
def test_cache_meta_decides_nothing(cache_meta: object) -> None:
    """Fresh, stale, absurd, missing or overlong: the same payload is released, and the text goes on if it is short."""
    verdict = check_envelope(body(cache_meta=cache_meta), expecting())

    assert isinstance(verdict, Released)
    assert verdict.payload_json == json.dumps({"note": CANARY})
    kept = cache_meta is not None and not isinstance(cache_meta, str)
    assert verdict.cache_meta_json == (json.dumps(cache_meta) if kept else "{}")


@requirement("PC2-D-24")
@pytest.mark.parametrize("partial", [[], [{"critical": True}], "everything failed", None])
def test_failed_sources_decide_nothing(partial: object) -> None:
    """`status: ok` with critical failed sources is still ok: the producer has decided, through `status`."""
    assert isinstance(check_envelope(body(partial=partial), expecting()), Released)


@requirement("PC2-D-35")
def test_a_signature_is_checked_over_the_whole_body_where_a_key_is_configured() -> None:
    """The check gets the bytes as they came, but for the signature's own text; a missing one is not even checked."""
    seen: list[tuple[bytes, str | None]] = []

    def genuine(text: bytes, signature: str | None) -> bool:
        seen.append((text, signature))
        return signature == "good"

    signed, unsigned = body(signature="good"), body()

    assert isinstance(check_envelope(signed, expecting(signature=genuine)), Released)
    assert check_envelope(unsigned, expecting(signature=genuine)) == Withheld(WithholdReason.SIGNATURE_INVALID)
    assert seen == [(body(signature=""), "good")]


def test_a_nonce_counts_only_where_the_tool_declares_the_echo() -> None:
    """A tool without the echo ignores the member; a tool with it needs the very string."""
    entry, echoing = tool(), tool(echoes_nonce=True)
    registry, _ = build_typing_registry([entry])

    assert isinstance(check_envelope(body(nonce=None), expectation_of(entry, registry, ADA, NONCE)), Released)
    expected = expectation_of(echoing, registry, ADA, NONCE)
    assert check_envelope(body(nonce=None), expected) == Withheld(WithholdReason.NONCE_MISMATCH)
    assert check_envelope(body(nonce=1), expected) == Withheld(WithholdReason.NONCE_MISMATCH)
    assert isinstance(check_envelope(body(), expected), Released)
    with pytest.raises(ValueError, match="echoes nonces"):
        expectation_of(echoing, registry, ADA)


@requirement("PC2-T-4")
def test_a_key_that_the_registry_does_not_know_is_withheld() -> None:
    """The envelope is as asked for, but no schema is known for its type."""
    registry, _ = build_typing_registry([])

    assert check_envelope(body(), expectation_of(tool(), registry, ADA)) == Withheld(WithholdReason.UNKNOWN_KEY)


def test_a_tool_that_is_not_data_backed_has_no_expectation() -> None:
    """A local tool has no envelope to check."""
    registry, _ = build_typing_registry([])
    with pytest.raises(ValueError, match="not data-backed"):
        expectation_of(tool(domain_type=None, enricher_id=None), registry, ADA)


def test_no_representation_shows_a_payload() -> None:
    """A released verdict in a log line or traceback: neither payload nor cache key."""
    verdict = check_envelope(body(), expecting())

    assert isinstance(verdict, Released)
    assert CANARY not in repr(verdict)
    assert CANARY not in str(verdict)
