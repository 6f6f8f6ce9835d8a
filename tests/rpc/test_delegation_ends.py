"""How a delegation ends when whoever waits for it does."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

from sidecar.core.executing.records import ChildOpened
from sidecar.core.executing.retries import RetryRules
from sidecar.policy.protocols import NarrationPart, RunFinished, RunnerError, RunnerEvent, RunRequest, StatusReported
from subagents.dispatch.v1 import dispatch_pb2 as pb
from tests.support.builders import a_card, with_limits
from tests.support.data_tools import a_card_with_tools, an_envelope
from tests.support.enum_words import word
from tests.support.fake_runner import Script, ScriptedRunner, hangs
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.records import StoreThatCanBeAway, event_named, event_names, events_of, kept
from tests.support.requests import failure_of
from tests.support.requirement import requirement

DELEGATING = with_limits(a_card("shop"), max_delegation_depth=2)


def asks(*tool_names: str) -> Script:
    """Return a script that asks one sub-agent after the other."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        for name in tool_names:
            await runner.delegate(request.grant, name)
        yield NarrationPart("done")
        yield RunFinished()

    return script


async def started(sidecar: SidecarForTests, *slots: str, **fields: Any) -> tuple[pb.BindTurnResponse, Any]:
    """Dispatch to the shop and return turn and reading once `slots` have started."""
    bound = await sidecar.bind()
    reading = asyncio.ensure_future(sidecar.dispatch(bound, "ask_shop", **fields))
    await sidecar.runner.until_started(*slots)
    return bound, reading


def end_of(sidecar: SidecarForTests, slot: str) -> tuple[str, str, bool]:
    """Return why the one child of a slot failed, how it was closed, and that its log ends there."""
    (row,) = [row for row in kept(sidecar, ChildOpened) if row.slot == slot]
    failed, closed = event_named(sidecar, row.child_id, "failed"), event_named(sidecar, row.child_id, "closed")
    last = events_of(sidecar, row.child_id)[-1]
    return failed.details()["cause"], closed.details()["final_status"], last == closed


@requirement("SX-16", "SX-25")
async def test_when_who_asked_is_cancelled_everybody_below_is_stopped_and_closed() -> None:
    """A chain of three, the call is cancelled: both below are closed before its outcome is told, no grant lives."""
    cards = [DELEGATING, with_limits(a_card("rewards"), max_delegation_depth=2), a_card("support")]
    async with running_sidecar_for_tests(cards=cards) as sidecar:
        sidecar.runner.use("shop", asks("ask_rewards"))
        sidecar.runner.use("rewards", asks("ask_support"))
        sidecar.runner.use("support", hangs())
        bound, reading = await started(sidecar, "shop", "rewards", "support", dispatch_id="d-1")
        cancel = pb.CancelCallRequest(surface_token=bound.surface_token, dispatch_id="d-1", call_id="call-1")
        await sidecar.stub.CancelCall(cancel, metadata=sidecar.metadata)

        reply = await reading

        assert reply.outcomes == ["FAILED"]
        assert end_of(sidecar, "rewards") == ("CALL_CANCELLED", "failed", True)
        assert end_of(sidecar, "support") == ("CALL_CANCELLED", "failed", True)
        assert sidecar.operations.grants.alive == 0
        await sidecar.end(bound)


