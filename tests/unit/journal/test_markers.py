"""What is gone from the journal is stated, and signed."""

from datetime import UTC, date, datetime, timedelta, timezone
from hashlib import sha256

import msgspec
import pytest

from sidecar.core.identifiers import InstanceId
from sidecar.core.journal.chain import rooted
from sidecar.core.journal.markers import FactsRemoved, TextsErased, root_over, signed

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
REMOVED = FactsRemoved(InstanceId("one"), date(2025, 1, 1), 7, "ab" * 32, AT, AT, "key-1")
ERASED = TextsErased("erasure-1", date(2025, 1, 1), 3, "cd" * 32, AT, "key-1")


class Key:
    """A key that shows what it was given."""

    key_id = "key-2"

    def sign(self, payload: bytes) -> str:
        """Return the payload."""
        return payload.hex()


@pytest.mark.parametrize("marker", [REMOVED, ERASED])
def test_a_signature_covers_every_other_field(marker: FactsRemoved | TextsErased) -> None:
    """A marker with another value anywhere has other bytes to sign; another key signs under its own id."""
    made = signed(marker, Key())
    assert (made.key_id, made.signature) == ("key-2", made.payload().hex())
    others = {
        str: "another",
        int: 99,
        date: date(2025, 1, 2),
        datetime: AT + timedelta(microseconds=1),
    }
    for name in marker.__struct_fields__[:-1]:
        value = getattr(marker, name)
        other = msgspec.structs.replace(marker, **{name: others[type(value)]})
        assert other.payload() != marker.payload(), name
    assert signed(made, Key()) == made


def test_the_zone_of_a_time_plays_no_part() -> None:
    """A database may give a time in the zone of its session."""
    elsewhere = AT.astimezone(timezone(timedelta(hours=5)))
    assert msgspec.structs.replace(ERASED, made_at=elsewhere).payload() == ERASED.payload()
    assert REMOVED.payload().startswith(b"removed\x1f")
    assert ERASED.payload().startswith(b"erased\x1f")


def test_a_root_is_over_links_in_their_order() -> None:
    """As a database computes it: SHA-256 over plain bytes."""
    one, two = b"1" * 32, b"2" * 32
    first = sha256(b"root\x1f" + one).digest()
    assert rooted(b"", one) == first
    assert root_over([one, two]) == sha256(b"root\x1f" + first + two).hexdigest()
    assert root_over([two, one]) != root_over([one, two])
    assert root_over([]) == ""
