"""Tool calls that change something: the key comes first, and nothing repeats an effect whose result is unknown."""

import asyncio
import json
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import grpc
import pytest
from msgspec.structs import replace

from sidecar.core.definitions.cards.card import Card, ToolOperation
from sidecar.core.definitions.cards.digest import digest_of_card
from sidecar.core.executing.events import EFFECT_SENT, ChildEvent
from sidecar.core.executing.retries import RetryRules
from sidecar.core.identifiers import ToolId
from sidecar.policy.protocols import (
    EnricherAnswer,
    EnricherCall,
    EnricherRefused,
    NarrationPart,
    RefusalKind,
    RunFinished,
    RunnerError,
    RunnerEvent,
    RunRequest,
)
from subagents.errors.v1.error_reason_pb2 import ErrorReason
from tests.rpc.test_two_sidecars import two_sidecars
from tests.support.builders import MODEL, a_card, with_limits
from tests.support.data_tools import a_tool, an_envelope
from tests.support.fake_runner import ScriptedRunner
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.requests import failure_of

FLAKY = RunnerError("the model's provider is busy", transient=True)
AT_ONCE: dict[str, Any] = {"retries": RetryRules(first_backoff=0.001, longest_backoff=0.001, floor=100)}
SIX = '{"people": 6, "at": "19:00"}'


def books(operation: ToolOperation = ToolOperation.EFFECT, **limits: Any) -> Card:
    """Return a sub-agent `shop` with the tool `book`, and by default one further attempt."""
    card = with_limits(a_card("shop", tools=(ToolId("book"),)), **{"max_retries": 1, **limits})
    tools = (a_tool("book", operation=operation, timeout=timedelta(seconds=5)),)
    return replace(card, tools=tools, digest=digest_of_card(card.definition, MODEL, tools, ()))


