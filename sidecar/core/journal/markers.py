"""Signed statements about data that was removed from the journal. They are kept permanently, outside its partitions."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TypeVar

import msgspec

from sidecar.core.identifiers import InstanceId, TurnId
from sidecar.core.journal.appends import RootState
from sidecar.core.journal.chain import NOTHING, digest_of_texts, rooted
from sidecar.core.journal.entries import Stored
from sidecar.core.signatures import Signer


class FactsRemoved(msgspec.Struct, frozen=True):
    """Retention removed the facts of one partition that one instance appended: all turns that were bound on one day.

    Attributes:
        instance: the sidecar that appended the facts.
        partition: the day.
        number: the number of the instance's facts in the partition.
        root: the instance's running root over these facts, hexadecimal.
        ended_before: every turn of the partition had ended before this time.
        made_at: the time of the removal.
        key_id: the id of the key that signed the marker.
        signature: the signature over `payload`, hexadecimal.
    """

    instance: InstanceId
    partition: date
    number: int
    root: str
    ended_before: datetime
    made_at: datetime
    key_id: str = ""
    signature: str = ""

    def payload(self) -> bytes:
        """Return what the signature covers: every other field."""
        return _payload(b"removed", self)

    @property
    def state(self) -> RootState:
        """The state of the running root."""
        return RootState(self.instance, self.partition, self.number, self.root)


class TextsErased(msgspec.Struct, frozen=True):
    """The texts of one user's facts in one partition were erased.

    The marker names no user, neither in clear nor as a hash: ids are short, so a hash could be guessed.

    Attributes:
        marker_id: a random id, which is stored with each fact without texts.
        partition: the day on which the turns of the facts began.
        facts: the number of facts.
        root: a hash over the links of the facts, in the order of turn and version, hexadecimal.
        made_at: the time of the erasure.
        key_id: the id of the key that signed the marker.
        signature: the signature over `payload`, hexadecimal.
    """

    marker_id: str
    partition: date
    facts: int
    root: str
    made_at: datetime
    key_id: str = ""
    signature: str = ""

    def payload(self) -> bytes:
        """Return what the signature covers: every other field."""
        return _payload(b"erased", self)


Marker = TypeVar("Marker", bound=FactsRemoved | TextsErased)


class ErasedFact(msgspec.Struct, frozen=True):
    """A fact whose texts are erased; `texts_digest` replaces them."""

    turn_id: TurnId
    version: int
    link: bytes
    texts_digest: bytes


class Erasure(msgspec.Struct, frozen=True):
    """The texts to erase in one transaction.

    Attributes:
        facts: in the order of turn and version.
    """

    marker: TextsErased
    facts: tuple[ErasedFact, ...]

    @property
    def turns(self) -> tuple[TurnId, ...]:
        """The turns of these facts."""
        return tuple(dict.fromkeys(fact.turn_id for fact in self.facts))


def erasure_of(
    partition: date, turns: Mapping[TurnId, Sequence[Stored]], marker_id: str, at: datetime, signer: Signer
) -> Erasure | None:
    """Return the erasure of all texts of some turns of one day, with a signed marker; None if there are no texts.

    Args:
        partition: the day.
        turns: all facts of each turn, in order.
        marker_id: a random id.
        at: the time of the erasure.
        signer: signs the marker.
    """
    facts = tuple(
        # The digest replaces the texts in the computation of the link, which can so be verified after the erasure.
        ErasedFact(turn_id, version, stored.link, digest_of_texts(stored))
        # In a fixed order: the root is over the links in this order, and the verifier computes it again.
        for turn_id, of_turn in sorted(turns.items())
        for version, stored in enumerate(of_turn, 1)
        if stored.texts is not None
    )
    # A repeated erasure finds no texts; without this check it would add a marker about no fact.
    if not facts:
        return None
    marker = TextsErased(marker_id, partition, len(facts), root_over(fact.link for fact in facts), at)
    return Erasure(signed(marker, signer), facts)


def root_over(links: Iterable[bytes]) -> str:
    """Return the root over some facts; 64 hex digits, or an empty text without facts."""
    root = NOTHING
    for link in links:
        root = rooted(root, link)
    return root.hex()


def removal_of(state: RootState, ended_before: datetime, made_at: datetime, signer: Signer) -> FactsRemoved:
    """Return the signed marker for removing the facts of a running root."""
    return signed(FactsRemoved(state.instance, state.day, state.number, state.root, ended_before, made_at), signer)


def signed(marker: Marker, signer: Signer) -> Marker:
    """Return a marker with its signature."""
    # First the key id, because the signature covers it: a marker cannot be presented as one of another key.
    keyed = msgspec.structs.replace(marker, key_id=signer.key_id)
    return msgspec.structs.replace(keyed, signature=signer.sign(keyed.payload()))


def _payload(kind: bytes, marker: FactsRemoved | TextsErased) -> bytes:
    """Return the fields without the signature, in order, as JSON, with times in UTC."""
    # In UTC, because a database may return a time in another zone, and the signature must still be valid.
    # `signature` is the last field of both kinds. A field that is added must stand before it, or the signature would
    # cover itself.
    fields = msgspec.structs.astuple(marker)[:-1]
    in_utc = [each.astimezone(UTC) if isinstance(each, datetime) else each for each in fields]
    return kind + b"\x1f" + msgspec.json.encode(in_utc)
