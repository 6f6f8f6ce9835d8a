"""Cases for audit sinks, contract `audit-sink/1`.

The sidecar marks events as exported when `take` returns, and never sends them again. Therefore `take` must return only
when the receiver has stored all of them, and otherwise raise an exception.
"""
# ruff: noqa: S101  the cases are tests

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Final

from sidecar.policy.audit import AuditEntry, AuditSink
from sidecar_conformance.sink_bench import AuditSinkBench, SinkFault, a_transition, an_event
from sidecar_conformance.suite import SOON, Suite, beats, case, ends_soon, lively_loop

LARGEST: Final = 200
"""Maximum number of entries in one call of `take`."""
ODD: Final = 'two\nlines, "quoted", \\n, \u2028, Größe 5 %, 夜, \U0001f984, {"event": "forged"}'


class AuditSinkSuite(Suite):
    """Subclass it with a fixture `bench` that returns an `AuditSinkBench`."""

    abilities: ClassVar = {
        "away": "the bench can make the receiver unavailable",
        "refuse": "the receiver can refuse events",
        "hang": "the bench can let the receiver hang",
    }

    @case()
    async def test_an_event_arrives_with_every_field(self, bench: AuditSinkBench) -> None:
        """Names, numbers, lists and the fields of `cohort` arrive unchanged."""
        async with made(bench) as sink:
            entries = [a_transition(1), an_event(2)]
            await taken(sink, entries)
            assert list(await bench.kept()) == [dict(entry.fields) for entry in entries]

    @case()
    async def test_what_was_taken_is_there_at_once(self, bench: AuditSinkBench) -> None:
        """When `take` returns, the receiver has stored the events: the process may end at any moment."""
        async with made(bench) as sink:
            for number in range(1, 6):
                await taken(sink, [an_event(number)])
                assert len(await bench.kept()) == number

    @case()
    async def test_events_stay_in_order(self, bench: AuditSinkBench) -> None:
        """Events arrive in order, inside a batch and from batch to batch."""
        async with made(bench) as sink:
            for first in (1, 4, 7):
                await taken(sink, [an_event(number) for number in range(first, first + 3)])
            assert await ids(bench) == ids_of(range(1, 10))

    @case()
    async def test_the_largest_batch_is_taken(self, bench: AuditSinkBench) -> None:
        """A batch of 200 entries is taken within the deadline."""
        async with made(bench) as sink:
            await taken(sink, [an_event(number) for number in range(1, LARGEST + 1)])
            assert await ids(bench) == ids_of(range(1, LARGEST + 1))

    @case()
    async def test_one_event_stays_one_event_whatever_a_person_wrote(self, bench: AuditSinkBench) -> None:
        """A reason is free text. Line ends, quotes and any script in it must not create another event."""
        async with made(bench) as sink:
            await taken(sink, [a_transition(1, reason=ODD), an_event(2)])
            assert [(one["event_id"], one["reason"]) for one in await bench.kept()] == [
                (ids_of([1])[0], ODD),
                (ids_of([2])[0], "all is well"),
            ]

    @case()
    async def test_fields_that_come_later_arrive_too(self, bench: AuditSinkBench) -> None:
        """Later versions may have further kinds of events and fields: a sink must pass on all of them."""
        async with made(bench) as sink:
            entry = an_event(1, what="something_new", more={"deep": [1, None, True]})
            await taken(sink, [entry])
            assert list(await bench.kept()) == [dict(entry.fields)]

    @case()
    async def test_what_comes_again_keeps_its_id(self, bench: AuditSinkBench) -> None:
        """After a crash, a sidecar may send an event again; with an equal id, the receiver recognises the event."""
        async with made(bench) as sink:
            entries = [a_transition(1), an_event(2)]
            await taken(sink, entries)
            await taken(sink, entries)
            assert sorted({*await ids(bench)}) == ids_of([1, 2])

    @case(needs="away")
    async def test_a_place_that_is_away_takes_nothing(self, bench: AuditSinkBench) -> None:
        """`take` raises if the receiver is unavailable."""
        async with made(bench) as sink:
            await bench.misbehave(SinkFault.AWAY)
            assert await failure_of(sink) is not None

    @case(needs="refuse")
    async def test_a_refusal_takes_nothing(self, bench: AuditSinkBench) -> None:
        """`take` raises if the receiver refuses the events."""
        async with made(bench) as sink:
            await bench.misbehave(SinkFault.REFUSE)
            assert await failure_of(sink) is not None

    @case(needs="away")
    async def test_the_same_object_recovers(self, bench: AuditSinkBench) -> None:
        """After an outage, the events that were not taken are sent again, before later ones."""
        async with made(bench) as sink:
            await bench.misbehave(SinkFault.AWAY)
            await failure_of(sink)
            await bench.misbehave(SinkFault.NONE)
            await taken(sink, [an_event(1), an_event(2)])
            assert sorted({*await ids(bench)}) == ids_of([1, 2])

    @case(needs="hang")
    async def test_a_hung_batch_ends_when_cancelled(self, bench: AuditSinkBench) -> None:
        """The sidecar cancels a batch at its deadline; the sink takes the next batch."""
        async with made(bench) as sink:
            await bench.misbehave(SinkFault.HANG)
            hung = asyncio.ensure_future(sink.take([an_event(1)]))
            await beats()
            assert not hung.done()
            hung.cancel()
            await ends_soon(hung, "a cancelled batch")
            await bench.misbehave(SinkFault.NONE)
            await taken(sink, [an_event(1), an_event(2)])
            assert ids_of([2])[0] in await ids(bench)

    @case(needs="hang")
    async def test_a_hanging_place_does_not_hold_up_the_event_loop(self, bench: AuditSinkBench) -> None:
        """Turns continue while a receiver hangs."""
        async with made(bench) as sink:
            await bench.misbehave(SinkFault.HANG)
            async with lively_loop():
                hung = asyncio.ensure_future(sink.take([an_event(1)]))
                await beats()
            hung.cancel()
            await ends_soon(hung, "a cancelled batch")

    @case()
    async def test_a_sink_that_was_never_used_can_be_closed(self, bench: AuditSinkBench) -> None:
        """A failed start closes the objects that it has already created."""
        async with bench.running():
            await asyncio.wait_for(bench.make().close(), SOON)

    @case(needs="hang")
    async def test_close_ends_while_a_batch_hangs(self, bench: AuditSinkBench) -> None:
        """`close` does not wait for the batch."""
        async with made(bench) as sink:
            await bench.misbehave(SinkFault.HANG)
            hung = asyncio.ensure_future(sink.take([an_event(1)]))
            await beats()
            await asyncio.wait_for(sink.close(), SOON)
            hung.cancel()
            await ends_soon(hung, "a batch whose sink was closed")

    @case()
    async def test_a_new_sink_goes_on_where_another_ended(self, bench: AuditSinkBench) -> None:
        """After a restart, the receiver still has all earlier events."""
        async with bench.running():
            for number in (1, 2):
                sink = bench.make()
                await taken(sink, [an_event(number)])
                await asyncio.wait_for(sink.close(), SOON)
            assert await ids(bench) == ids_of([1, 2])

    @case(needs="away")
    async def test_secrets_show_in_no_text(self, bench: AuditSinkBench) -> None:
        """Neither the text of the sink nor the text of its exception contains a secret: both can reach a log."""
        async with made(bench) as sink:
            await bench.misbehave(SinkFault.AWAY)
            texts = f"{sink!r} {sink} {await failure_of(sink)!r}"
            assert [secret for secret in bench.secrets if secret in texts] == []


