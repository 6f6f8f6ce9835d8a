"""Decisions that every database of rollouts makes in the same way; `ports.py` has the rules."""

from datetime import timedelta
from typing import Final

from sidecar.core.errors import RequestIdReused, RevisionConflict
from sidecar.operations.rollout.store.ports import RolloutWrite, StoredAnswer

ALIVE_FOR: Final = timedelta(seconds=10)
"""A replica that has not said for so long which version it shows counts as dead; it says so every second."""
LISTED_FOR: Final = timedelta(minutes=5)
"""A replica that was silent for longer is forgotten."""


def check_whole(change: RolloutWrite) -> None:
    """Raise `ValueError` if a write contradicts itself, which is a defect of its caller."""
    written = change.rollout
    if written is not None and (written.slot, written.revision) != (change.slot, change.expected_revision + 1):
        raise ValueError(
            f"the rollout of {written.slot!r} with revision {written.revision} is no next one of"
            f" {change.slot!r} with revision {change.expected_revision}"
        )


def existing_write(kept: StoredAnswer | None, answer: StoredAnswer | None) -> bool:
    """Return whether a write repeats a stored one whose reply was lost; then nothing has to be written.

    Args:
        kept: the answer stored under the same `request_id`.
        answer: of the write.

    Raises:
        RequestIdReused: the id was used for other contents, or by another actor.
        RevisionConflict: another replica has answered the same request differently.
    """
    if kept is None or answer is None:
        return False
    refuse_other_request(kept, answer.fingerprint, answer.asker)
    if (kept.kind, kept.answer_json) != (answer.kind, answer.answer_json):
        raise RevisionConflict("another sidecar has just answered this request; ask again for its answer")
    return True


def refuse_other_revision(what: str, expected: int, stored: int) -> None:
    """Raise `RevisionConflict` unless a write is about what is stored.

    Args:
        what: is written, for the message: `the rollout of product_search`.
        expected: revision that the writer has read; 0: nothing was there.
        stored: revision that is there now; 0: nothing is.
    """
    if expected != stored:
        raise RevisionConflict(
            f"{what} has revision {stored}, not {expected}: another change came first; read it again",
            metadata={"revision": str(stored)},
        )


def refuse_other_request(kept: StoredAnswer, fingerprint: str, asker: str) -> None:
    """Raise `RequestIdReused` unless this is the request that was answered, asked by the same operator.

    Args:
        kept: under the request's id.
        fingerprint: of the request.
        asker: who asks, as kept in an answer.
    """
    if kept.asker != asker:
        what = "request_id was used by another operator, or under another key; take a new one"
    elif kept.fingerprint != fingerprint:
        what = "request_id was used for another request"
    else:
        return
    raise RequestIdReused(what, metadata={"at": kept.at.isoformat()})
