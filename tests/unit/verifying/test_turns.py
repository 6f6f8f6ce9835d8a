"""What is said of the facts of a turn, word for word; and no change of any part of them goes unseen."""

from collections.abc import Callable, Sequence
from datetime import date, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.core.identifiers import EpisodeId, InstanceId, TurnId
from sidecar.core.journal.appends import TurnFacts
from sidecar.core.journal.chain import link_of, texts_digest
from sidecar.core.journal.encoding import VERSION, draft_of, erased
from sidecar.core.journal.entries import Stored
from sidecar.core.journal.facts import CallsSettled, TurnEnded
from sidecar.core.journal.heads import links_of
from sidecar.core.journal.refusals import kind_of
from sidecar.core.journal.turn_state import state_of
from sidecar.core.verifying.findings import Finding, FindingKind
from sidecar.core.verifying.turn_roots import FactsUnderRoots
from sidecar.core.verifying.verify_turn import MOST_LOOKED_AT, first_day, turn_findings
from tests.support.requirement import requirement
from tests.unit.journal.lives import TURN, Life

ID = TurnId(TURN)
K = FindingKind
Facts = list[Stored]
ONE = InstanceId("one")


def a_turn(seed: int = 5) -> Facts:
    """Return the facts of a turn."""
    return [fact.stored for fact in Life(seed).whole()]


def but(stored: Stored, **fields: object) -> Stored:
    """Return a fact with some fields replaced."""
    return msgspec.structs.replace(stored, **fields)


def found(facts: Sequence[Stored], **told: object) -> list[Finding]:
    """Return what is wrong with these facts."""
    return list(turn_findings(ID, TurnFacts(tuple(facts), frozenset(), **told)))  # type: ignore[arg-type]  # of any kind


def one(kind: FindingKind, place: int, text: str) -> list[Finding]:
    """Return one finding about a fact."""
    return [Finding(kind, f"fact {place} of turn {ID} {text}", turn_id=ID, sequence=place)]


WHOLE = a_turn()
NAMES = [kind_of(draft_of(each).body) for each in WHOLE]
ALTERED = "was altered, or what it follows was: its contents and the facts before it do not give its link"


@requirement("SX-38")
@settings(max_examples=100)
@given(st.integers(0, 1_000_000))
def test_a_turn_without_a_mistake_is_whole(seed: int) -> None:
    """Also before its end, and with texts erased, some or all."""
    facts = a_turn(seed)
    assert found(facts) == found(facts[:-1]) == found([erased(each) for each in facts]) == []
    assert found([erased(each) if place % 2 else each for place, each in enumerate(facts)]) == []


@requirement("SX-38")
@settings(max_examples=300)
@given(st.data())
def test_no_change_of_a_fact_goes_unseen(data: st.DataObject) -> None:
    """Any byte of any part of any fact, its time, its sidecar, its turn; a fact left out, but from the end."""
    facts = a_turn(data.draw(st.integers(0, 200)))
    at = data.draw(st.integers(0, len(facts) - 1))
    what = data.draw(st.sampled_from(["body", "texts", "salt", "link", "at", "by", "turn_id", "gone", "exchanged"]))
    if what == "gone":
        if len(facts) == 1:
            return
        del facts[min(at, len(facts) - 2)]
    elif what == "exchanged":
        if len(facts) == 1:
            return
        other = (at + 1) % len(facts)
        facts[at], facts[other] = facts[other], facts[at]
    elif what == "at":
        facts[at] = but(facts[at], at=facts[at].at + timedelta(microseconds=1))
    elif what in {"by", "turn_id"}:
        facts[at] = but(facts[at], **{what: "another"})
    else:
        value = bytearray(getattr(facts[at], what))
        place = data.draw(st.integers(0, len(value) - 1))
        value[place] ^= data.draw(st.integers(1, 255))
        facts[at] = but(facts[at], **{what: bytes(value)})

    assert found(facts), what


