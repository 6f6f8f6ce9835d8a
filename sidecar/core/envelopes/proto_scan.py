"""Reads the fields of a serialised `EnricherResponse` without protobuf, duplicates included.

`json_scan` does the same for JSON. A protobuf parser keeps the last of two equal fields, so a producer could state one
principal for a parser that keeps the first and another for one that keeps the last. It would also decode the payload
together with everything else. This module therefore reads the few necessary parts of the wire format itself. It skips
unknown fields and `partial`.
"""

from dataclasses import dataclass, field
from typing import Final

import msgspec

from sidecar.core.decoding import DecodeError, from_json, from_utf8

VARINT, I64, LEN, I32 = 0, 1, 2, 5
FIXED: Final = {I64: 8, I32: 4}
"""Bytes of a value by wire type."""
FIELDS: Final = {
    1: ("domain_type", LEN),
    2: ("enricher_id", LEN),
    3: ("version", LEN),
    4: ("principal", LEN),
    5: ("status", VARINT),
    6: ("payload", LEN),
    8: ("cache_meta", LEN),
    9: ("nonce", LEN),
    10: ("signature", LEN),
}
"""Name and wire type by field number of `envelope.proto`; `partial` (7) is never read (PC2-FR-10e)."""
STATUSES: Final = {1: "ok", 2: "partial", 3: "error"}
META_CACHED, META_CACHEABLE, META_TTL, META_KEY = 1, 2, 3, 4
"""Field numbers of `CacheMeta`."""
VARINT_BYTES: Final = 10
"""The most bytes of a varint: 64 bits in groups of seven."""
MORE_FOLLOWS: Final = 0x80
"""The bit of a varint's byte that announces another byte."""
LARGEST_TAG: Final = (1 << 32) - 1
"""The wire format limits tags to 32 bits."""


@dataclass(frozen=True, slots=True)
class Record:
    """One known field.

    Attributes:
        begin, end: position of the whole record in the message, tag included.
        value: for a LEN field its bytes, for a VARINT field the bytes of its number.
    """

    name: str
    begin: int
    end: int
    value: bytes = field(repr=False)


def records_of(body: bytes) -> tuple[Record, ...] | None:
    """Return the known fields in their order; None if the bytes are not a message, or the payload is not JSON text."""
    records: list[Record] = []
    at = 0
    while at < len(body):
        step = _field(body, at)
        if step is None:
            return None
        number, kind, begin, end = step
        name, expected = FIELDS.get(number, ("", kind))
        # Parsers treat a known field with a wrong wire type as unknown, so each reader could see another envelope.
        if kind != expected:
            return None
        if name:
            # With the position of the whole record: the signature covers the message without it.
            records.append(Record(name, at, end, body[begin:end]))
        at = end
    # As for the JSON form: `json_scan` also refuses a body whose payload has wrong syntax.
    payloads = (record.value for record in records if record.name == "payload")
    return tuple(records) if all(_is_json(value) for value in payloads) else None


def text_in(record: Record) -> str | None:
    """Return the field's text; None if it is empty or not UTF-8."""
    try:
        return from_utf8(record.value) or None
    except DecodeError:
        return None


def status_word(record: Record) -> str | None:
    """Return the JSON spelling of this status; None for an unknown number."""
    found = _varint(record.value, 0)
    return None if found is None else STATUSES.get(found[0])


def cache_meta_json(message: bytes) -> bytes | None:
    """Return a `CacheMeta` as JSON, for traces; None if it cannot be read."""
    meta: dict[str, bool | int | str] = {"cached": False, "cacheable": False, "ttl_seconds": 0, "key": ""}
    at = 0
    while at < len(message):
        step = _field(message, at)
        if step is None:
            return None
        number, kind, begin, at = step
        number_of = _varint(message, begin) if kind == VARINT else None
        # The last of repeated fields counts: the result is for traces only, so an ambiguity does no harm.
        if number in {META_CACHED, META_CACHEABLE} and number_of is not None:
            meta["cached" if number == META_CACHED else "cacheable"] = bool(number_of[0])
        elif number == META_TTL and number_of is not None:
            # The field is signed: a negative number is written as its two's complement.
            meta["ttl_seconds"] = number_of[0] if number_of[0] < 1 << 63 else number_of[0] - (1 << 64)
        elif number == META_KEY and kind == LEN:
            meta["key"] = message[begin:at].decode(errors="replace")
    return msgspec.json.encode(meta)


def _field(body: bytes, at: int) -> tuple[int, int, int, int] | None:
    """Return number, wire type, begin and end of the value of the field whose tag is at `at`."""
    tag = _varint(body, at)
    if tag is None or tag[0] > LARGEST_TAG or tag[0] >> 3 == 0:
        return None
    number, kind, begin = tag[0] >> 3, tag[0] & 7, tag[1]
    if kind in {VARINT, LEN}:
        found = _varint(body, begin)
        if found is None:
            return None
        begin, end = (begin, found[1]) if kind == VARINT else (found[1], found[1] + found[0])
    elif kind in FIXED:
        end = begin + FIXED[kind]
    else:
        # Groups (3, 4) are obsolete; the other numbers are undefined.
        return None
    # A slice beyond the end does not fail: a truncated value would pass as a short one.
    return (number, kind, begin, end) if end <= len(body) else None


def _varint(body: bytes, at: int) -> tuple[int, int] | None:
    """Return a number and its end; None if it is truncated or too long."""
    number = 0
    for index in range(VARINT_BYTES):
        if at + index >= len(body):
            return None
        byte = body[at + index]
        number |= (byte & 0x7F) << (7 * index)
        if byte < MORE_FOLLOWS:
            # Ten bytes hold up to 70 bits; a parser would silently cut the number to 64.
            return (number, at + index + 1) if number < 1 << 64 else None
    return None


def _is_json(text: bytes) -> bool:
    """Return whether the bytes are empty or JSON in UTF-8; the text is scanned, no value is built."""
    try:
        from_utf8(text)
        return not text or from_json(text, msgspec.Raw) is not None
    except DecodeError:
        return False
