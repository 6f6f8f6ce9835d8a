"""The verifier: it names every alteration of a log, and finds nothing wrong with a log that nobody altered."""

from collections.abc import Callable
from datetime import timedelta, timezone

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.adapters.record_memory.contents import ChildKept
from sidecar.core.executing.chain import NOTHING, closed_root
from sidecar.core.executing.events import FAILED, ChildEvent
from sidecar.core.verifying.findings import FindingKind
from sidecar.core.executing.stored_record import ClosedChild, StoredChild
from sidecar.core.executing.verify_child import child_findings
from sidecar.core.identifiers import ChildId, TurnId
from tests.support.record_builders import a_child, a_dispatch, a_life, a_whole_turn
from tests.support.requirement import requirement
from tests.support.second_place import SignedLog, a_signer

CHILD = ChildId("turn-2-child-0")


def kept(log: SignedLog) -> ChildKept:
    """Return the child that is tampered with: closed as number 3 of 6."""
    return log.database.contents.turns[TurnId("turn-2")].children[CHILD]


def links(log: SignedLog) -> list[ClosedChild]:
    """Return the running root."""
    return log.database.contents.roots[log.database.instance]


def alter_event(log: SignedLog) -> None:
    """Another summary in the middle."""
    events = kept(log).events
    events[2] = msgspec.structs.replace(events[2], summary="nothing happened")


def give_event_to_another_turn(log: SignedLog) -> None:
    """The id of the turn on an event, which its hash does not cover."""
    events = kept(log).events
    events[2] = msgspec.structs.replace(events[2], run_id=TurnId("turn-1"))


def remove_event(log: SignedLog) -> None:
    """One in the middle."""
    del kept(log).events[2]


def remove_event_and_renumber(log: SignedLog) -> None:
    """One in the middle, and nobody shall see the gap."""
    events = kept(log).events
    del events[2]
    events[2:] = [msgspec.structs.replace(event, sequence=event.sequence - 1) for event in events[2:]]


def swap_events(log: SignedLog) -> None:
    """Two, which exchange their numbers."""
    events = kept(log).events
    events[1], events[2] = (
        msgspec.structs.replace(events[2], sequence=2),
        msgspec.structs.replace(events[1], sequence=3),
    )


def cut_tail(log: SignedLog) -> None:
    """The last three, the closing one among them."""
    del kept(log).events[3:]


def add_after_closed(log: SignedLog) -> None:
    """A well-linked one."""
    events = kept(log).events
    last = events[-1]
    extra = msgspec.structs.replace(last, sequence=7, previous_link=last.link)
    events.append(msgspec.structs.replace(extra, link=extra.relinked(last.link)))


def rewrite_child(log: SignedLog) -> None:
    """A whole new life, every link right."""
    kept(log).events[:] = a_life(kept(log).opened, at=20, failed=True)


def rewrite_child_and_root(log: SignedLog) -> None:
    """The same, and the running root computed anew behind it: only the signed checkpoints show that."""
    rewrite_child(log)
    root = NOTHING
    for position, link in enumerate(links(log)):
        last = kept(log).events[-1].link if link.child_id == CHILD else link.last_link
        root = closed_root(root, link.child_id, last)
        links(log)[position] = msgspec.structs.replace(link, last_link=last, root=root)


def alter_contract(log: SignedLog) -> None:
    """More tools than it was given."""
    opened = kept(log).opened
    kept(log).opened = msgspec.structs.replace(opened, context_json='{"permissions":{"allowed_tools":["all"]}}')


def remove_child(log: SignedLog) -> None:
    """The running root still names it."""
    del log.database.contents.turns[TurnId("turn-2")].children[CHILD]


def remove_child_and_link(log: SignedLog) -> None:
    """With its link of the running root."""
    remove_child(log)
    del links(log)[2]


def alter_link(log: SignedLog) -> None:
    """Another child in its place."""
    links(log)[2] = msgspec.structs.replace(links(log)[2], child_id=ChildId("another"))


def cut_root(log: SignedLog) -> None:
    """The last turn, as if it had not been: with its children, outcomes, end, and the state of the root."""
    log.database.contents.forget(TurnId("turn-3"))
    del links(log)[4:]


def remove_root(log: SignedLog) -> None:
    """Everything that the record says of the instance."""
    del log.database.contents.roots[log.database.instance]