@pytest.mark.parametrize(
    ("tamper", "findings"),
    [
        (
            lambda f: [f[0], but(f[1], at=f[0].at), *f[2:]],
            one(K.FACT_ALTERED, 2, f"({NAMES[1]}) {ALTERED}"),
        ),
        (
            lambda f: [f[0], but(f[1], body=b"\x92\x63\x90"), *f[2:]],
            one(
                K.FACT_UNREADABLE,
                2,
                "cannot be read: a fact is of format version 99; this sidecar reads up to 1",
            ),
        ),
        (
            lambda f: [f[1], f[0], *f[2:]],
            one(K.FACTS_REORDERED, 1, f"({NAMES[1]}) belongs behind fact 2: facts were moved"),
        ),
        (
            lambda f: [*f, f[-1]],
            one(K.FACT_ALTERED, len(WHOLE) + 1, f"({NAMES[-1]}) {ALTERED}"),
        ),
    ],
)
def test_a_turn_is_found_to_be_exactly_this(tamper: Callable[[Facts], Facts], findings: list[Finding]) -> None:
    """The first thing that is wrong with it."""
    assert found(tamper(list(WHOLE))) == findings


def test_gaps_between_versions_are_named() -> None:
    """Of one fact, of several, and a version that comes twice."""
    facts = WHOLE
    versions = tuple(range(1, len(facts) + 1))

    def gap(which: str, there: int) -> list[Finding]:
        text = f"{which} of turn {ID} missing; the next one there is {there}"
        return [Finding(K.FACT_MISSING, text, turn_id=ID, sequence=2)]

    assert found(facts, versions=versions) == []
    assert found([facts[0], *facts[2:]], versions=(1, *versions[2:])) == gap("fact 2", 3)
    assert found([facts[0], *facts[3:]], versions=(1, *versions[3:])) == gap("facts 2 to 3", 4)
    assert found([facts[0], *facts], versions=(1, *versions)) == one(K.FACTS_REORDERED, 2, "is numbered 1")


def test_the_place_of_a_fact_is_looked_for_among_64() -> None:
    """What was moved from farther away shows as altered."""
    moved = [*WHOLE[1:2] * MOST_LOOKED_AT, WHOLE[0]]
    assert MOST_LOOKED_AT == 64
    assert [each.kind for each in found(moved)] == [K.FACTS_REORDERED]
    assert [each.kind for each in found([moved[0], *moved])] == [K.FACT_ALTERED]


def linked(facts: Facts, stored: Stored) -> Stored:
    """Return a fact with the link that it has behind others."""
    links = links_of(state_of(ID, facts).head, draft_of(stored).body)
    return but(stored, link=link_of(stored, links))


def test_what_no_sidecar_would_have_accepted_is_named_however_well_it_is_linked() -> None:
    """An end without the children; an outcome of a sidecar that does not own its dispatch."""
    place = NAMES.index("calls_settled")
    facts = WHOLE[:place]
    body = draft_of(WHOLE[-1]).body
    assert isinstance(body, TurnEnded)
    body = msgspec.structs.replace(body, progress=())
    early = linked(facts, but(WHOLE[-1], body=msgspec.msgpack.encode((VERSION, body))))
    (finding,) = found([*facts, early])
    assert finding.kind is K.RULE_BROKEN
    assert finding.text.startswith(f"fact {place + 1} of turn {ID} fits its link, and came while a child of the turn")

    foreign = linked(facts, but(WHOLE[place], by=InstanceId("another")))
    assert found([*facts, foreign]) == one(
        K.RULE_BROKEN,
        place + 1,
        "fits its link, and is of a dispatch that belongs to another sidecar (dispatch-0)",
    )


def test_what_cannot_be_derived_is_named_however_well_it_is_linked() -> None:
    """Texts of fewer outcomes than the fact has."""
    place = NAMES.index("calls_settled")
    facts, stored = WHOLE[:place], WHOLE[place]
    assert isinstance(draft_of(stored).body, CallsSettled)
    texts = msgspec.msgpack.encode((VERSION, msgspec.structs.replace(draft_of(stored).texts, outcomes=())))
    forged = linked(facts, but(stored, texts=texts))
    kinds = [each.kind for each in found([*facts, forged])]
    assert kinds in ([], [K.RULE_BROKEN])


