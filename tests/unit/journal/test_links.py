"""What facts link to, and what a link covers."""

from hashlib import sha256

import msgspec

from sidecar.core.journal.chain import digest_of_texts, link_of, texts_digest
from sidecar.core.journal.encoding import erased
from sidecar.core.journal.facts import CallsSettled, DelegationSettled
from sidecar.core.journal.heads import links_of, named_steps
from sidecar.core.journal.marks import What
from sidecar.core.journal.refusals import Reason
from tests.support.journal_drafts import a_settlement, progress
from tests.unit.journal.one_turn import CHILD_0, D1, D2, Turn, later, opened

LINKS = (b"before",)


def test_the_digest_of_texts_is_there_before_and_after_an_erasure() -> None:
    """A fact without texts has an empty one, whatever else is missing."""
    stored = Turn().facts[0].stored
    assert stored.salt is not None
    assert stored.texts is not None
    assert digest_of_texts(stored) == texts_digest(stored.salt, stored.texts)
    assert digest_of_texts(erased(stored)) == digest_of_texts(stored)
    assert link_of(erased(stored), LINKS) == link_of(stored, LINKS)
    for missing in ({"texts": None}, {"salt": None}, {"texts": None, "salt": None}):
        left = msgspec.structs.replace(stored, texts_digest=None, **missing)
        assert digest_of_texts(left) == b""
        covered = (left.turn_id, left.by, left.at, left.body, b"", LINKS)
        assert link_of(left, LINKS) == sha256(b"fact\x1f" + msgspec.msgpack.encode(covered)).digest()
        kept = msgspec.structs.replace(left, texts_digest=b"digest")
        assert digest_of_texts(kept) == b"digest"
        assert link_of(kept, LINKS) != link_of(left, LINKS)


def test_a_child_that_a_fact_concerns_twice_is_linked_to_once() -> None:
    """Both revisions of its outcome in one fact."""
    turn = Turn()
    body = CallsSettled(D1, (a_settlement(0), a_settlement(0, revision=1)))
    assert named_steps(turn.head, body) == [0]
    assert links_of(turn.head, body) == (turn.head.children[0].link,)


def test_the_step_behind_the_last_call_of_a_dispatch_is_not_its_own() -> None:
    """Nor is the one before the first."""
    turn = Turn()
    turn.takes(opened(D2, 3))
    assert [turn.head.dispatches[D2].place_of(step) for step in (2, 3, 4, 5)] == [None, 0, 1, None]


def test_the_first_of_several_reserved_steps_is_named() -> None:
    """A dispatch whose calls would take the last two steps of another one."""
    turn = Turn()
    turn.refuses(opened(D2, 1), Reason.STEP_RESERVED)
    assert turn.verdict.about == "step 1"


def test_two_children_of_one_fact_need_ids_of_their_own() -> None:
    """As if one had been there before."""
    turn = Turn()
    twice = later(7, parent=0, name="same")
    also = later(8, parent=0, name="same")
    turn.refuses(msgspec.structs.replace(twice, children=twice.children + also.children), Reason.ON_RECORD)
    assert turn.verdict.about == also.children[0].child_id
    assert turn.verdict.about != CHILD_0


def test_a_delegation_is_settled_in_its_own_dispatch() -> None:
    """A child that another dispatch delegated is none of this one, nor is one that was not delegated."""
    turn = Turn()
    turn.takes(opened(D2, 3))
    turn.takes(later(7, parent=0, name="below"))
    turn.takes(later(8, parent=0, name="beside"))
    for step in (7, 0):
        turn.refuses(DelegationSettled(D2, (progress(step, What.FAILED, What.CLOSED),)), Reason.CHILD_MISSING)
