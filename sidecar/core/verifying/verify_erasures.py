"""Verifies that every missing text is covered by a signed marker of an erasure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date

from sidecar.core.identifiers import TurnId
from sidecar.core.journal.chain import NOTHING, rooted
from sidecar.core.journal.entries import Stored
from sidecar.core.journal.markers import TextsErased
from sidecar.core.signatures import SignatureVerifier, Verification
from sidecar.core.verifying.checkpoint_lines import CheckpointClaims
from sidecar.core.verifying.findings import Finding, FindingKind


class ErasedTexts:
    """Collects the facts without texts in turns of one day, and compares them with the markers of erasures.

    Args:
        day: the day on which the turns began.
    """

    def __init__(self, day: date) -> None:
        self._day = day
        self._under: dict[str, tuple[int, bytes]] = {}
        self._first: dict[str, tuple[TurnId, int]] = {}

    def take(self, turn_id: TurnId, facts: Sequence[Stored]) -> None:
        """Add the next turn. Turns must be added in the order of their ids, in which a marker's root is computed."""
        for place, fact in enumerate(facts, 1):
            if fact.texts is None:
                # Texts that are missing without the id of a marker were not removed by an erasure.
                under = fact.erased_under or ""
                number, root = self._under.get(under, (0, NOTHING))
                self._under[under] = number + 1, rooted(root, fact.link)
                # One place is enough for a finding; a removal may affect thousands of facts.
                self._first.setdefault(under, (turn_id, place))

    def findings(self, markers: Mapping[str, TextsErased]) -> Iterator[Finding]:
        """Yield a problem for missing texts without a marker, and for each marker that does not fit its facts.

        Args:
            markers: the markers of this day with a valid signature, by id.
        """
        for under, (number, _) in self._under.items():
            if under not in markers:
                turn_id, place = self._first[under]
                which = f"the texts of fact {place} of turn {turn_id}"
                which += f", and of {number - 1} more of that day," if number > 1 else ""
                text = f"{which} were removed, and no marker of an erasure covers them"
                yield Finding(FindingKind.TEXTS_REMOVED, text, day=self._day, turn_id=turn_id, sequence=place)
        for marker_id, marker in markers.items():
            there, root = self._under.get(marker_id, (0, NOTHING))
            # Number and root are compared, so that the marker cannot cover other facts in place of its own.
            if (there, root.hex()) != (marker.facts, marker.root):
                what = f"{there} are there" if there != marker.facts else "others are there"
                text = f"{_named(marker)} covers {marker.facts} facts, and {what}"
                yield Finding(FindingKind.MARKER_MISFIT, text, day=self._day)


def erasure_findings(
    markers: Iterable[TextsErased], judge: SignatureVerifier, claims: CheckpointClaims
) -> Iterator[Finding]:
    """Yield a problem for each marker with an invalid signature, or without a line in the second place."""
    for marker in markers:
        judgement = erasure_judgement(marker, judge)
        if judgement is not Verification.FITS:
            why = "its signature does not fit" if judgement is Verification.DOES_NOT_FIT else "it is by an unknown key"
            text = f"{_named(marker)} was forged or altered: {why}"
            yield Finding(FindingKind.MARKER_FORGED, text, day=marker.partition)
        # An owner of the key could sign a marker at any time. Its line must be in the second place, written before the
        # erasure.
        elif claims.erased.get(marker.marker_id) != (marker.partition, marker.facts, marker.root):
            text = f"{_named(marker)} is not in the checkpoint files"
            yield Finding(FindingKind.MARKER_MISFIT, text, day=marker.partition)


def erasure_judgement(marker: TextsErased, judge: SignatureVerifier) -> Verification:
    """Verify the signature of a marker."""
    return judge.judge(marker.key_id, marker.payload(), marker.signature)


def _named(marker: TextsErased) -> str:
    return f"the marker {marker.marker_id} of an erasure in turns of {marker.partition}"
