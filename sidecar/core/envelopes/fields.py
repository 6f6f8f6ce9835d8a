"""The members of an envelope in either form, each read only when a check needs it."""

from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from sidecar.core.envelopes.forms import EnvelopeEncoding
from sidecar.core.envelopes.json_scan import Members, has_duplicates, only, scan, text_of
from sidecar.core.envelopes.proto_scan import Record, cache_meta_json, records_of, status_word, text_in


class EnvelopeFields(Protocol):
    """An envelope whose members are known by name and not yet read."""

    @property
    def ambiguous(self) -> bool:
        """Whether a member stands there twice."""

    def has(self, name: str) -> bool:
        """Return whether a member of that name stands there, whatever it holds and however often."""

    def text(self, name: str) -> str | None:
        """Return the text of a member; None if there is not exactly one, or it is no text."""

    def status(self) -> str | None:
        """Return the status as the JSON form writes it."""

    def payload(self) -> msgspec.Raw | None:
        """Return the payload's JSON text."""

    def cache_meta(self) -> msgspec.Raw | None:
        """Return `cache_meta` as JSON text."""

    def signed_part(self) -> bytes | None:
        """Return the bytes that a signature is over; None if it cannot be told which they are."""


@dataclass(frozen=True, slots=True)
class JsonFields:
    """An envelope as one JSON object."""

    body: bytes = field(repr=False)
    members: Members = field(repr=False)

    @property
    def ambiguous(self) -> bool:
        """Whether two members have one name."""
        return has_duplicates(self.members)

    def has(self, name: str) -> bool:
        """Return whether there is such a member."""
        return any(each == name for each, _ in self.members)

    def text(self, name: str) -> str | None:
        """Return a member that is a string."""
        return text_of(only(self.members, name))

    def status(self) -> str | None:
        """Return the member `status`."""
        return self.text("status")

    def payload(self) -> msgspec.Raw | None:
        """Return the member `payload`, unopened."""
        return only(self.members, "payload")

    def cache_meta(self) -> msgspec.Raw | None:
        """Return the member `cache_meta`, unopened."""
        return only(self.members, "cache_meta")

    def signed_part(self) -> bytes | None:
        """Return the body with the signature's text taken out from between its quotes; nothing else is rewritten."""
        written, text = only(self.members, "signature"), self.text("signature")
        if not text or written is None or bytes(written) != b'"' + text.encode() + b'"':
            return None
        return self.body.replace(bytes(written), b'""') if self.body.count(bytes(written)) == 1 else None


@dataclass(frozen=True, slots=True)
class ProtoFields:
    """An envelope as a serialised message."""

    body: bytes = field(repr=False)
    records: tuple[Record, ...] = field(repr=False)

    @property
    def ambiguous(self) -> bool:
        """Whether a field that is not repeated stands there twice; a parser would keep the last without a word."""
        return len({record.name for record in self.records}) != len(self.records)

    def has(self, name: str) -> bool:
        """Return whether there is such a field; protobuf writes an empty text as no field."""
        return any(record.name == name for record in self.records)

    def text(self, name: str) -> str | None:
        """Return a field that is a string; protobuf does not tell an empty one from none."""
        record = self._only(name)
        return None if record is None else text_in(record)

    def status(self) -> str | None:
        """Return the word for the enum's number."""
        record = self._only("status")
        return None if record is None else status_word(record)

    def payload(self) -> msgspec.Raw | None:
        """Return `payload_json`, unopened."""
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
    """Return the outside of an envelope, or None if the bytes are not exactly one envelope of that form."""
    if form is EnvelopeEncoding.PROTOBUF:
        records = records_of(body)
        return None if records is None else ProtoFields(body, records)
    members = scan(body)
    return None if members is None else JsonFields(body, members)