TAMPERING: list[tuple[Callable[[SignedLog], None], set[FindingKind], str]] = [
    (alter_event, {FindingKind.EVENT_ALTERED}, f"event 3 (agent.subagent_attempt) of child {CHILD} was altered"),
    (give_event_to_another_turn, {FindingKind.EVENT_ALTERED}, "event 3"),
    (remove_event, {FindingKind.EVENT_MISSING}, f"event 3 of child {CHILD} missing"),
    (remove_event_and_renumber, {FindingKind.EVENTS_REORDERED}, "was written as event 4"),
    (swap_events, {FindingKind.EVENTS_REORDERED}, "is the one that was written as event 3"),
    (cut_tail, {FindingKind.TAIL_CUT}, f"the tail of child {CHILD} was cut off after event 3"),
    (
        add_after_closed,
        {FindingKind.EVENT_AFTER_CLOSED},
        f"event 7 (agent.subagent_closed) of child {CHILD} came after",
    ),
    (rewrite_child, {FindingKind.CHILD_REWRITTEN}, f"child {CHILD} was written anew"),
    (rewrite_child_and_root, {FindingKind.ROOT_CONTRADICTED}, "the record and a signed checkpoint differ"),
    (alter_contract, {FindingKind.ROW_ALTERED}, f"the row of child {CHILD}, contract included"),
    (remove_child, {FindingKind.CHILD_REMOVED}, f"child {CHILD} was removed: it is number 3"),
    (remove_child_and_link, {FindingKind.CHILD_REMOVED, FindingKind.ROOT_MISSING}, "number 3 of the running root"),
    (alter_link, {FindingKind.ROOT_ALTERED, FindingKind.CHILD_REMOVED, FindingKind.CHILD_NOT_IN_ROOT}, "number 3 of"),
    (cut_root, {FindingKind.ROOT_CUT}, "it ends at 4, a checkpoint has 6"),
    (remove_root, {FindingKind.ROOT_CUT, FindingKind.CHILD_NOT_IN_ROOT}, "it ends at 0, a checkpoint has 6"),
]


@requirement("SX-38", "SX-39")
@pytest.mark.parametrize(("tamper", "kinds", "text"), TAMPERING, ids=[one[0].__name__ for one in TAMPERING])
async def test_every_alteration_is_named(
    tamper: Callable[[SignedLog], None], kinds: set[FindingKind], text: str
) -> None:
    """Three turns of two children, one of which is tampered with; the findings are these kinds and no others."""
    log = SignedLog()
    await log.turns(1, 3)
    assert await log.findings() == []

    tamper(log)

    findings = await log.findings()
    assert {finding.kind for finding in findings} == kinds
    assert any(text in finding.text for finding in findings), [finding.text for finding in findings]


@requirement("SX-38")
async def test_without_the_checkpoints_a_log_written_anew_looks_whole_and_that_is_said() -> None:
    """What a chain alone cannot show."""
    log = SignedLog()
    await log.turns(1, 3)
    rewrite_child_and_root(log)

    findings, verification = await log.verified(with_place=False)

    assert findings == []
    (notice,) = verification.notices()
    assert "no checkpoints were given" in notice


async def test_what_came_after_the_last_checkpoint_and_what_is_open_is_said_to_be_unprotected() -> None:
    """One turn without a checkpoint, and one child that runs."""
    log = SignedLog()
    await log.turns(1, 2)
    opened = a_dispatch("turn-9", at=500)
    child = a_child(opened)
    await log.database.commit([*a_whole_turn("turn-3", at=300), opened, child, *a_life(child)[:3]])

    findings, verification = await log.verified()

    assert findings == []
    assert [notice.partition(":")[0] for notice in verification.notices()] == [
        "1 closed children of instance this-process come after its last checkpoint",
        "1 children are open",
    ]


def line_edit(log: SignedLog) -> None:
    """A number in the middle one."""
    log.place.lines[1] = log.place.lines[1].replace(b'"number":4', b'"number":3')


def line_removed(log: SignedLog) -> None:
    """The middle one."""
    del log.place.lines[1]


def first_line_removed(log: SignedLog) -> None:
    """The first one."""
    del log.place.lines[0]


def lines_swapped(log: SignedLog) -> None:
    """The last two."""
    log.place.lines[1:] = log.place.lines[:0:-1]


def line_damaged(log: SignedLog) -> None:
    """No JSON any more."""
    log.place.lines[1] = b"\x00" * 40 + b"\n"


def signed_anew(log: SignedLog) -> None:
    """All of them, by another key."""
    log.place.lines.clear()
    log.place.signer = a_signer("another")


def signed_anew_under_our_name(log: SignedLog) -> None:
    """One of them by another key, with our key's id."""
    theirs = a_signer("another")
    theirs._key_id = a_signer().key_id
    log.place.signer = theirs


