"""What a receiver gets, and what becomes of events that it does not accept."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from plugins.audit_webhook.tests.receiver import FIRST, NOW, SECOND, SOURCE, received, secrets_file, settings_for
from sidecar.policy.audit import SinkUnavailable
from sidecar_audit_webhook import WebhookSink
from sidecar_conformance.audit_sink import a_transition, an_event


async def test_an_event_is_a_cloud_event_in_structured_mode(tmp_path: Path) -> None:
    """Every attribute, the data as each sink has it, and the headers of the convention."""
    async with received(tmp_path) as (receiver, sink):
        entry = a_transition(1)
        await sink.take([entry])
    ((headers, event),) = receiver.requests
    assert event == {
        "specversion": "1.0",
        "id": entry.event_id,
        "source": SOURCE,
        "type": "subagent.lifecycle.transition.rollback",
        "subject": "shop/shop",
        "time": "2026-03-04T12:00:03+00:00",
        "datacontenttype": "application/json",
        "data": dict(entry.fields),
    }
    assert headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert headers["webhook-timestamp"] == str(int(NOW))
    assert headers["webhook-id"].startswith("evt_")
    assert "." not in headers["webhook-id"]


async def test_the_trace_of_a_step_is_the_extension_of_cloud_events_for_it(tmp_path: Path) -> None:
    """`traceparent`, as the caller of the step sent it; no attribute where there was none."""
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    entry = an_event(1)
    traced = msgspec.structs.replace(entry, body=msgspec.structs.replace(entry.body, traceparent=trace))
    async with received(tmp_path) as (receiver, sink):
        await sink.take([traced, an_event(2)])
    assert [event.get("traceparent") for _, event in receiver.requests] == [trace, None]


async def test_what_comes_again_has_its_id_and_other_deployments_have_others(tmp_path: Path) -> None:
    """A receiver drops duplicates by `webhook-id` alone, whichever deployments send to it."""
    async with received(tmp_path) as (receiver, sink):
        await sink.take([an_event(1)])
        await sink.take([an_event(1)])
        await sink.take([an_event(2)])
        url = "http://" + receiver.requests[0][0]["host"] + "/hooks"
        other = WebhookSink(settings_for(url, tmp_path, source="urn:example:another"))
        await other.take([an_event(1)])
        await other.close()
    first, again, second, another = (headers["webhook-id"] for headers, _ in receiver.requests)
    assert first == again
    assert len({first, second, another}) == 3


async def test_after_a_failure_a_batch_continues_with_the_event_that_was_not_accepted(tmp_path: Path) -> None:
    """What the receiver has accepted is not sent again, also if the batch has grown; nothing behind it comes first."""
    entries = [an_event(number) for number in range(1, 7)]
    async with received(tmp_path) as (receiver, sink):
        receiver.refuses = frozenset({entries[1].event_id})
        with pytest.raises(SinkUnavailable):
            await sink.take(entries[:3])
        receiver.refuses = frozenset()
        await sink.take(entries[:4])
        receiver.go_on.clear()
        receiver.came.clear()
        cut = asyncio.ensure_future(sink.take(entries[4:]))
        await asyncio.wait_for(receiver.came.wait(), 5)
        cut.cancel()  # as the sidecar does after ten seconds
        await asyncio.wait([cut])
        receiver.go_on.set()
        await sink.take(entries[4:])
    sent = [event["data"]["request_id"] for _, event in receiver.requests]
    assert sent == [f"request-{number}" for number in (1, 2, 2, 3, 4, 5, 5, 6)]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (302, "302: redirects are not followed; is `url` right?"),
        (400, "400"),
        (401, "401: does it know the secret of `secret_file`?"),
        (410, "410: it wants no events any more; if that is so, take this sink out of `audit.sinks`"),
        (429, "429"),
        (503, "503"),
    ],
)
async def test_every_answer_but_success_keeps_the_event_and_tells_the_operator(
    tmp_path: Path, status: int, said: str
) -> None:
    """The redirect leads to a place that would accept it, but only the settings say where events go."""
    async with received(tmp_path) as (receiver, sink):
        receiver.status, receiver.headers = status, {"location": "/elsewhere"}
        with pytest.raises(SinkUnavailable) as refused:
            await sink.take([an_event(1), an_event(2)])
        assert str(refused.value) == f"the receiver answered {an_event(1).event_id} with HTTP status {said}"
        assert (len(receiver.requests), receiver.accepted) == (1, [])
        receiver.status = 200
        await sink.take([an_event(1), an_event(2)])
        assert [event["id"] for event in receiver.accepted] == [an_event(1).event_id, an_event(2).event_id]


async def test_a_receiver_that_does_not_answer_in_time_has_not_accepted(tmp_path: Path) -> None:
    """The limit is that of the whole request."""
    async with received(tmp_path, timeout_seconds=0.2) as (receiver, sink):
        receiver.go_on.clear()
        with pytest.raises(SinkUnavailable, match=r"did not answer within 0\.2 s"):
            await sink.take([an_event(1)])


async def test_the_status_counts_whatever_the_answer_says(tmp_path: Path) -> None:
    """An answer that stops without an end, or never stops: the event is accepted, and little of it is read."""
    async with received(tmp_path, timeout_seconds=0.5) as (receiver, sink):
        receiver.status, receiver.endless = 202, b""
        await sink.take([an_event(1)])
        receiver.endless = b"x" * 64 * 1024
        await sink.take([an_event(2)])
        receiver.endless = None
        await sink.take([an_event(3)])
    assert len(receiver.requests) == len(receiver.accepted) == 3
    assert receiver.sent < 8 * 1024 * 1024  # what the buffers of the system take


async def test_a_receiver_that_is_away_is_named_by_its_fault(tmp_path: Path) -> None:
    """No address and no secret show."""
    async with received(tmp_path) as (receiver, _):
        pass
    sink = WebhookSink(settings_for("http://127.0.0.1:9/hooks?key=s3cret", tmp_path))
    with pytest.raises(SinkUnavailable) as away:
        await sink.take([an_event(1)])
    await sink.close()
    assert str(away.value) == "the receiver cannot be reached (ConnectError)"
    assert receiver.requests == []


async def test_only_the_chosen_types_are_sent_and_the_others_count_as_taken(tmp_path: Path) -> None:
    """In full, or as a beginning."""
    chosen = ("subagent.lifecycle.*", "subagent.rollout.event.killed")
    entries = [a_transition(1), an_event(2), an_event(3, what="killed")]
    async with received(tmp_path, types=chosen) as (receiver, sink):
        await sink.take(entries)
        receiver.status = 500
        await sink.take([an_event(4)])
    assert [event["type"] for event in receiver.accepted] == [
        "subagent.lifecycle.transition.rollback",
        "subagent.rollout.event.killed",
    ]


async def test_a_secret_is_replaced_while_both_sides_run(tmp_path: Path) -> None:
    """First two lines: both sign; the receiver changes; then the new line alone. Each request is accepted."""
    clock = [0.0]
    async with received(tmp_path, lambda: clock[0]) as (receiver, sink):
        await sink.take([an_event(1)])
        secrets_file(tmp_path, SECOND, FIRST)
        clock[0] += 2
        await sink.take([an_event(2)])
        receiver.secret = SECOND
        await sink.take([an_event(3)])
        secrets_file(tmp_path, SECOND)
        clock[0] += 2.0
        await sink.take([an_event(4)])
    signatures = [headers["webhook-signature"].split(" ") for headers, _ in receiver.requests]
    assert [len(each) for each in signatures] == [1, 2, 2, 1]
    assert len(receiver.accepted) == 4
