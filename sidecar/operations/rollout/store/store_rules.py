"""Decisions that every database of rollouts makes in the same way; `ports.py` has the rules."""

from datetime import timedelta
from typing import Final

from sidecar.core.errors import RequestIdReused, RevisionConflict
from sidecar.operations.rollout.store.ports import RolloutWrite, StoredAnswer

ALIVE_FOR: Final = timedelta(seconds=10)
"""A replica that has not reported its version for this time counts as dead; it reports every second."""
LISTED_FOR: Final = timedelta(minutes=5)
"""A replica that was silent for longer is no longer listed."""


def check_whole(change: RolloutWrite) -> None:
    """Raise `ValueError` if a write contradicts itself, which is a defect of its caller."""
    written = change.rollout
    if written is not None and (written.slot, written.revision) != (change.slot, change.expected_revision + 1):
        raise ValueError(
            f"the rollout of {written.slot!r} with revision {written.revision} is no next one of"
            f" {change.slot!r} with revision {change.expected_revision}"
        )


def existing_write(kept: StoredAnswer | None, answer: StoredAnswer | None) -> bool:
    """Return whether a write repeats a stored one whose reply was lost; then nothing must be written.

    Args:
        kept: the answer stored under the same `request_id`.
        answer: the answer of the write.

    Raises:
        RequestIdReused: the id was used for other contents, or by another actor.
        RevisionConflict: another replica has answered the same request differently.
    """
    if kept is None or answer is None:
        return False
    refuse_other_request(kept, answer.fingerprint, answer.asker)
    # Two replicas can take the same request at once. The first write counts; the caller of the second one must read
    # that answer, and must not get its own.
    if (kept.kind, kept.answer_json) != (answer.kind, answer.answer_json):
        raise RevisionConflict("another sidecar has just answered this request; ask again for its answer")
    return True


def refuse_other_revision(what: str, expected: int, stored: int) -> None:
    """Raise `RevisionConflict` unless the writer has read the stored revision.

    Args:
        what: the object, for the message: `the rollout of product_search`.
        expected: the revision that the writer has read; 0: there was none.
        stored: the stored revision; 0: there is none.
    """
    # Also if the writer expects a higher revision: a record that was restored from a backup has lower ones, and a write
    # based on lost state must not pass.
    if expected != stored:
        raise RevisionConflict(
            f"{what} has revision {stored}, not {expected}: another change came first; read it again",
            metadata={"revision": str(stored)},
        )


def refuse_other_request(kept: StoredAnswer, fingerprint: str, asker: str) -> None:
    """Raise `RequestIdReused` unless a request equals the answered one, including its requester.

    Args:
        kept: the answer stored under the request's id.
        fingerprint: of the request.
        asker: the requester, in the form of a stored answer.
    """
    # Compared first: another operator must not learn whether the request is the same.
    if kept.asker != asker:
        what = "request_id was used by another operator, or under another key; take a new one"
    elif kept.fingerprint != fingerprint:
        what = "request_id was used for another request"
    else:
        return
    raise RequestIdReused(what, metadata={"at": kept.at.isoformat()})