@requirement("SX-28", "SX-16")
async def test_an_attempt_that_times_out_takes_its_delegation_with_it_and_the_next_may_ask_again() -> None:
    """The first attempt waits for one that hangs; the second asks anew, and both delegations are closed."""
    patient = with_limits(DELEGATING, attempt_timeout=timedelta(seconds=1), max_retries=1)
    rules = {"retries": RetryRules(first_backoff=0.001, longest_backoff=0.002)}
    async with running_sidecar_for_tests(cards=[patient, a_card("rewards")], rules=rules) as sidecar:
        runs: list[str] = []

        async def hangs_first(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
            runs.append(request.child_id)
            if len(runs) == 1:
                await asyncio.Event().wait()
            yield NarrationPart("here")
            yield RunFinished()

        sidecar.runner.use("shop", asks("ask_rewards"))
        sidecar.runner.use("rewards", hangs_first)
        bound = await sidecar.bind()
        reply = await sidecar.dispatch(bound, "ask_shop")
        child_id = reply.of("call-1").child_id

        assert (reply.outcomes, reply.of("call-1").attempts) == (["SUCCEEDED"], 2)
        assert [event_names(sidecar, each)[-1] for each in runs] == ["closed", "closed"]
        assert event_names(sidecar, child_id).count("delegated") == 2
        repeated = event_named(sidecar, child_id, "attempt_repeated")
        assert repeated.details() == {"reason": "ATTEMPT_TIMEOUT"}
        assert repeated.summary.startswith("attempt 1 failed")
        assert [row.step_idx for row in kept(sidecar, ChildOpened)] == [0, 1, 2]


async def test_a_failure_that_passes_is_told_with_the_attempt_that_follows() -> None:
    """Two attempts: the event stands between them and says why; a child of one attempt has none."""
    rules = {"retries": RetryRules(first_backoff=0.001, longest_backoff=0.002)}
    async with running_sidecar_for_tests(
        cards=[with_limits(a_card("shop"), max_retries=1), a_card("rewards")], rules=rules
    ) as sidecar:

        async def recovers(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
            if request.attempt == 1:
                raise RunnerError("passing", transient=True)
            yield NarrationPart("here")
            yield RunFinished()

        sidecar.runner.use("shop", recovers)
        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop", "ask_rewards")

        names = event_names(sidecar, reply.of("call-1").child_id)
        assert names[2:5] == ["attempt", "attempt_repeated", "attempt"]
        assert "attempt_repeated" not in event_names(sidecar, reply.of("call-2").child_id)


async def test_the_grant_of_whom_was_asked_is_dead_when_its_attempt_is_over() -> None:
    """Who asked goes on working; what it learned of the other's grant opens nothing."""
    grants: list[str] = []
    reasons: list[str] = []
    cards = [DELEGATING, a_card_with_tools("rewards", "offers")]
    async with running_sidecar_for_tests(cards=cards) as sidecar:
        inner = asks("ask_rewards")

        async def tries(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
            async for event in inner(request, runner):
                if isinstance(event, NarrationPart):
                    reasons.append((await failure_of(runner.call_tool(grants[0], "offers", "{}"))).reason)
                    reasons.append((await failure_of(runner.delegate(grants[0], "ask_shop"))).reason)
                yield event

        async def leaks(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
            grants.append(request.grant)
            yield NarrationPart("here")
            yield RunFinished()

        sidecar.connector.reply = an_envelope
        sidecar.runner.use("shop", tries)
        sidecar.runner.use("rewards", leaks)
        await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        assert reasons == ["GRANT_SPENT", "GRANT_SPENT"]
        assert sidecar.connector.calls == []


async def test_the_end_of_the_turn_ends_what_was_delegated() -> None:
    """The turn is ended while somebody below hangs: everything is closed, and the end is on record."""
    async with running_sidecar_for_tests(cards=[DELEGATING, a_card("rewards")]) as sidecar:
        sidecar.runner.use("shop", asks("ask_rewards"))
        sidecar.runner.use("rewards", hangs())
        bound, reading = await started(sidecar, "shop", "rewards")

        ended = await sidecar.end(bound)
        await reading

        assert [word(each, "final_status") for each in ended.children] == ["failed", "failed"]
        assert end_of(sidecar, "rewards")[1:] == ("failed", True)
        assert sidecar.operations.grants.alive == 0


async def test_nobody_starts_below_while_the_store_is_away() -> None:
    """The delegation is refused before anybody is called; the turn ends when the store is back, with nothing open."""
    store = StoreThatCanBeAway()
    reasons: list[str] = []
    async with running_sidecar_for_tests(cards=[DELEGATING, a_card("rewards")], store=store) as sidecar:

        async def asks_without(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
            store.away = True
            reasons.append((await failure_of(runner.delegate(request.grant, "ask_rewards"))).reason)
            store.away = False
            yield NarrationPart("done")
            yield RunFinished()

        sidecar.runner.use("shop", asks_without)
        bound = await sidecar.bind()
        reply = await sidecar.dispatch(bound, "ask_shop")
        await sidecar.end(bound)

        assert (reasons, reply.outcomes, sidecar.runner.started) == (["STORE_UNAVAILABLE"], ["SUCCEEDED"], ["shop"])


async def test_an_opening_that_was_kept_although_it_was_not_confirmed_is_closed_with_the_turn() -> None:
    """The answer of the store is lost: nobody starts below, and the child that is on record is closed at the end."""
    store = StoreThatCanBeAway()
    async with running_sidecar_for_tests(cards=[DELEGATING, a_card("rewards")], store=store) as sidecar:

        async def asks_into_silence(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
            store.is_cut_off = True
            await failure_of(runner.delegate(request.grant, "ask_rewards"))
            store.is_cut_off = False
            yield NarrationPart("done")
            yield RunFinished()

        sidecar.runner.use("shop", asks_into_silence)
        bound = await sidecar.bind()
        await sidecar.dispatch(bound, "ask_shop")
        await sidecar.end(bound)

        assert sidecar.runner.started == ["shop"]
        assert end_of(sidecar, "rewards")[1:] == ("failed", True)


async def test_who_waits_for_another_is_not_silent() -> None:
    """The idle limit is 0.5 s, and the sub-agent below works for longer: the call succeeds, and the client sees it."""
    watched = with_limits(DELEGATING, idle_timeout=timedelta(milliseconds=500))
    async with running_sidecar_for_tests(cards=[watched, a_card("rewards")]) as sidecar:

        async def slow(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
            yield StatusReported("searching_offers")
            late = asyncio.Event()
            asyncio.get_running_loop().call_later(0.7, late.set)
            await late.wait()
            yield NarrationPart("here")
            yield RunFinished()

        sidecar.runner.use("shop", asks("ask_rewards"))
        sidecar.runner.use("rewards", slow)
        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        assert reply.outcomes == ["SUCCEEDED"]
        statuses = [event.status for event in reply.events if event.HasField("status")]
        assert [(each.type, list(each.sub_agent_ids)) for each in statuses] == [("searching_offers", ["shop"])]
