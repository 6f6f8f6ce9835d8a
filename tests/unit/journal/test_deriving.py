"""What is derived from facts: today's records, never changed by what comes later, legal by today's own check."""

from datetime import timedelta
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.core.executing.contract import contract_from_json
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import CallSettled, ChildOpened, DispatchOpened, Record, TurnEnded
from sidecar.core.identifiers import TurnId
from sidecar.core.journal import rules
from sidecar.core.journal.chain import link_of
from sidecar.core.journal.child_events import ChildReading, ChildSoFar
from sidecar.core.journal.encoding import draft_of, erased
from sidecar.core.journal.entries import Fact, Stored
from sidecar.core.journal.facts import AttemptRepeated, CallsSettled, DelegationSettled
from sidecar.core.journal.heads import TurnHead, links_of
from sidecar.core.journal.opening.requests import fingerprint_of
from sidecar.core.journal.refusals import FactRejected
from sidecar.core.journal.turn_projection import TurnProjection, read
from sidecar.operations.requests import DispatchRequest, JoinPolicy, OnDisconnect
from sidecar.operations.turn.state.opening_records import request_from_json
from tests.support.child_logs import child_problems
from tests.support.journal_drafts import a_request, some_claims
from tests.support.recording.marking import marked
from tests.support.requirement import requirement
from tests.unit.journal.lives import TURN, Life

SEEDS = st.integers(0, 1_000_000)


@requirement("SX-38", "SX-41", "SX-45")
@settings(max_examples=150)
@given(SEEDS)
def test_what_is_derived_never_changes(seed: int) -> None:
    """Ids, order, times and contents from the first n facts are a beginning of those from all; each id comes once."""
    drafts = [fact.draft for fact in Life(seed, asides=True).whole()]
    reading, so_far = TurnProjection(TurnId(TURN)), list[Record]()
    for number, draft in enumerate(drafts, 1):
        so_far += reading.take(draft)
        assert read(TurnId(TURN), drafts[:number]) == so_far
    ids = [record.record_id for record in so_far]
    assert len(set(ids)) == len(ids)


@requirement("SX-18", "SX-19", "SX-46")
@settings(max_examples=150)
@given(SEEDS)
def test_the_derived_log_of_a_child_is_whole(seed: int) -> None:
    """The chain, the order and the states of every child pass the check that verifies today's record."""
    records = read(TurnId(TURN), [fact.draft for fact in Life(seed).whole()])
    children = [record for record in records if isinstance(record, ChildOpened)]
    events = [record for record in records if isinstance(record, ChildEvent)]
    for child in children:
        own = tuple(event for event in events if event.child_id == child.child_id)
        assert list(child_problems(child, own)) == []
        assert own[-1].details()["final_status"] in {"completed", "failed"}
    assert isinstance(records[-2], TurnEnded)


@settings(max_examples=100)
@given(SEEDS)
def test_stored_facts_say_the_same(seed: int) -> None:
    """What is read back from bytes is what was appended, and leaves the turn where it was."""
    life = Life(seed, asides=True)
    facts = life.whole()
    drafts = [draft_of(fact.stored) for fact in facts]
    assert drafts == [fact.draft for fact in facts]
    decided = rules.decide(TurnHead(), facts, ())
    assert isinstance(decided, rules.Accepted)
    assert decided.head == life.head
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(life.head), type=TurnHead) == life.head


@settings(max_examples=100)
@given(SEEDS)
def test_erased_texts_change_no_link_and_no_decision(seed: int) -> None:
    """Without texts and salts every link holds, the turn is where it was, and ids, order and times are as before."""
    life = Life(seed, asides=True)
    facts = life.whole()
    bare = [erased(fact.stored) for fact in facts]
    assert _walk(bare) == life.head
    before = read(TurnId(TURN), [fact.draft for fact in facts])
    after = read(TurnId(TURN), [draft_of(each) for each in bare])
    assert [each.record_id for each in after] == [each.record_id for each in before]
    events = [(each.event_id, each.name, each.time, each.actor) for each in before if isinstance(each, ChildEvent)]
    assert [(e.event_id, e.name, e.time, e.actor) for e in after if isinstance(e, ChildEvent)] == events
    text = repr([each for each in after if not isinstance(each, ChildEvent)]) + repr([each.body for each in bare])
    for said in (
        "user-1",
        "Bonn",
        "boots",
        "in the shop",
        "What is new?",
        "Here it is",
        "found it",
        "rows",
        "Which size?",
        "names the shop",
    ):
        assert said not in text


