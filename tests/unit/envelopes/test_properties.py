"""Generated envelopes: only the exact principal releases, and nothing withheld is kept."""

import json
import random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidecar.core.envelopes import EnvelopeLimits, Released, Withheld, WithholdReason, check_envelope
from sidecar.core.envelopes.verdicts import WRONG_PRINCIPAL
from tests.support.requirement import requirement
from tests.unit.envelopes.building import ADA, CANARY, NONCE, body, expecting, members

MANY = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)

PRINCIPAL = st.one_of(
    st.just(ADA),
    st.text(max_size=12),
    st.sampled_from([ADA.upper(), ADA + ".", ADA + " ", " " + ADA, "user-\u200bada", "user-a\u0301da", ADA + "\x00"]),
    st.builds(lambda at, char: ADA[:at] + char + ADA[at:], st.integers(0, 8), st.characters(codec="utf-8")),
    st.none() | st.booleans() | st.integers() | st.lists(st.just(ADA), max_size=2),
)
JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just(CANARY),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
MEMBER = st.tuples(
    st.sampled_from(["status", "version", "nonce", "domain_type", "enricher_id", "partial", "cache_meta", "x"]), JUNK
)


@st.composite
def envelopes(draw: st.DrawFn) -> tuple[bytes, list[object]]:
    """Return an envelope, mostly right, and the principals that it names in the order of its members."""
    pairs: list[tuple[str, Any]] = [(name, value) for name, value in members().items() if name != "principal"]
    for name, value in draw(st.lists(MEMBER, max_size=2)):
        pairs = [(each, value if each == name else old) for each, old in pairs]
    named = draw(st.lists(PRINCIPAL, max_size=2) | st.just([ADA]))
    for principal in named:
        pairs.insert(draw(st.integers(0, len(pairs))), ("principal", principal))
    order = [value for name, value in pairs if name == "principal"]
    text = ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in pairs)
    return f"{{{text}}}".encode("utf-8", "surrogatepass"), order


@requirement("PC2-T-5")
@MANY
@given(envelopes())
def test_only_exactly_one_exact_principal_releases(made: tuple[bytes, list[object]]) -> None:
    """Any number of principals of any kind: unless there is one and it is ours, it is an incident without a payload."""
    text, principals = made
    verdict = check_envelope(text, expecting())

    for_us = principals == [ADA] and isinstance(principals[0], str)
    if not for_us:
        none = WithholdReason.PRINCIPAL_MISMATCH if principals else WithholdReason.PRINCIPAL_ABSENT
        assert verdict == Withheld(none)
        assert CANARY not in repr(verdict)
    else:
        assert not (isinstance(verdict, Withheld) and verdict.reason in WRONG_PRINCIPAL)


def _variant(chance: random.Random) -> str:
    """Return the right principal, or one that differs in as little as can be."""
    at = chance.randrange(len(ADA))
    odd = chance.choice(["", ".", " ", "\u200b", "\u0301", "\x00", "A", "\ufeff", "a", "-"])
    return chance.choice([ADA, ADA[:at] + odd + ADA[at:], ADA[:at] + odd + ADA[at + 1 :], ADA.title(), ADA[::-1]])


@requirement("PC2-T-5")
def test_over_a_hundred_thousand_envelopes_no_other_users_payload_is_released() -> None:
    """Seeded principals one edit away from the right one, any status, nonce and order of members, canary inside."""
    chance = random.Random(20310411)
    released = withheld = 0
    for _ in range(100_000):
        principal = _variant(chance)
        status, nonce = chance.choice(["ok", "partial", "error"]), chance.choice([NONCE, "nonce-2"])
        pairs = list(members(principal=principal, status=status, nonce=nonce).items())
        chance.shuffle(pairs)
        verdict = check_envelope(json.dumps(dict(pairs), ensure_ascii=chance.random() < 0.5).encode(), expecting())
        if principal == ADA and nonce == NONCE and status != "error":
            assert isinstance(verdict, Released)
            assert CANARY in verdict.payload_json
            released += 1
        else:
            assert isinstance(verdict, Withheld)
            assert (verdict.reason is WithholdReason.PRINCIPAL_MISMATCH) == (principal != ADA)
            assert CANARY not in repr(verdict)
            withheld += 1
    assert released > 1000
    assert withheld > 10_000


@MANY
@given(st.data())
def test_one_changed_byte_never_releases_for_another_or_raises(data: st.DataObject) -> None:
    """The right envelope with up to three bytes changed, removed or added: what is released is still for user-ada."""
    text = bytearray(body())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))

    verdict = check_envelope(bytes(text), expecting())

    if isinstance(verdict, Released):
        named = [value for name, value in json.loads(text, object_pairs_hook=list) if name == "principal"]
        assert named == [ADA]
        assert json.loads(text)["nonce"] == NONCE
    else:
        assert CANARY not in repr(verdict)


@MANY
@given(st.binary(max_size=80) | JUNK.map(lambda junk: json.dumps(junk).encode()))
def test_arbitrary_bytes_are_withheld_and_never_raise(text: bytes) -> None:
    """Bytes, and JSON of no particular shape: always a verdict, and never a release."""
    assert isinstance(check_envelope(text, expecting(), EnvelopeLimits(max_bytes=60)), Withheld)


@settings(max_examples=500, deadline=None, database=None)
@given(st.dictionaries(st.just("any"), JUNK), st.booleans())
def test_a_released_payload_is_the_one_that_was_sent(extra: dict[str, Any], ascii_only: bool) -> None:
    """Generated payloads that fit the schema, escaped or in UTF-8: the released text means the same."""
    payload = {"note": "", **extra}
    text = json.dumps(members(payload=payload), ensure_ascii=ascii_only).encode()

    verdict = check_envelope(text, expecting())

    assert isinstance(verdict, Released)
    assert json.loads(verdict.payload_json) == payload
