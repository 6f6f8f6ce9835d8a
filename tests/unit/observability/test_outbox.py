"""The queues to a collector: bounded, counted, and emptied by a thread that nothing stops."""

import threading
from collections.abc import Sequence
from typing import Any

from sidecar.observability.outbox import Outbox, OutboxWorker, Signal

WAIT_SECONDS = 10.0


class Taker:
    """What sends: fails, raises or takes as told, and says when it was called."""

    def __init__(self, *answers: bool | Exception) -> None:
        self._answers = list(answers)
        self.batches: list[Sequence[Any]] = []
        self.called = threading.Semaphore(0)

    def __call__(self, batch: Sequence[Any]) -> bool:
        """Take a batch; without a further answer it is taken."""
        self.batches.append(batch)
        answer = self._answers.pop(0) if self._answers else True
        self.called.release()
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_without_room_the_newest_is_dropped_and_counted() -> None:
    """Of that signal only; what waits already stays."""
    outbox = Outbox(most=2)
    for number in range(5):
        outbox.put(Signal.SPANS, number)
    outbox.put(Signal.LOGS, "said")
    assert outbox.dropped() == {("spans",): 3, ("logs",): 0, ("metrics",): 0}
    assert (outbox.take(Signal.SPANS), outbox.take(Signal.LOGS)) == ([0, 1], ["said"])


def test_a_collector_that_fails_costs_the_batch_and_is_told_of_once() -> None:
    """Refused, then raising, then well: two batches lost, contact lost once and found once."""
    outbox, taker, contact = Outbox(most=10), Taker(False, RuntimeError("planted")), list[bool]()
    shipping = OutboxWorker(outbox, {Signal.LOGS: taker}, 0.001, contact.append)
    shipping.start()
    for item in ("a", "b", "c"):
        outbox.put(Signal.LOGS, item)
        assert taker.called.acquire(timeout=WAIT_SECONDS)
    shipping.close(WAIT_SECONDS)
    assert taker.batches == [["a"], ["b"], ["c"]]
    assert outbox.dropped()["logs",] == 2
    assert contact == [False, True]


def test_what_waits_goes_with_the_end() -> None:
    """In batches, however long the interval is."""
    outbox, taker = Outbox(most=2000), Taker()
    shipping = OutboxWorker(outbox, {Signal.SPANS: taker}, 3600.0, lambda _: None)
    shipping.start()
    for number in range(500):
        outbox.put(Signal.SPANS, number)
    shipping.close(WAIT_SECONDS)
    assert [each for batch in taker.batches for each in batch] == list(range(500))


def test_a_collector_that_hangs_does_not_hold_up_the_end() -> None:
    """The thread is left behind."""
    never, began = threading.Event(), threading.Event()

    def hang(batch: Sequence[Any]) -> bool:
        began.set()
        return never.wait(WAIT_SECONDS)

    outbox = Outbox(most=10)
    shipping = OutboxWorker(outbox, {Signal.SPANS: hang}, 0.001, lambda _: None)
    shipping.start()
    outbox.put(Signal.SPANS, 1)
    assert began.wait(WAIT_SECONDS)
    shipping.close(0.01)
    assert not never.is_set()
    never.set()
