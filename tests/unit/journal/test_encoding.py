"""Facts as bytes: what every version reads, what is refused, and how many there are."""

from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from sidecar.core.identifiers import DispatchId, InstanceId, TurnId
from sidecar.core.journal.attempt_frames import packed, unpacked
from sidecar.core.journal.chain import texts_digest
from sidecar.core.journal.encoding import BODIES, VERSION, UnreadableFact, draft_of, erased, size_of
from sidecar.core.journal.entries import Draft
from sidecar.core.journal.facts import Body, CallsSettled, ChildNoted, DispatchTaken, Progress
from sidecar.core.journal.heads import TurnHead, links_of
from sidecar.core.journal.marks import Mark, What
from sidecar.core.journal.refusals import kind_of
from sidecar.core.journal.rules import Accepted, decide
from sidecar.core.journal.texts import OutcomeTexts, Texts
from sidecar.core.replaying.frames import FinishedFrame, Narration, RecordedAttempt, Status
from tests.support.journal_drafts import (
    a_draft,
    a_request,
    a_settlement,
    an_opening,
    moment,
    progress,
    salted_fact,
    some_claims,
    values_of,
)
from tests.unit.journal.lives import Life

GOLDEN = Path("tests/corpus/journal/version-1.txt")
SALT = b"s" * 16


def _one_of_each_kind() -> list[Any]:
    """Return the first fact of each kind that occurs in turns that are the same each time."""
    found: dict[str, Any] = {}
    for asides in (False, True):
        for seed in range(50):
            for fact in Life(seed, asides=asides).whole():
                found.setdefault(kind_of(fact.draft.body), fact)
    return list(found.values())


def test_what_version_1_wrote_is_read() -> None:
    """A file that is never written anew once a database stores facts: one of each kind, body, texts and link in hex.

    If this fails because a type has changed, the change needs a new format version; see `docs/journal.md`.
    """
    lines = [line.split() for line in GOLDEN.read_text(encoding="ascii").splitlines()]
    facts = _one_of_each_kind()
    assert (VERSION, {type(fact.draft.body) for fact in facts}) == (1, set(get_args(Body)))
    assert [[fact.stored.body.hex(), fact.stored.texts.hex(), fact.link.hex()] for fact in facts] == lines
    for fact, (body, texts, _) in zip(facts, lines, strict=True):
        stored = msgspec.structs.replace(fact.stored, body=bytes.fromhex(body), texts=bytes.fromhex(texts))
        assert draft_of(stored) == fact.draft


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ((VERSION + 1, [9, "d", 1]), "of format version 2; this sidecar reads up to 1"),
        ((VERSION, [90, "d", 1]), "90"),
        ((VERSION, [9, "d", 1, "more"]), "at most length"),
        ((VERSION, [9, "d"]), "at least length"),
        ((VERSION, [4, "d", [[0, [[99, 0, 0]], 0]]]), "99"),
        ((VERSION, [9, "d", 1], 3), "at most length"),
        ("nothing", "array"),
    ],
)
def test_what_is_not_known_is_refused(written: Any, complaint: str) -> None:
    """A newer version, another kind, a field more or less, another event, something else: never skipped."""
    fact = salted_fact(a_draft("turn-1", "one", 0, DispatchTaken(DispatchId("d"), 1), Texts()), SALT, ())
    stored = msgspec.structs.replace(fact.stored, body=msgspec.msgpack.encode(written))
    with pytest.raises(UnreadableFact, match=complaint):
        draft_of(stored)


def test_bytes_that_are_no_fact_are_refused() -> None:
    """Cut off, empty, not UTF-8, in the body or in the texts."""
    fact = salted_fact(a_draft("turn-1", "one", 0, DispatchTaken(DispatchId("dispatch"), 1), Texts()), SALT, ())
    for name in ("body", "texts"):
        whole = getattr(fact.stored, name)
        for raw in (b"", whole[:-1], whole[:4] + b"\xff" + whole[5:]):
            with pytest.raises(UnreadableFact):
                draft_of(msgspec.structs.replace(fact.stored, **{name: raw}))


