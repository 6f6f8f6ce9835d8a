"""What a writer knows of a turn after its facts: what the turn is looked for by, its day, and its salts."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest

from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.identifiers import EpisodeId, TurnId
from sidecar.core.journal.appends import TurnIndex
from sidecar.core.journal.encoding import UnreadableFact, erased
from sidecar.core.journal.entries import Fact
from sidecar.core.journal.facts import CallsSettled, DispatchOpened, Routed, Settlement, TurnEnded
from sidecar.core.journal.heads import TurnHead, links_of
from sidecar.core.journal.standing import RecordedState
from sidecar.core.journal.texts import Texts
from tests.support.journal_drafts import (
    a_draft,
    a_request,
    a_settlement,
    an_end,
    an_opening,
    moment,
    salted_fact,
    some_claims,
)
from tests.unit.journal.one_turn import D1, D2, Turn, noted, settled

EPISODE = EpisodeId("episode-1")


def after(turn: Turn) -> RecordedState:
    """Return the state after the facts of a turn, as they are on record."""
    state = RecordedState(TurnId("turn-1"))
    state.stand(fact.stored for fact in turn.facts)
    return state


def bound_again(claims: SurfaceClaims) -> DispatchOpened:
    """Return that a second dispatch opens, in a turn that was bound again."""
    return an_opening(a_request(D2, ("shop",)), claims, 3)[0]


def test_a_turn_after_its_facts_is_what_the_rules_made_of_it() -> None:
    """The same head, and the salt of each fact; a fact whose texts were erased has none."""
    turn = Turn()
    turn.takes(noted())
    state = after(turn)
    assert state.head == turn.head
    assert state.salts == {fact.stored.salt for fact in turn.facts}

    left = RecordedState(TurnId("turn-1"))
    left.stand([erased(turn.facts[0].stored), turn.facts[1].stored])
    assert left.head == turn.head
    assert left.salts == {turn.facts[1].stored.salt}


def test_a_turn_that_is_bound_again_keeps_its_episode_and_the_earlier_expiry() -> None:
    """Whichever claims come first."""
    for first, second, earliest in ((900, 600, 600), (600, 900, 600), (600, 600, 600)):
        turn = Turn()
        turn.head, turn.facts = TurnHead(), []
        turn.takes(an_opening(a_request(D1, ("shop",)), some_claims(expires_at=moment(first)))[0])
        assert after(turn).index == TurnIndex(EPISODE, moment(first))
        turn.takes(bound_again(some_claims(expires_at=moment(second), episode_id=EpisodeId("another"))))
        assert after(turn).index == TurnIndex(EPISODE, moment(earliest))


RAN = a_settlement(0)
LEFT_OUT = a_settlement(2, ran=False)
UNKNOWN = a_settlement(2, ran=False, slot=None)
"""A call of no sub-agent that the turn has."""


@pytest.mark.parametrize(
    ("settlements", "called"),
    [
        ((RAN,), True),
        ((LEFT_OUT,), True),
        ((UNKNOWN,), False),
        ((RAN, UNKNOWN), True),
        ((UNKNOWN, RAN), True),
        ((), False),
    ],
)
@pytest.mark.parametrize("routed", [True, False])
def test_a_turn_called_if_a_call_was_of_a_sub_agent_and_the_end_names_calls(
    settlements: tuple[Settlement, ...], called: bool, routed: bool
) -> None:
    """Only such a turn is found as the last one of its episode."""
    turn = Turn()
    told = settled(0).progress if RAN in settlements else ()
    turn.takes(CallsSettled(D1, settlements, told))
    state = after(turn)
    assert state.index == TurnIndex(EPISODE, some_claims().expires_at)
    end = _ended(state, routed=routed)
    state.move(end, state.head)
    assert state.index is not None
    assert state.index.called is (called and routed)
    assert state.index.ended_at == end.draft.at
    assert state.index.expires_at == some_claims().expires_at
    assert state.index.episode_id == EPISODE


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run where the day begins earlier."""
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_east")
def test_the_day_of_a_turn_is_that_of_its_first_fact_in_utc() -> None:
    """Wherever the sidecar runs, and whatever the offset of the time."""
    turn = Turn()
    at = datetime(2026, 3, 2, 1, tzinfo=timezone(timedelta(hours=10)))
    state = RecordedState(TurnId("turn-1"))
    for hours in (0, 48):
        draft = msgspec.structs.replace(turn.facts[0].draft, at=at + timedelta(hours=hours))
        state.move(Fact(draft, turn.facts[0].stored, ()), turn.head)
    assert state.day == datetime(2026, 3, 1, tzinfo=UTC).date()


def test_a_fact_that_does_not_fit_is_named_by_its_number_and_its_turn() -> None:
    """With what the rules say of it."""
    turn = Turn()
    state = after(turn)
    with pytest.raises(UnreadableFact) as refused:
        state.stand([turn.facts[0].stored])
    assert str(refused.value) == "fact 2 of turn turn-1 does not fit the facts before it: on_record"


def _ended(state: RecordedState, *, routed: bool) -> Fact:
    """Return the end of a turn, whose routing decision names calls or none."""
    body: TurnEnded = an_end(None, (), ())[0]
    calls = (Routed(D1, 0, 1),) if routed else ()
    body = msgspec.structs.replace(body, routing=msgspec.structs.replace(body.routing, calls=calls))
    draft = a_draft("turn-1", "one", 9, body, Texts())
    return salted_fact(draft, b"s" * 16, links_of(state.head, body))