@requirement("SX-38")
@settings(max_examples=100)
@given(SEEDS)
def test_an_altered_turn_shows(seed: int) -> None:
    """One byte changed, a fact removed, two facts exchanged: a turn that has ended no longer links."""
    chance, stored = Random(seed), [fact.stored for fact in Life(seed).whole()]
    place = chance.randrange(len(stored))
    field = chance.choice(("body", "texts", "salt", "link"))
    raw = bytearray(getattr(stored[place], field))
    raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
    altered = [*stored]
    altered[place] = msgspec.structs.replace(stored[place], **{field: bytes(raw)})
    assert not _holds(altered)
    assert place == len(stored) - 1 or not _holds(stored[:place] + stored[place + 1 :])
    moved = [*stored]
    other = chance.randrange(len(stored))
    moved[place], moved[other] = moved[other], moved[place]
    assert place == other or not _holds(moved)
    assert _holds(stored)


def _holds(stored: list[Stored]) -> bool:
    try:
        return _walk(stored) is not None
    except Exception:  # noqa: BLE001  it may be broken in any way
        return False


def _walk(stored: list[Stored]) -> TurnHead | None:
    """Return where facts leave their turn; None if a link does not hold, or the rules refuse one."""
    head = TurnHead()
    for each in stored:
        draft = draft_of(each)
        links = links_of(head, draft.body)
        decided = rules.decide(head, [Fact(draft, each, links)], ())
        if link_of(each, links) != each.link or isinstance(decided, FactRejected):
            return None
        head = decided.head
    return head if head.ended else None


@settings(max_examples=60)
@given(SEEDS)
def test_each_derived_event_leads_back_to_its_mark(seed: int) -> None:
    """The table of forms in the other direction: event to mark, and from there to the same event."""
    drafts = [fact.draft for fact in Life(seed).whole()]
    reading = TurnProjection(TurnId(TURN))
    for draft in drafts:
        reading.take(draft)
    for child in reading.children.values():
        again = ChildReading(ChildSoFar(child.opened, child.so_far.contract, child.so_far.parent))
        for event in child.events:
            found = marked(event, event.time - timedelta(seconds=1), again.so_far.about())
            again.take(found.mark, found.values, event.time - timedelta(seconds=1), again.so_far.about())
        assert again.events == child.events


@pytest.mark.parametrize(
    "fields",
    [{}, {"join": JoinPolicy(1, 2, timedelta(seconds=5)), "on_disconnect": OnDisconnect.CONTINUE_UNTIL}],
)
def test_the_derived_request_is_the_text_that_was_sent(fields: dict[str, object]) -> None:
    """A repeated request is known by the fingerprint of this very text."""
    asked = a_request(slots=("shop", "rewards"))
    request = DispatchRequest(
        surface_token="token",
        binding_digest=asked.binding_digest,
        dispatch_id=asked.dispatch_id,
        calls=asked.calls,
        declared_intent_count=asked.declared_intent_count,
        prior_context=asked.prior_context,
        task_prompt=asked.task_prompt,
    )
    request = msgspec.structs.replace(request, **fields)
    text = msgspec.json.encode(msgspec.structs.replace(request, surface_token="")).decode()
    assert msgspec.json.decode(text, type=type(asked)).to_json() == text
    assert request_from_json(text, "token") == request


def _with_outcomes() -> int:
    """Return a seed of a turn in which a call of each kind settled."""
    for seed in range(1000):
        kinds = {type(fact.draft.body) for fact in Life(seed).whole()}
        if {DelegationSettled, CallsSettled, AttemptRepeated} <= kinds:
            return seed
    raise LookupError("no such turn")


def test_rows_are_derived_with_everything_that_repeats() -> None:
    """Claims, request, fingerprint, contract and outcome of a small turn, as today's record has them."""
    records = read(TurnId(TURN), [fact.draft for fact in Life(_with_outcomes()).whole()])
    opened = next(record for record in records if isinstance(record, DispatchOpened))
    child = next(record for record in records if isinstance(record, ChildOpened))
    settled = next(record for record in records if isinstance(record, CallSettled) and record.outcome.child_id)
    claims = some_claims(TURN, ("shop", "rewards", "support"))
    assert opened.claims_json == msgspec.json.encode(claims).decode()
    assert opened.fingerprint == fingerprint_of(opened.request_json)
    assert (opened.principal, opened.turn_expires_at) == (claims.principal, claims.expires_at)
    contract = contract_from_json(child.context_json)
    assert (contract.parent.run_id, contract.parent.step_idx) == (TURN, child.step_idx)
    assert (contract.step.title, contract.step.description) == (f"ask_{child.slot}", "what is new in the shop?")
    assert (contract.parent.task_prompt, contract.parent.goal_summary) == ("What is new?", "They like boots.")
    assert (contract.sub_agent_id, contract.definition_id, contract.ownership) == (
        child.slot,
        child.slot,
        (f"slot:{child.slot}",),
    )
    assert settled.outcome.tool_name == f"ask_{settled.outcome.sub_agent_id}"