class TakenForAWhile(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """What a second format version could look like."""

    dispatch_id: DispatchId
    epoch: int
    why: str


def test_a_second_version_reads_both_and_the_first_one_refuses_it() -> None:
    """An upgrade is one more reader; a downgrade is refused by name."""
    decode = msgspec.msgpack.Decoder(TakenForAWhile).decode
    readers: dict[int, Any] = {**BODIES, 2: lambda raw: DispatchTaken(decode(raw).dispatch_id, decode(raw).epoch)}
    body = DispatchTaken(DispatchId("d"), 1)
    first = salted_fact(a_draft("turn-1", "one", 0, body, Texts()), SALT, ()).stored
    later = TakenForAWhile(DispatchId("d"), 1, "the owner is dead")
    second = msgspec.structs.replace(first, body=msgspec.msgpack.encode((2, later)))
    assert draft_of(first, readers).body == body
    assert draft_of(second, readers).body == body
    with pytest.raises(UnreadableFact, match="version 2"):
        draft_of(second)


def test_erasing_twice_is_erasing_once() -> None:
    """What was erased keeps the digest of its texts, and nothing else of them."""
    body, texts = an_opening(a_request(), some_claims())
    stored = salted_fact(a_draft("turn-1", "one", 0, body, texts), SALT, ()).stored
    bare = erased(stored)
    assert erased(bare) == bare
    assert (bare.texts, bare.salt) == (None, None)
    assert stored.texts is not None
    assert bare.texts_digest == texts_digest(SALT, stored.texts)
    assert texts_digest(b"t" * 16, stored.texts) != bare.texts_digest
    assert draft_of(bare).texts == Texts()


# --- frames


PIECES = (Status(1, "searching", {}), Narration(5, "It is "), Narration(9, "new."), FinishedFrame(12, False))


@pytest.mark.parametrize("narration", ["It is new.", "It is", "", "It is new. "])
@pytest.mark.parametrize("frames", [PIECES, PIECES[:1], ()])
def test_frames_come_back_whole(frames: Any, narration: str) -> None:
    """Whether or not the outcome says what the runner sent."""
    attempt = RecordedAttempt(began=7, frames=frames, pause=3)
    assert unpacked(packed(attempt, narration), narration) == attempt


def test_frames_do_not_repeat_the_answer() -> None:
    """The narration is not in them if the outcome has it."""
    attempt = RecordedAttempt(frames=PIECES)
    assert b"new." not in packed(attempt, "It is new.")
    assert b"new." in packed(attempt, "Another answer.")


def test_frames_of_another_version_are_refused() -> None:
    """As facts are."""
    with pytest.raises(UnreadableFact, match="version 2"):
        unpacked(msgspec.msgpack.encode((2, {}, None)), "")
    with pytest.raises(UnreadableFact):
        unpacked(b"\xc1", "")


# --- sizes


ANSWER = "word " * 205
"""A kilobyte, as in the bench."""


def _dispatch_bytes(children: int) -> int:
    """Return the bytes of a first dispatch that calls eight bound sub-agents, or one of them: two facts, and frames."""
    slots = [f"instant-{number}" for number in range(1, 9)]
    turn, by = TurnId("turn-0123456789abcdef0123456789abcdef"), InstanceId("instance-0123456789abcdef012345")
    claims = some_claims(turn, slots)
    request = a_request("dispatch-0123456789abcdef0123456789abcdef", slots[:children])
    body, texts = an_opening(request, claims, places=range(children))
    starts = (msgspec.structs.replace(each, child_id=f"child-{each.step:022}") for each in body.children)
    body = msgspec.structs.replace(body, children=tuple(starts))
    opened = salted_fact(Draft(turn, by, moment(), body, texts), SALT, ())
    after = decide(TurnHead(), [opened], ())
    assert isinstance(after, Accepted)
    told = tuple(progress(step, What.ATTEMPT, What.WAITING, attempts=1) for step in range(children))
    settling = CallsSettled(
        request.dispatch_id, tuple(a_settlement(place, took=21_234) for place in range(children)), told
    )
    said = Texts(
        outcomes=(OutcomeTexts(ANSWER),) * children,
        values=tuple(each for step in range(children) for each in ((1, f"attempt-{step:022}"), ())),
    )
    settled = salted_fact(Draft(turn, by, moment(20_000), settling, said), SALT, links_of(after.head, settling))
    assert isinstance(decide(after.head, [settled], ()), Accepted)
    frames = (Status(101, "reading_request", {}), Status(153, "writing_answer", {}), Narration(173, ANSWER))
    attempt = RecordedAttempt(began=760, frames=(*frames, FinishedFrame(180, False)))
    ids = len(turn) + len(by)
    rows = 2 * ids + children * (ids + 28)  # of facts and of frames: turn, and sidecar or attempt
    return size_of(opened.stored) + size_of(settled.stored) + children * len(packed(attempt, ANSWER)) + rows


def test_a_dispatch_takes_few_bytes() -> None:
    """Everything that two facts and the frames of a dispatch store, ids of their rows included; 14.8 KB before."""
    one, eight = _dispatch_bytes(1), _dispatch_bytes(8)
    assert one <= 6 * 1024
    assert eight <= 24 * 1024
    assert (one, eight) == (2_380, 12_728)  # as `docs/journal.md` says


@pytest.mark.parametrize(
    "text", ["user-1", "They like boots", "what is new in the shop?", "ask_shop", "call-0", "shop-child"]
)
def test_nothing_is_stored_twice(text: str) -> None:
    """Of a first dispatch and its settling: each id and each text once, in bodies and texts together.

    The id of the turn is a column of each fact.
    """
    request = a_request("dispatch-1", ("shop",))
    body, texts = an_opening(request, some_claims("turn-1", ("shop",)))
    starts = (msgspec.structs.replace(each, child_id="shop-child") for each in body.children)
    opened = salted_fact(
        a_draft("turn-1", "one", 0, msgspec.structs.replace(body, children=tuple(starts)), texts), SALT, ()
    )
    settling = CallsSettled(request.dispatch_id, (a_settlement(0),), (progress(0, What.WAITING, attempts=1),))
    said = Texts(outcomes=(OutcomeTexts("found it"),), values=values_of(What.WAITING))
    settled = salted_fact(a_draft("turn-1", "one", 1, settling, said), SALT, ())
    raw = b"".join(part for each in (opened, settled) for part in (each.stored.body, each.stored.texts or b""))
    assert raw.count(text.encode()) == 1
    assert b"turn-1" not in raw


def test_a_note_is_small() -> None:
    """An event without details takes a few bytes beside the names of dispatch and kind."""
    one = ChildNoted(DispatchId("d"), (Progress(0, (Mark(What.TAKEN_OVER, 0),)),))
    two = ChildNoted(DispatchId("d"), (Progress(0, (Mark(What.TAKEN_OVER, 0), Mark(What.TAKEN_OVER, 100))),))
    sizes = [len(msgspec.msgpack.encode(each)) for each in (one, two)]
    assert sizes[1] - sizes[0] == 4
