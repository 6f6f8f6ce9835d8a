"""The members of an envelope in either form, each read only when a check needs it.

An envelope is the answer of a data service: a signed header about user and type, and a payload. `release` runs the
checks and reads the members from here.
"""

from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from sidecar.core.envelopes.forms import EnvelopeEncoding
from sidecar.core.envelopes.json_scan import Members, has_duplicates, only, scan, text_of
from sidecar.core.envelopes.proto_scan import Record, cache_meta_json, records_of, status_word, text_in


class EnvelopeFields(Protocol):
    """An envelope whose members are known by name; their values are not read yet."""

    @property
    def ambiguous(self) -> bool:
        """Whether a member occurs twice."""

    def has(self, name: str) -> bool:
        """Return whether a member of that name occurs, with any value and any number of times."""

    def text(self, name: str) -> str | None:
        """Return the text of a member; None if it does not occur exactly once, or is not a text."""

    def status(self) -> str | None:
        """Return the status in the spelling of the JSON form."""

    def payload(self) -> msgspec.Raw | None:
        """Return the payload's JSON text."""

    def cache_meta(self) -> msgspec.Raw | None:
        """Return `cache_meta` as JSON text."""

    def signed_part(self) -> bytes | None:
        """Return the bytes that the signature covers; None if they cannot be determined."""


@dataclass(frozen=True, slots=True)
class JsonFields:
    """An envelope as one JSON object."""

    body: bytes = field(repr=False)
    members: Members = field(repr=False)

    @property
    def ambiguous(self) -> bool:
        """Whether two members have the same name."""
        return has_duplicates(self.members)

    def has(self, name: str) -> bool:
        """Return whether the member occurs."""
        return any(each == name for each, _ in self.members)

    def text(self, name: str) -> str | None:
        """Return a member that is a string."""
        return text_of(only(self.members, name))

    def status(self) -> str | None:
        """Return the member `status`."""
        return self.text("status")

    def payload(self) -> msgspec.Raw | None:
        """Return the member `payload`, unparsed."""
        return only(self.members, "payload")

    def cache_meta(self) -> msgspec.Raw | None:
        """Return the member `cache_meta`, unparsed."""
        return only(self.members, "cache_meta")

    def signed_part(self) -> bytes | None:
        """Return the body without the text between the quotes of the signature; every other byte is unchanged."""
        written, text = only(self.members, "signature"), self.text("signature")
        # Only the plain spelling: with escapes, one signature could be written in several ways.
        if not text or written is None or bytes(written) != b'"' + text.encode() + b'"':
            return None
        # Cut out of the bytes as received, because parsing and writing them again could change what was signed. If the
        # same text occurs twice, it is unknown which of them is the signature.
        return self.body.replace(bytes(written), b'""') if self.body.count(bytes(written)) == 1 else None


@dataclass(frozen=True, slots=True)
class ProtoFields:
    """An envelope as a serialised message."""

    body: bytes = field(repr=False)
    records: tuple[Record, ...] = field(repr=False)

    @property
    def ambiguous(self) -> bool:
        """Whether a field that is not repeated occurs twice; a parser would silently keep the last one."""
        # Known fields only: unknown ones are skipped by every reader, so a repetition of theirs misleads none.
        return len({record.name for record in self.records}) != len(self.records)

    def has(self, name: str) -> bool:
        """Return whether the field occurs; protobuf does not write empty texts."""
        return any(record.name == name for record in self.records)

    def text(self, name: str) -> str | None:
        """Return a string field; protobuf does not distinguish an empty string from a missing one."""
        record = self._only(name)
        return None if record is None else text_in(record)

    def status(self) -> str | None:
        """Return the name of the enum's number."""
        record = self._only("status")
        return None if record is None else status_word(record)

    def payload(self) -> msgspec.Raw | None:
        """Return `payload_json`, unparsed."""
        record = self._only("payload")
        return None if record is None or not record.value else msgspec.Raw(record.value)

    def cache_meta(self) -> msgspec.Raw | None:
        """Return the message as JSON."""
        record = self._only("cache_meta")
        text = None if record is None else cache_meta_json(record.value)
        return None if text is None else msgspec.Raw(text)

    def signed_part(self) -> bytes | None:
        """Return the message without its field `signature`."""
        record = self._only("signature")
        return None if record is None else self.body[: record.begin] + self.body[record.end :]

    def _only(self, name: str) -> Record | None:
        found = [record for record in self.records if record.name == name]
        return found[0] if len(found) == 1 else None


def fields_of(body: bytes, form: EnvelopeEncoding) -> EnvelopeFields | None:
    """Return the members of an envelope, or None if the bytes are not exactly one envelope of that form."""
    if form is EnvelopeEncoding.PROTOBUF:
        records = records_of(body)
        return None if records is None else ProtoFields(body, records)
    members = scan(body)
    return None if members is None else JsonFields(body, members)