class Booking:
    """A sub-agent that books in each attempt, and a service that counts.

    Attributes:
        fail: attempts that fail after they have booked.
        said: the arguments of each attempt's calls, by attempt; else one call for six.
        refusals: what the gateway refused, by reason.
    """

    def __init__(self, *, fail: int = 0, said: dict[int, list[str]] | None = None) -> None:
        self.fail, self.said = fail, said or {}
        self.got: list[str | None] = []
        self.refusals: list[str] = []

    async def __call__(self, request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        """Book, then fail or answer."""
        for arguments in self.said.get(request.attempt, [SIX]):
            try:
                self.got.append((await runner.call_tool(request.grant, "book", arguments)).payload_json)
            except grpc.aio.AioRpcError as refused:
                self.refusals.append(refused.details() or "")
        if request.attempt <= self.fail:
            raise FLAKY
        yield NarrationPart("booked")
        yield RunFinished()


async def dispatched(sidecar: SidecarForTests, booking: Booking) -> Any:
    """Have the sub-agent called, and return the outcome of the call."""
    sidecar.runner.use("shop", booking)
    return (await sidecar.dispatch(await sidecar.bind(), "ask_shop")).of("call-1")


def keys(sidecar: SidecarForTests) -> list[str | None]:
    """Return the keys that the service was sent."""
    return [call.idempotency_key for call in sidecar.connector.calls]


async def test_the_key_is_on_record_before_the_effect_is_sent() -> None:
    """The service is asked with the key that the record has by then."""
    async with two_sidecars(books()) as pair:
        on_record: list[list[str]] = []

        def reply(call: EnricherCall) -> EnricherAnswer:
            events = [each for each in pair.kept(ChildEvent) if each.name == EFFECT_SENT]
            on_record.append([event.details()["key"] for event in events])
            return an_envelope(call)

        pair.first.connector.reply = reply
        outcome = await dispatched(pair.first, Booking())

        assert outcome.outcome, outcome
        assert on_record == [keys(pair.first)]
        assert pair.first.recorder.of("effect_settled") == [("shop", "book", "done")]


async def test_an_effect_is_not_sent_if_its_key_cannot_be_recorded() -> None:
    """The sub-agent is told so, and may end without."""
    async with two_sidecars(books(max_retries=0), record_timeout=timedelta(milliseconds=50)) as pair:
        booking = Booking()

        async def breaks(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
            pair.first.store.away = True  # type: ignore[attr-defined]  # a store of the tests
            try:
                async for event in booking(request, runner):
                    yield event
            finally:
                pair.first.store.away = False  # type: ignore[attr-defined]  # a store of the tests

        pair.first.runner.use("shop", breaks)
        await pair.first.dispatch(await pair.first.bind(), "ask_shop")

        assert pair.first.connector.calls == []
        assert len(booking.refusals) == 1
        assert pair.first.recorder.of("effect_settled") == [("shop", "book", "not_sent")]


@pytest.mark.parametrize(
    "reply",
    [
        EnricherRefused(RefusalKind.TIMEOUT),
        EnricherRefused(RefusalKind.UNAVAILABLE),
        EnricherAnswer(b"{}"),
    ],
    ids=["timeout", "connection lost", "an answer that proves nothing"],
)
async def test_after_an_unknown_result_nothing_is_repeated(reply: Any) -> None:
    """Neither by the gateway nor by another attempt; the sub-agent loses its grant at once, the parent is told why."""
    async with running_sidecar_for_tests(cards=(books(max_retries=3),), rules=AT_ONCE) as sidecar:
        sidecar.connector.reply = lambda call: reply
        booking = Booking(said={1: [SIX, SIX]})

        outcome = await dispatched(sidecar, booking)

        assert outcome.status.reason == ErrorReason.ERROR_REASON_EFFECT_UNKNOWN
        assert (outcome.attempts, len(sidecar.connector.calls)) == (1, 1)
        assert "not known whether that happened" in outcome.status.message
        assert sidecar.recorder.of("effect_settled") == [("shop", "book", "unknown")]
        assert [each[0] for each in sidecar.recorder.of("anomaly")].count("effect_unknown") == 1


@pytest.mark.parametrize("operation", [ToolOperation.READ, ToolOperation.IDEMPOTENT])
async def test_what_may_be_repeated_is_repeated_as_before(operation: ToolOperation) -> None:
    """An idempotent call has one key over both attempts, and nothing of it is on record; a read has none."""
    async with running_sidecar_for_tests(cards=(books(operation),), rules=AT_ONCE) as sidecar:
        sidecar.connector.reply = lambda call: EnricherRefused(RefusalKind.TIMEOUT)

        outcome = await dispatched(sidecar, Booking(fail=1))

        assert (outcome.attempts, len(sidecar.connector.calls)) == (2, 2)
        assert len(set(keys(sidecar))) == 1
        assert (keys(sidecar)[0] is None) == (operation is ToolOperation.READ)
        assert sidecar.recorder.of("effect_settled") == []


async def test_another_attempt_gets_the_answer_of_the_effect_that_was_done() -> None:
    """It is not sent again, not even with the same key: the service need not know keys."""
    async with running_sidecar_for_tests(cards=(books(),), rules=AT_ONCE) as sidecar:
        sidecar.connector.reply = lambda call: an_envelope(call, payload={"table": 7})
        booking = Booking(fail=1)

        outcome = await dispatched(sidecar, booking)

        assert (outcome.attempts, outcome.narration) == (2, "booked")
        assert len(sidecar.connector.calls) == 1
        assert [json.loads(each or "") for each in booking.got] == [{"table": 7}, {"table": 7}]
        assert [each[2] for each in sidecar.recorder.of("effect_settled")] == ["done", "repeated"]


async def test_the_same_call_twice_in_an_attempt_is_two_calls() -> None:
    """Two keys, two effects; the second attempt finds both."""
    async with running_sidecar_for_tests(cards=(books(),), rules=AT_ONCE) as sidecar:
        sidecar.connector.reply = an_envelope

        await dispatched(sidecar, Booking(fail=1, said={1: [SIX, SIX], 2: ['{"at":"19:00","people":6}', SIX]}))

        assert len(sidecar.connector.calls) == len(set(keys(sidecar))) == 2


async def test_another_attempt_cannot_do_it_with_other_arguments() -> None:
    """A model that words its call otherwise would book a second table."""
    async with running_sidecar_for_tests(cards=(books(),), rules=AT_ONCE) as sidecar:
        sidecar.connector.reply = an_envelope
        booking = Booking(fail=1, said={2: ['{"people": 6, "at": "7 pm"}', SIX, '{"people": 2}']})

        await dispatched(sidecar, booking)

        assert len(booking.refusals) == 1
        assert "same arguments" in booking.refusals[0]
        assert len(sidecar.connector.calls) == 2, "once the earlier call was repeated, there may be another one"


@pytest.mark.parametrize(
    ("reply", "result"),
    [
        (EnricherRefused(RefusalKind.UNAVAILABLE, sent=False), "not_sent"),
        (EnricherRefused(RefusalKind.MISSING_PRINCIPAL), "refused"),
    ],
)
async def test_what_did_not_happen_is_tried_again_under_the_same_key(reply: Any, result: str) -> None:
    """By another attempt of the child, once the connector or the service has said that nothing happened."""
    async with running_sidecar_for_tests(cards=(books(),), rules=AT_ONCE) as sidecar:
        answers = iter([reply])
        sidecar.connector.reply = lambda call: next(answers, None) or an_envelope(call)

        outcome = await dispatched(sidecar, Booking(fail=1))

        assert (outcome.attempts, outcome.narration) == (2, "booked")
        assert len(sidecar.connector.calls) == 2
        assert len(set(keys(sidecar))) == 1
        assert [each[2] for each in sidecar.recorder.of("effect_settled")] == [result, "done"]


async def test_an_attempt_that_ends_while_an_effect_is_on_its_way_ends_unknown() -> None:
    """Out of time, cancelled, or with an answer that did not wait for it."""
    late = asyncio.Event()
    async with running_sidecar_for_tests(
        cards=(books(attempt_timeout=timedelta(milliseconds=100)),), rules=AT_ONCE
    ) as sidecar:

        async def waits(call: EnricherCall) -> EnricherAnswer:
            await late.wait()
            return an_envelope(call)

        sidecar.connector.reply = waits
        outcome = await dispatched(sidecar, Booking())
        late.set()

        assert outcome.status.reason == ErrorReason.ERROR_REASON_EFFECT_UNKNOWN
        assert (outcome.attempts, len(sidecar.connector.calls)) == (1, 1)


async def test_a_takeover_does_not_repeat_an_effect_that_may_have_happened() -> None:
    """Its sidecar died between sending and answering; the one that comes back has no say any more."""
    async with two_sidecars(books(max_retries=3), **AT_ONCE) as pair:
        asked, late = asyncio.Event(), asyncio.Event()

        async def waits(call: EnricherCall) -> EnricherAnswer:
            asked.set()
            await late.wait()
            return an_envelope(call)

        pair.first.connector.reply = waits
        pair.first.runner.use("shop", Booking())
        bound = await pair.first.bind()
        listening = asyncio.create_task(failure_of(pair.first.dispatch(bound, "ask_shop", dispatch_id="d-1")))
        await asked.wait()
        pair.kill_first()

        resumed = await pair.second.resume(bound, "d-1")

        assert resumed.of("call-1").status.reason == ErrorReason.ERROR_REASON_EFFECT_UNKNOWN
        assert pair.second.runner.started == []
        assert len(pair.first.connector.calls) == 1
        late.set()
        await pair.second.end(bound)
        events = pair.events_of(resumed.of("call-1").child_id)
        assert events[-4:] == ["effect_sent", "taken_over", "subagent_failed", "subagent_closed"]
        listening.cancel()


async def test_a_sidecar_that_lost_the_dispatch_cannot_send_an_effect() -> None:
    """It was away for longer than its lease: the record refuses the key, hence the request does not leave."""
    async with two_sidecars(books(max_retries=3), **AT_ONCE) as pair:
        may_book, booking = asyncio.Event(), Booking()

        async def waits(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
            await may_book.wait()
            async for event in booking(request, runner):
                yield event

        pair.first.runner.use("shop", waits)
        pair.second.runner.use("shop", Booking())
        pair.second.connector.reply = an_envelope
        bound = await pair.first.bind()
        listening = asyncio.create_task(failure_of(pair.first.dispatch(bound, "ask_shop", dispatch_id="d-1")))
        await pair.first.runner.until_started("shop")
        pair.kill_first()
        resumed = await pair.second.resume(bound, "d-1")
        may_book.set()

        await listening

        assert resumed.outcomes == ["SUCCEEDED"]
        assert (len(pair.first.connector.calls), len(pair.second.connector.calls)) == (0, 1)
        assert pair.first.recorder.of("effect_settled") == [("shop", "book", "not_sent")]