@asynccontextmanager
async def made(bench: AuditSinkBench) -> AsyncIterator[AuditSink]:
    """Start the receiver, yield a sink for it, and close the sink."""
    async with bench.running():
        sink = bench.make()
        try:
            yield sink
        finally:
            await bench.misbehave(SinkFault.NONE)
            await asyncio.wait_for(sink.close(), SOON)


async def taken(sink: AuditSink, entries: Sequence[AuditEntry]) -> None:
    """Pass entries to the sink; fail after `SOON` seconds."""
    await asyncio.wait_for(sink.take(entries), SOON)


async def failure_of(sink: AuditSink) -> Exception | None:
    """Pass one event to the sink and return its exception; None if it returned or took longer than `SOON` seconds."""
    try:
        async with asyncio.timeout(SOON) as guard:
            await sink.take([an_event(1)])
    except Exception as error:  # noqa: BLE001  the contract does not limit the class
        return None if guard.expired() else error
    return None


async def ids(bench: AuditSinkBench) -> list[str]:
    """Return the ids of the stored events, in order of arrival."""
    kept: Sequence[Mapping[str, Any]] = await bench.kept()
    return [str(one["event_id"]) for one in kept]


def ids_of(numbers: Sequence[int]) -> list[str]:
    """Return the ids of events by their numbers."""
    return [an_event(number).event_id for number in numbers]


__all__ = ["AuditSinkBench", "AuditSinkSuite", "SinkFault", "a_transition", "an_event"]
