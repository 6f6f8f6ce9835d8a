"""The edges of every check of an envelope, to the byte: the last length, depth and number that pass."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from sidecar.core.envelopes import (
    EnvelopeEncoding,
    EnvelopeLimits,
    EnvelopeStatus,
    Expectation,
    Released,
    TypingKey,
    Withheld,
    WithholdReason,
    build_typing_registry,
    check_envelope,
    expectation_of,
)
from sidecar.core.envelopes.fields import JsonFields, ProtoFields, fields_of
from sidecar.core.envelopes.json_scan import has_duplicates, only, scan, text_of
from sidecar.core.envelopes.payloads import payload_text
from sidecar.core.envelopes.proto_scan import Record, cache_meta_json, records_of, status_word, text_in
from sidecar.core.envelopes.versions import is_compatible, major_of
from tests.support.requirement import requirement
from tests.unit.envelopes.building import ADA, NONCE, SCHEMA, body, expecting, schema_of, tool
from tests.unit.envelopes.wire_building import wire

ANY = schema_of(tool(payload_schema={"type": ["object", "array", "number", "string", "null", "boolean"]}))


def varint(number: int) -> bytes:
    """Return a number as protobuf writes it."""
    parts = []
    while True:
        number, low = number >> 7, number & 0x7F
        parts.append(low | (0x80 if number else 0))
        if not number:
            return bytes(parts)


def field(number: int, kind: int, value: bytes) -> bytes:
    """Return one field; a text gets its length."""
    return varint(number << 3 | kind) + (varint(len(value)) if kind == 2 else b"") + value


@pytest.mark.parametrize(
    ("message", "records"),
    [
        (b"", ()),
        (field(4, 2, b"ada"), (Record("principal", 0, 5, b"ada"),)),
        (field(4, 2, b""), (Record("principal", 0, 2, b""),)),
        (field(5, 0, b"\x01"), (Record("status", 0, 2, b"\x01"),)),
        (
            field(1, 2, b"d") + field(2, 2, b"e") + field(3, 2, b"v"),
            (Record("domain_type", 0, 3, b"d"), Record("enricher_id", 3, 6, b"e"), Record("version", 6, 9, b"v")),
        ),
        (
            field(8, 2, b"c") + field(9, 2, b"n") + field(10, 2, b"s"),
            (Record("cache_meta", 0, 3, b"c"), Record("nonce", 3, 6, b"n"), Record("signature", 6, 9, b"s")),
        ),
        (field(6, 2, b"[1]"), (Record("payload", 0, 5, b"[1]"),)),
        (field(6, 2, b""), (Record("payload", 0, 2, b""),)),
        (field(6, 2, b"null"), (Record("payload", 0, 6, b"null"),)),
        (field(6, 2, b"1e999"), (Record("payload", 0, 7, b"1e999"),)),
        (field(7, 2, b"x") + field(11, 0, b"\x00") + field(99, 1, b"12345678") + field(99, 5, b"1234"), ()),
        (field(4, 2, b"x" * 128), (Record("principal", 0, 131, b"x" * 128),)),
        (field(12, 0, varint(2**64 - 1)), ()),
        (varint(2**32 - 8) + b"\x00", ()),
        (field(12, 0, varint(2**64)), None),
        (field(12, 0, b"\x80" * 9 + b"\x01"), ()),
        (field(12, 0, b"\x80" * 10 + b"\x01"), None),
        (varint(2**32) + b"\x00", None),
        (b"\x00\x00", None),
        (b"\x07", None),
        (field(12, 3, b""), None),
        (field(12, 4, b""), None),
        (field(12, 6, b"") + b"\x00" * 8, None),
        (field(99, 1, b"1234567"), None),
        (field(99, 5, b"123"), None),
        (field(4, 0, b"\x01"), None),
        (field(5, 2, b"\x01"), None),
        (field(4, 2, b"ada")[:-1], None),
        (field(12, 2, varint(1) + b""), ()),
        (b"\x62\x01", None),
        (b"\x62", None),
        (b"\x60", None),
        (b"\x60\x80", None),
        (field(6, 2, b"[1"), None),
        (field(6, 2, b"1") + field(6, 2, b"x"), None),
    ],
)
def test_the_fields_of_a_message_are_exactly_these(message: bytes, records: tuple[Record, ...] | None) -> None:
    """Known ones with their place; unknown ones are skipped; what is cut, too long or of another type is no message."""
    assert records_of(message) == records


def test_texts_and_statuses_of_records() -> None:
    """An empty text is none, and so is one that is not UTF-8; statuses are words, and other numbers none."""
    assert [text_in(Record("x", 0, 0, value)) for value in (b"a", b"", b"\xff")] == ["a", None, None]
    words = [status_word(Record("status", 0, 0, value)) for value in (b"\x00", b"\x01", b"\x02", b"\x03", b"\x04", b"")]
    assert words == [None, "ok", "partial", "error", None, None]


@pytest.mark.parametrize(
    ("message", "meta"),
    [
        (b"", {}),
        (field(1, 0, b"\x01"), {"cached": True}),
        (field(1, 0, b"\x01") + field(1, 0, b"\x00"), {}),
        (field(2, 0, b"\x02"), {"cacheable": True}),
        (field(3, 0, varint(300)), {"ttl_seconds": 300}),
        (field(3, 0, varint(2**63 - 1)), {"ttl_seconds": 2**63 - 1}),
        (field(3, 0, varint(2**63)), {"ttl_seconds": -(2**63)}),
        (field(3, 0, varint(2**64 - 1)), {"ttl_seconds": -1}),
        (field(4, 2, b"k\xff"), {"key": "k\ufffd"}),
        (field(4, 0, b"\x01") + field(1, 2, b"x") + field(2, 2, b"y") + field(3, 2, b"z"), {}),
        (field(9, 0, b"\x01") + field(9, 2, b"x"), {}),
        (b"\x08", None),
        (field(1, 0, b"\x01") + b"\x00", None),
    ],
)
def test_a_cache_meta_message_is_exactly_this_json(message: bytes, meta: Mapping[str, Any] | None) -> None:
    """Missing fields have their defaults; a broken message is none."""
    text = cache_meta_json(message)
    defaults = {"cached": False, "cacheable": False, "ttl_seconds": 0, "key": ""}
    assert (None if text is None else json.loads(text)) == (None if meta is None else {**defaults, **meta})
    assert text is None or list(json.loads(text)) == list(defaults)


def test_a_serialised_envelope_is_read_by_name() -> None:
    """Each member once; the signed part is everything but the signature."""
    signature, meta = field(10, 2, b"sig"), field(8, 2, field(1, 0, b"\x01"))
    rest = field(4, 2, b"ada") + field(5, 0, b"\x02") + field(6, 2, b"{}") + meta
    outside = fields_of(field(9, 2, b"n") + signature + rest, EnvelopeEncoding.PROTOBUF)

    assert isinstance(outside, ProtoFields)
    assert [outside.text(name) for name in ("principal", "nonce", "signature", "version")] == ["ada", "n", "sig", None]
    assert (outside.status(), outside.payload(), outside.ambiguous) == ("partial", msgspec.Raw(b"{}"), False)
    cached = b'{"cached":true,"cacheable":false,"ttl_seconds":0,"key":""}'
    assert outside.cache_meta() == msgspec.Raw(cached)
    assert outside.signed_part() == field(9, 2, b"n") + rest


def test_what_a_serialised_envelope_lacks_or_has_twice_is_none() -> None:
    """Text, status, payload, cache meta and signed part."""
    for message in (b"", (field(4, 2, b"a") + field(5, 0, b"\x01") + field(6, 2, b"1") + field(10, 2, b"s")) * 2):
        outside = fields_of(message, EnvelopeEncoding.PROTOBUF)
        assert outside is not None
        parts = (outside.text("principal"), outside.status(), outside.payload(), outside.cache_meta())
        assert (*parts, outside.signed_part()) == (None,) * 5
        assert outside.ambiguous == bool(message)
    empty = fields_of(field(6, 2, b"") + field(8, 2, b"\x08"), EnvelopeEncoding.PROTOBUF)
    assert empty is not None
    assert (empty.payload(), empty.cache_meta()) == (None, None)
    assert fields_of(b"{}", EnvelopeEncoding.PROTOBUF) is None


def test_a_json_envelope_is_read_by_name() -> None:
    """Members stay raw; texts and status are strings or nothing."""
    text = b'{"principal": "ada", "status": "ok", "payload": {"a":1}, "cache_meta": [2], "nonce": 7}'
    outside = fields_of(text, EnvelopeEncoding.JSON)
    assert isinstance(outside, JsonFields)
    assert (outside.text("principal"), outside.text("nonce"), outside.text("gone")) == ("ada", None, None)
    assert (outside.status(), outside.ambiguous) == ("ok", False)
    assert (outside.payload(), outside.cache_meta()) == (msgspec.Raw(b'{"a":1}'), msgspec.Raw(b"[2]"))
    assert fields_of(b"[]", EnvelopeEncoding.JSON) is None


@pytest.mark.parametrize(
    ("text", "signed"),
    [
        (b'{"a": 1, "signature": "sig"}', b'{"a": 1, "signature": ""}'),
        (b'{"a": "sig", "signature": "sig"}', None),
        (b'{"signature": "s\\u0069g"}', None),
        (b'{"signature": ""}', None),
        (b'{"signature": 7}', None),
        (b'{"a": 1}', None),
        (b'{"signature": "sig", "signature": "sig"}', None),
        (b'{"signature": "sig", "signature": "other"}', None),
    ],
)
def test_the_signed_part_of_a_json_body_is_all_but_the_signatures_text(text: bytes, signed: bytes | None) -> None:
    """None where it cannot be told which bytes were signed."""
    outside = fields_of(text, EnvelopeEncoding.JSON)
    assert outside is not None
    assert outside.signed_part() == signed


def test_members_stand_as_they_were_written() -> None:
    """In order, duplicates included; one that is there twice is neither value."""
    members = scan(b'{"a": 1, "b": "x", "a": 2}')
    assert members == (("a", msgspec.Raw(b"1")), ("b", msgspec.Raw(b'"x"')), ("a", msgspec.Raw(b"2")))
    assert (only(members, "b"), only(members, "a"), only(members, "c")) == (msgspec.Raw(b'"x"'), None, None)
    assert (has_duplicates(members), has_duplicates(members[:2])) == (True, False)
    assert [text_of(value) for value in (msgspec.Raw(b'"x"'), msgspec.Raw(b"1"), None)] == ["x", None, None]


def nested(levels: int, opening: str = "[", closing: str = "]", inside: str = "") -> bytes:
    """Return so many containers within one another."""
    return (opening * levels + inside + closing * levels).encode()


@pytest.mark.parametrize(
    ("payload", "depth", "fits"),
    [
        (b"1", 0, True),
        (b"[]", 0, False),
        (b"[]", 1, True),
        (b"[[], 1]", 1, False),
        (b"[[], 1]", 2, True),
        (b"[1]", 0, False),
        (b"[1]", 1, True),
        (nested(3, inside="1"), 2, False),
        (nested(3, inside="1"), 3, True),
        (nested(3, '{"a":', "}", "1"), 2, False),
        (nested(3, '{"a":', "}", "1"), 3, True),
        (b'[[], {"a": [1]}]', 2, False),
        (b'[[], {"a": [1]}]', 3, True),
        (b"1e999", 9, False),
        (b"[1.5, 1e999]", 9, False),
        (b'{"a": 1.5, "b": [-1e999, 1]}', 9, False),
        (b'{"a": 1.5, "b": [-1e99, 1]}', 9, True),
        (b'{"a": 1, "a": 1}', 9, False),
        (b'[{"a": {"b": 1, "b": 2}}]', 9, False),
    ],
)
def test_a_payload_is_as_deep_as_allowed_and_plain(payload: bytes, depth: int, fits: bool) -> None:
    """Its text comes out as it went in."""
    assert payload_text(msgspec.Raw(payload), ANY, depth) == (payload.decode() if fits else None)


def test_a_payload_that_breaks_its_schema_does_not_fit() -> None:
    """However plain it is."""
    assert payload_text(msgspec.Raw(b'{"note":1}'), schema_of(tool()), 9) is None


@pytest.mark.parametrize(
    ("version", "major"),
    [
        ("0.0.0", 0),
        ("12.0.3", 12),
        ("999999999.0.0", 999_999_999),
        ("1000000000.0.0", None),
        ("1.0.0-" + "a" * 64, 1),
        ("1.0.0+" + "a" * 65, None),
        ("1.0.0-", None),
        ("1.0", None),
        ("x1.0.0", None),
    ],
)
def test_the_major_part_of_a_version(version: str, major: int | None) -> None:
    """Nine digits, and 64 characters behind it."""
    assert major_of(version) == major


def test_versions_are_compatible_if_both_are_semver_of_one_major() -> None:
    """Two that are none are not equal."""
    pairs = (("1.0.0", "1.9.9"), ("1.0.0", "2.0.0"), ("x", "x"), ("x", "1.0.0"), ("1.0.0", "x"))
    assert [is_compatible(*pair) for pair in pairs] == [True, False, False, False, False]


def test_an_expectation_is_what_tool_and_caller_say() -> None:
    """The nonce counts only where it is echoed."""
    entry, echoing = tool(), tool(echoes_nonce=True)
    registry, _ = build_typing_registry([entry])

    def check(_signed: bytes, _signature: str | None) -> bool:
        return True

    schema = registry.schemas[TypingKey("notes", "read")]
    plain = Expectation(ADA, "notes", "read", "1.2.0", schema, None, check)
    assert expectation_of(entry, registry, ADA, NONCE, check) == plain
    assert expectation_of(echoing, registry, ADA, NONCE) == Expectation(ADA, "notes", "read", "1.2.0", schema, NONCE)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"domain_type": None}, "Tool 'notes' is not data-backed: it has no domain_type and enricher_id."),
        ({"enricher_id": None}, "Tool 'notes' is not data-backed: it has no domain_type and enricher_id."),
        ({"echoes_nonce": True}, "Tool 'notes' echoes nonces; give the one that was sent."),
    ],
)
def test_a_tool_without_what_is_needed_has_no_expectation(changes: dict[str, Any], why: str) -> None:
    """Either half of its key missing, or a nonce."""
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the whole text is compared
        expectation_of(tool(**changes), build_typing_registry([])[0], ADA)
    assert str(refused.value) == why


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"status": None}, WithholdReason.MALFORMED),
        ({"version": None}, WithholdReason.VERSION_MISMATCH),
        ({"domain_type": "other"}, WithholdReason.UNKNOWN_KEY),
        ({"enricher_id": "other"}, WithholdReason.UNKNOWN_KEY),
        ({"payload": None}, WithholdReason.PAYLOAD_INVALID),
    ],
)
def test_what_an_envelope_lacks_is_the_reason(changes: dict[str, Any], reason: WithholdReason) -> None:
    """In either form."""
    assert check_envelope(body(**changes), expecting()) == Withheld(reason)
    message = wire(**changes)
    assert check_envelope(message, expecting(), form=EnvelopeEncoding.PROTOBUF) == Withheld(reason)


def test_an_unsigned_answer_is_not_even_checked() -> None:
    """In neither form."""

    def check(_signed: bytes, _signature: str | None) -> bool:
        raise AssertionError("was asked about nothing")

    expected = expecting(signature=check)
    assert check_envelope(body(), expected) == Withheld(WithholdReason.SIGNATURE_INVALID)
    assert check_envelope(wire(), expected, form=EnvelopeEncoding.PROTOBUF) == Withheld(
        WithholdReason.SIGNATURE_INVALID
    )


@requirement("PC2-D-28")
@pytest.mark.parametrize(("spare", "kept"), [(0, True), (-1, False)])
def test_cache_meta_goes_on_up_to_its_limit(spare: int, kept: bool) -> None:
    """Exactly as long as allowed; an empty object stands for one that is longer."""
    text = json.dumps({"key": "k" * 50})
    limits = EnvelopeLimits(max_cache_meta_bytes=len(text) + spare)
    released = check_envelope(body(cache_meta={"key": "k" * 50}), expecting(), limits)
    assert released == Released('{"note": "canary-51c07e"}', EnvelopeStatus.OK, text if kept else "{}")
    short = check_envelope(body(cache_meta=7), expecting())
    assert isinstance(short, Released)
    assert short.cache_meta_json == "7"
    assert EnvelopeLimits() == EnvelopeLimits(1_048_576, 32, 4096, 262_144)


TOO_BAD = (
    "Tool 'a': payload_schema is not a JSON schema that can be compiled offline; "
    "check keywords, patterns (no look-around) and $ref (only within the schema)."
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"payload_schema": {}}, "Tool 'a' is data-backed but has no payload_schema; declare one."),
        ({"payload_schema": None}, "Tool 'a' is data-backed but has no payload_schema; declare one."),
        ({"version": "1.0"}, "Tool 'a': version '1.0' is not semver, e.g. 1.0.0."),
        ({"payload_schema": {"pattern": "(?=a)b"}}, TOO_BAD),
        ({"payload_schema": {"$ref": "https://example.com/schema"}}, TOO_BAD),
        ({"payload_schema": {"const": object()}}, TOO_BAD),
    ],
)
def test_a_tool_that_cannot_be_used_is_told_what_to_do(changes: dict[str, Any], message: str) -> None:
    """The tool and the whole sentence; a good tool after it has its key."""
    registry, problems = build_typing_registry([tool("a", enricher_id="a", **changes), tool("b")])
    assert [(each.tool_id, each.message) for each in problems] == [("a", message)]
    assert list(registry.schemas) == [TypingKey("notes", "read")]


def test_half_a_key_is_no_key() -> None:
    """A tool that names one of the two is not data-backed, and no problem."""
    half = [tool("a", domain_type=None), tool("b", enricher_id=None)]
    registry, problems = build_typing_registry([*half, tool("c")])
    assert (list(registry.schemas), problems) == ([TypingKey("notes", "read")], ())
    schema = registry.schemas[TypingKey("notes", "read")]
    assert (schema.key, schema.version, schema.declared_by) == (("notes", "read"), "1.2.0", "c")
    assert json.loads(schema.text) == SCHEMA


def test_the_first_of_two_tools_that_agree_declares_the_key() -> None:
    """And a third one that disagrees is told by whom it was declared."""
    registry, _ = build_typing_registry([tool("a"), tool("b", version="1.9.0")])
    assert registry.schemas[TypingKey("notes", "read")].declared_by == "a"
    registry, problems = build_typing_registry([tool("a"), tool("b"), tool("c", version="2.0.0")])
    text = "Tools 'a' and 'c' expect different major versions of (notes, read)."
    assert [(each.tool_id, each.message) for each in problems] == [("c", text)]


@pytest.mark.parametrize(
    ("encoding", "text"),
    [(EnvelopeEncoding.JSON, body(nonce="n")), (EnvelopeEncoding.PROTOBUF, wire(nonce="n"))],
    ids=["json", "protobuf"],
)
def test_a_member_occurs_or_it_does_not(encoding: EnvelopeEncoding, text: bytes) -> None:
    """In both forms of an envelope."""
    fields = fields_of(text, encoding)

    assert fields is not None
    assert (fields.has("nonce"), fields.has("signature"), fields.has("")) == (True, False, False)
    only_one = fields_of(field(9, 2, b"n") if encoding is EnvelopeEncoding.PROTOBUF else b'{"nonce": "n"}', encoding)
    assert only_one is not None
    assert (only_one.has("nonce"), only_one.has("version")) == (True, False)