LINES: list[tuple[Callable[[SignedLog], None], set[FindingKind], str]] = [
    (line_edit, {FindingKind.CHECKPOINT_ALTERED}, "line 2 of the checkpoints was altered"),
    (line_removed, {FindingKind.CHECKPOINT_MISSING}, "lines 2 to 2 of the checkpoints were removed"),
    (first_line_removed, {FindingKind.CHECKPOINT_MISSING}, "lines 1 to 1 of the checkpoints were removed"),
    (lines_swapped, {FindingKind.CHECKPOINT_MISSING, FindingKind.CHECKPOINT_ALTERED}, "lines were moved"),
    (line_damaged, {FindingKind.CHECKPOINT_UNREADABLE, FindingKind.CHECKPOINT_MISSING}, "row 2 of the checkpoint file"),
    (signed_anew, {FindingKind.CHECKPOINT_OTHER_KEY}, "line 1 of the checkpoints is signed with key"),
    (signed_anew_under_our_name, {FindingKind.CHECKPOINT_ALTERED}, "line 4 of the checkpoints was altered"),
]


@requirement("SX-38")
@pytest.mark.parametrize(("tamper", "kinds", "text"), LINES, ids=[one[0].__name__ for one in LINES])
async def test_every_alteration_of_the_second_place_is_named(
    tamper: Callable[[SignedLog], None], kinds: set[FindingKind], text: str
) -> None:
    """Three lines of which one is tampered with; a turn more is signed afterwards by whoever signs then."""
    log = SignedLog()
    await log.turns(1, 3)
    tamper(log)
    if tamper in (signed_anew, signed_anew_under_our_name):
        await log.turns(4, 4)

    findings = await log.findings()

    assert {finding.kind for finding in findings} == kinds
    assert any(text in finding.text for finding in findings), [finding.text for finding in findings]


async def test_an_unfinished_write_is_no_finding() -> None:
    """A piece of a line in the middle, which the next one does not build on, and one at the end."""
    log = SignedLog()
    await log.turns(1, 3)
    log.place.lines[2:2] = [log.place.lines[2][:70] + b"\n"]
    log.place.lines.append(b'{"sequence":4,"prev')

    findings, verification = await log.verified()

    assert findings == []
    assert [notice for notice in verification.notices() if notice.startswith("2 unfinished writes")]


def test_a_child_whose_states_come_in_no_possible_order_is_named() -> None:
    """Failed before it was started is possible; started after it failed is not, however well it is linked."""
    child = a_child(a_dispatch())
    events = a_life(child, failed=True)
    order = [events[0], events[3], events[1]]
    linked: list[ChildEvent] = []
    for event in order:
        link = linked[-1].link if linked else child.link
        placed = msgspec.structs.replace(event, sequence=len(linked) + 1, previous_link=link)
        linked.append(msgspec.structs.replace(placed, link=placed.relinked(link)))
    assert linked[1].name == FAILED

    (finding,) = child_findings(StoredChild(child, tuple(linked)))

    assert finding.kind is FindingKind.ILLEGAL_ORDER
    assert "is not possible for a child that is failed" in finding.text


@requirement("SX-38")
@given(st.data())
def test_no_change_of_an_event_goes_unseen(data: st.DataObject) -> None:
    """Any field of any event, the last one included, and any event left out, except from the end."""
    child = a_child(a_dispatch())
    events = a_life(child, failed=data.draw(st.booleans()))
    assert list(child_findings(StoredChild(child, tuple(events)))) == []
    at = data.draw(st.integers(0, len(events) - 1))
    field = data.draw(st.sampled_from(["name", "time", "actor", "summary", "details_json", "sequence", "link", "gone"]))
    if field == "gone":
        del events[min(at, len(events) - 2)]
    else:
        before = getattr(events[at], field)
        others = {int: st.integers(1, 99), str: st.text()}.get(type(before))
        other = (
            before + timedelta(microseconds=1) if others is None else data.draw(others.filter(lambda x: x != before))
        )
        events[at] = msgspec.structs.replace(events[at], **{field: other})

    assert list(child_findings(StoredChild(child, tuple(events))))


def test_the_zone_in_which_a_database_gives_times_does_not_matter() -> None:
    """Two hours east, with the same moments; another moment still shows."""
    opened = a_child(a_dispatch())
    east = timezone(timedelta(hours=2))

    def seen(by: timedelta) -> StoredChild:
        child = msgspec.structs.replace(opened, opened_at=opened.opened_at.astimezone(east))
        moved = [msgspec.structs.replace(event, time=event.time.astimezone(east) + by) for event in a_life(opened)]
        return StoredChild(child, tuple(moved))

    assert list(child_findings(seen(timedelta(0)))) == []
    assert len(list(child_findings(seen(timedelta(microseconds=1))))) == 6
