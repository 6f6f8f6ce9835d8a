"""What may leave over a lane, and when: credit, queues, messages."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.errors import SessionInvalid
from sidecar.core.session.incoming import IncomingValidator, LaneStage
from sidecar.core.session.outgoing import Credit, OutgoingLimits, OutgoingQueue, cost
from sidecar.core.session.stalls import MOST_REPORTS, Stall, Stalls

BYTE = b"xxx"
"""A result that costs one byte: tag and length are free."""


def outgoing(credit: int = 1000, **limits: int) -> OutgoingQueue:
    """Return one with two operations, which have a credit of 10 each."""
    made = OutgoingQueue(credit, OutgoingLimits(**limits))
    made.open(1, 10)
    made.open(2, 10)
    return made


def result(size: int) -> bytes:
    """Return a result that costs so many bytes, up to 127."""
    return b"x" * (size + 2)


def test_a_result_leaves_while_any_credit_is_left_and_may_overdraw_it() -> None:
    """The next one waits until what was overdrawn is granted, and one byte more."""
    queue = outgoing()
    assert queue.add(1, result(100)) is None
    assert queue.add(1, BYTE) is None
    assert queue.take() == result(100)
    assert not queue.ready
    queue.grant(1, 90)
    assert not queue.ready
    queue.grant(1, 1)
    assert queue.take() == BYTE


def test_one_operation_without_credit_does_not_hold_up_another() -> None:
    """And its own results stay in order."""
    queue = outgoing()
    for size in (20, 1, 2):
        assert queue.add(1, result(size)) is None
    assert queue.add(2, result(3)) is None
    assert queue.take() == result(20) + result(3)
    queue.grant(1, 100)
    assert queue.take() == result(1) + result(2)


def test_credit_of_the_lane_is_needed_as_well() -> None:
    """When it comes, those that wait leave in the order in which they began to wait."""
    queue = outgoing(credit=1)
    for correlation_id, size in ((2, 5), (2, 6), (1, 7)):
        assert queue.add(correlation_id, result(size)) is None
    assert queue.take() == result(5)
    assert not queue.ready
    assert queue.blocked == [2, 1]
    queue.grant(0, 1000)
    assert queue.take() == result(6) + result(7)


@pytest.mark.parametrize("limits", [{"operation_queue": 10}, {"lane_queue": 10}])
def test_what_waits_is_bounded(limits: dict[str, int]) -> None:
    """Nothing is taken beyond; the end of the operation costs nothing, and drops what waits."""
    queue = outgoing(**limits)
    assert queue.add(1, result(10)) is None
    assert queue.add(1, result(4)) is None
    assert queue.add(1, result(4)) is Credit.OPERATION
    queue.cut(1, b"the end")
    assert queue.take() == result(10) + b"the end"
    assert queue.size == 0


def test_it_is_said_whose_credit_is_missing() -> None:
    """The operation has some, the lane has none."""
    queue = outgoing(credit=1, operation_queue=10)
    assert queue.add(1, result(1)) is None
    assert queue.add(2, result(20)) is Credit.LANE


def test_results_are_put_together_up_to_the_size_of_a_message() -> None:
    """One that is larger goes alone."""
    queue = outgoing(message_bytes=20)
    for each in (b"a" * 10, b"b" * 10, b"c" * 30, b"d"):
        queue.tell(each)
    assert [queue.take() for _ in range(3)] == [b"a" * 10 + b"b" * 10, b"c" * 30, b"d"]


def test_a_grant_is_bounded_and_none_is_taken_back() -> None:
    """A client cannot make the sidecar queue without end, nor run an operation dry by a number below 0."""
    queue = outgoing(most_credit=20)
    queue.grant(1, 10_000)
    queue.grant(2, -10)
    queue.grant(99, 10)
    assert queue.add(1, result(20)) is None
    assert queue.add(1, BYTE) is None
    assert queue.add(2, result(1)) is None
    assert queue.take() == result(20)


def test_the_last_result_ends_the_operation() -> None:
    """Nothing more is taken for it, once that has left."""
    queue = outgoing()
    assert queue.add(1, BYTE, last=True) is None
    with pytest.raises(KeyError):
        queue.add(1, BYTE)


def test_clearing_says_how_much_was_dropped() -> None:
    """What was ready and what waited."""
    queue = outgoing()
    for size in (10, 20):
        queue.add(1, result(size))
    assert queue.clear() == 34
    assert not queue.ready


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(1, 3), st.integers(1, 60)),
            st.tuples(st.just("grant"), st.integers(0, 3), st.integers(1, 80)),
            st.tuples(st.just("take"), st.just(0), st.just(0)),
        ),
        max_size=60,
    )
)
def test_no_result_is_lost_doubled_or_out_of_order(steps: list[Any]) -> None:
    """Whatever is granted when."""
    queue = OutgoingQueue(50, OutgoingLimits(message_bytes=100))
    sent: dict[int, list[bytes]] = {1: [], 2: [], 3: []}
    left: list[bytes] = []
    number = 0
    for correlation_id in sent:
        queue.open(correlation_id, 30)
    for step, correlation_id, size in steps:
        if step == "add":
            number += 1
            message = bytes([correlation_id, number % 256]) + b"x" * size
            assert queue.add(correlation_id, message) is None
            sent[correlation_id].append(message)
        elif step == "grant":
            queue.grant(correlation_id, size)
        elif queue.ready:
            left.append(queue.take())
    for correlation_id in (0, *sent):
        queue.grant(correlation_id, 10_000)
    left += _all_of(queue)
    whole = b"".join(left)
    for messages in sent.values():
        places = [whole.index(each) for each in dict.fromkeys(messages)]
        assert places == sorted(places)
    assert len(whole) == sum(len(each) for messages in sent.values() for each in messages)
    assert all(len(message) <= 100 for message in left)
    assert queue.size == 0


def _all_of(queue: OutgoingQueue) -> list[bytes]:
    left = []
    while queue.ready:
        left.append(queue.take())
    return left


def test_the_cost_of_a_result_is_its_size_without_tag_and_length() -> None:
    """At the sizes where the length takes a byte more."""
    assert [cost(b"x" * framed) for framed in (2 + 127, 3 + 128, 3 + 16_383, 4 + 16_384)] == [127, 128, 16_383, 16_384]


def test_correlation_ids_only_rise() -> None:
    """They tell results apart."""
    lane = IncomingValidator(most_operations=2)
    with pytest.raises(SessionInvalid):
        lane.check_open()
    lane.hello(1)
    lane.begin(1)
    lane.begin(5)
    for repeated in (5, 4, 0, -1):
        with pytest.raises(SessionInvalid):
            lane.begin(repeated)


def test_a_lane_is_asked_to_drain_once_and_not_when_its_client_has_closed_it() -> None:
    """Stopping and age may both come."""
    lane = IncomingValidator(most_operations=2)
    lane.hello(1)
    assert lane.drain()
    assert not lane.drain()
    lane.close()
    assert lane.stage is LaneStage.CLOSING
    assert not lane.drain()


def test_reports_of_stalls_are_kept_and_bounded() -> None:
    """The oldest gives way. A report that was sent is kept, because the client may not have received it."""
    stalls = Stalls()
    for number in range(MOST_REPORTS + 1):
        stalls.add(_stall(f"lane-{number}"))
    assert stalls.of("lane-0") is None
    for _ in range(2):
        kept = stalls.of("lane-1")
        assert kept is not None
        assert kept.lane_id == "lane-1"


def _stall(lane_id: str) -> Stall:
    return Stall(lane_id, datetime(2026, 1, 1, tzinfo=UTC), (), 0)