def test_what_a_turn_is_looked_for_by_has_to_be_what_its_facts_say() -> None:
    """Its day, its episode, its expiry and its end."""
    state = state_of(ID, WHOLE)
    assert state.index is not None
    assert found(WHOLE, day=state.day, index=state.index) == []

    def listed(text: str) -> list[Finding]:
        return [Finding(K.INDEX_ALTERED, f"turn {ID} is listed {text}: its facts say otherwise", turn_id=ID)]

    other_day, other = date(2020, 1, 1), msgspec.structs.replace(state.index, episode_id=EpisodeId("x"))
    assert found(WHOLE, day=other_day) == listed(f"of 2020-01-01 instead of {state.day}")
    assert found(WHOLE, index=other) == listed("with another episode, expiry or end")
    both = f"of 2020-01-01 instead of {state.day}, with another episode, expiry or end"
    assert found(WHOLE, day=other_day, index=other) == listed(both)
    text = f"turn {ID} is listed under 2020-01-01, and none of its facts is there"
    assert found([], day=other_day) == [Finding(K.FACT_MISSING, text, day=other_day, turn_id=ID)]
    assert found([]) == []


def test_the_day_of_a_turn_is_that_of_its_first_fact() -> None:
    """Unless the database tells it."""
    assert first_day(TurnFacts(tuple(WHOLE), frozenset())) == WHOLE[0].at.date()
    assert first_day(TurnFacts(tuple(WHOLE), frozenset(), day=date.min)) == date.min
    assert first_day(TurnFacts((), frozenset())) == date.min


def test_a_salt_that_was_exchanged_shows_like_other_texts() -> None:
    """The digest covers both."""
    assert texts_digest(b"a" * 16, b"texts") != texts_digest(b"b" * 16, b"texts")


# --- against the running roots

DAY = date(2026, 3, 1)


def under(facts: Sequence[Stored]) -> FactsUnderRoots:
    """Return what running roots cover."""
    roots = FactsUnderRoots(DAY)
    for fact in facts:
        roots.take(fact)
    return roots


def plain(number: int, by: str = "one", turn: str = TURN) -> Stored:
    """Return a fact of which only the link matters."""
    return but(WHOLE[0], turn_id=TurnId(turn), by=InstanceId(by), link=bytes([number]) * 32)


def test_a_turn_holds_what_its_running_roots_cover() -> None:
    """All of it, in the same order; what comes after is late, and what is missing is counted."""
    facts = [plain(1), plain(2, "two"), plain(3), plain(4)]
    roots = under(facts[:3])
    assert list(roots.turns()) == [TURN]

    def against(*there: Stored) -> list[Finding]:
        return list(roots.findings(ID, TurnFacts(there, frozenset())))

    assert (against(*facts[:3]), roots.late) == ([], {})
    assert (against(*facts), roots.late) == ([], {(ONE, DAY): {facts[3].link: (ID, 4)}})
    text = f"1 facts that instance one appended to turn {ID} are not in the turn"
    assert against(*facts[1:3]) == [Finding(K.FACT_MISSING, text, ONE, DAY, ID)]
    text = f"facts of turn {ID} stand in another order than instance one appended them in"
    assert against(facts[2], facts[1], facts[0]) == [Finding(K.FACTS_REORDERED, text, ONE, DAY, ID)]
    assert against(facts[2], facts[0], facts[1]) == [Finding(K.FACTS_REORDERED, text, ONE, DAY, ID)]
    assert [each.instance for each in against()] == ["one", "two"]


def test_turns_are_looked_at_in_the_order_of_their_ids() -> None:
    """Whichever root names them first."""
    assert list(under([plain(1, turn="b"), plain(2, turn="a"), plain(3, turn="b")]).turns()) == ["a", "b"]
