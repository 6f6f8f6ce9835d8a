"""What a connector that hangs, breaks or brings no data costs: its own tool call, and one line that says where."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from sidecar.core.faults import Fault
from sidecar.operations.plugin_calls import MOST_LEFT_BEHIND
from sidecar.policy.protocols import (
    EnricherAnswer,
    EnricherCall,
    EnricherRefused,
    NarrationPart,
    RefusalKind,
    RunFinished,
    RunnerEvent,
    RunRequest,
)
from tests.support.data_tools import a_card_with_tools, a_tool, an_envelope
from tests.support.fake_runner import ScriptedRunner, calls_tool
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.records import event_named
from tests.support.requirement import requirement

QUICK = timedelta(milliseconds=50)


class Stubborn:
    """A connector that goes on until `release` is set, however often it is cancelled."""

    def __init__(self) -> None:
        """Begin to hang."""
        self.release = asyncio.Event()
        self.running = 0

    async def __call__(self, call: EnricherCall) -> EnricherAnswer:
        """Hang."""
        self.running += 1
        while not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                continue
        self.running -= 1
        return an_envelope(call)


@asynccontextmanager
async def running(reply: Callable[[EnricherCall], Any], **chosen: Any) -> AsyncIterator[SidecarForTests]:
    """Serve a shop whose tool `offers` may take 50 ms, and a data service that does what `reply` does."""
    card = replace(a_card_with_tools("shop", "offers"), tools=(a_tool("offers", timeout=QUICK),))
    async with running_sidecar_for_tests(cards=[card], **chosen) as sidecar:
        sidecar.connector.reply = reply
        try:
            yield sidecar
        finally:
            if isinstance(reply, Stubborn):
                reply.release.set()


def reasons_of(sidecar: SidecarForTests) -> list[str]:
    """Return how each data call ended."""
    return [str(each[2]) for each in sidecar.recorder.of("data_call")]


@requirement("PC2-FR-12e")
async def test_a_connector_that_ignores_every_limit_is_answered_for_at_the_tools() -> None:
    """It never ends and ignores being cancelled: the sub-agent hears that there is no data, the operator `timeout`."""
    stubborn = Stubborn()
    async with running(stubborn) as sidecar:
        sidecar.runner.use("shop", calls_tool("offers"))

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        assert (reply.outcomes, reply.of("call-1").narration) == (["DEGRADED"], "got nothing;")
        withheld = event_named(sidecar, reply.of("call-1").child_id, "data_withheld").details()
        assert (withheld["reason"], withheld["target"]) == ("timeout", "http://data/offers")
        assert (reasons_of(sidecar), stubborn.running) == (["timeout"], 1)


async def test_a_hanging_connector_leaves_only_so_many_calls_behind() -> None:
    """Further calls of the tool are refused without reaching it, until those that hang have ended."""
    stubborn = Stubborn()
    async with running(stubborn) as sidecar:
        sidecar.runner.use("shop", calls_tool("offers", times=MOST_LEFT_BEHIND + 3))
        await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        assert len(sidecar.connector.calls) == stubborn.running == MOST_LEFT_BEHIND
        assert reasons_of(sidecar) == ["timeout"] * MOST_LEFT_BEHIND + ["unavailable"] * 3
        told = sidecar.recorder.of("anomaly")[-1]
        assert "restart the sidecar" in told[2]["remedy"]

        stubborn.release.set()
        sidecar.connector.reply = an_envelope
        sidecar.runner.use("shop", calls_tool("offers"))
        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")
        assert (reply.outcomes, stubborn.running) == (["SUCCEEDED"], 0)


async def test_calls_that_run_on_after_their_end_are_reported() -> None:
    """Once for each, with how many there are."""
    stubborn = Stubborn()
    async with running(stubborn, rules={"cancel_grace": QUICK}) as sidecar:
        sidecar.runner.use("shop", calls_tool("offers"))
        await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        async with asyncio.timeout(5):
            await sidecar.recorder.until("anomaly", "connector_hung")


@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt(), GeneratorExit(), SystemExit(3), asyncio.CancelledError(), RecursionError(), ValueError("x")],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_a_connector_raises_its_call_is_answered_and_the_process_lives(error: BaseException) -> None:
    """No data for the sub-agent, which still answers; the next call of the same connector is carried out."""

    async def breaks(call: EnricherCall) -> EnricherAnswer:
        await asyncio.sleep(0)
        raise error

    async with running(breaks) as sidecar:
        sidecar.runner.use("shop", calls_tool("offers"))
        broken = await sidecar.dispatch(await sidecar.bind(), "ask_shop")
        sidecar.connector.reply = an_envelope
        after = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        assert (broken.outcomes, after.outcomes) == (["DEGRADED"], ["SUCCEEDED"])
        assert reasons_of(sidecar) == ["unavailable", "released"]
        assert ("connector_broken", type(error).__name__) in sidecar.recorder.of("anomaly")


@pytest.mark.parametrize("reply", [None, "text", EnricherAnswer("text"), EnricherRefused("away")])  # type: ignore[arg-type]  # the mistakes
async def test_a_reply_of_a_wrong_type_is_no_data(reply: object) -> None:
    """Refused at the border, and told as the connector's defect."""
    async with running(lambda call: reply) as sidecar:
        sidecar.runner.use("shop", calls_tool("offers"))

        outcome = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        assert (outcome.outcomes, reasons_of(sidecar)) == (["DEGRADED"], ["unavailable"])
        assert sidecar.recorder.of("anomaly")[0] == ("connector_broken", f"returned a wrong {type(reply).__name__}")


async def test_a_sub_agent_that_gives_up_on_its_call_leaves_no_call_of_the_connector() -> None:
    """Its own deadline comes first: the connector is cancelled at once."""
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def hangs(call: EnricherCall) -> EnricherAnswer:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return an_envelope(call)

    async def gives_up(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        asking = asyncio.ensure_future(runner.call_tool(request.grant, "offers", "{}"))
        await begun.wait()
        asking.cancel()
        await cancelled.wait()
        yield NarrationPart("never mind")
        yield RunFinished(data_unavailable=True)

    async with running_sidecar_for_tests(cards=[a_card_with_tools("shop", "offers")]) as sidecar:
        sidecar.connector.reply = hangs
        sidecar.runner.use("shop", gives_up)

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        assert reply.outcomes == ["DEGRADED"]


@requirement("PC2-FR-12c")
async def test_data_that_is_withheld_has_one_line_and_one_event_that_name_the_service() -> None:
    """A service that is down: target, address, errno, remedy, and nothing of the user."""
    fault = Fault("http://data/offers", "data:80", "ECONNREFUSED", "start it")
    async with running(lambda call: EnricherRefused(RefusalKind.UNAVAILABLE, fault)) as sidecar:
        sidecar.runner.use("shop", calls_tool("offers"))

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        event = event_named(sidecar, reply.of("call-1").child_id, "data_withheld")
        assert event.summary == "offers: withheld, unavailable, data:80 (ECONNREFUSED)"
        assert event.details() == {"tool": "offers", "reason": "unavailable", **fault.details()}
        [(kind, text, about)] = sidecar.recorder.of("anomaly")
        assert (kind, text) == (
            "data_withheld",
            "shop got no data of offers, unavailable, data:80 (ECONNREFUSED): start it",
        )
        assert about == {"sub_agent_id": "shop", "tool_id": "offers", "reason": "unavailable", **fault.details()}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": "2.0.0"}, "version_mismatch"),
        ({"status": "error"}, "status_error"),
        ({"payload": 5}, "payload_invalid"),
    ],
)
async def test_data_that_a_check_withholds_says_what_to_do(changes: dict[str, Any], reason: str) -> None:
    """The connector had nothing to complain of: the reason alone tells the remedy."""
    async with running(lambda call: an_envelope(call, **changes)) as sidecar:
        sidecar.runner.use("shop", calls_tool("offers"))

        await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        [(kind, _, about)] = sidecar.recorder.of("anomaly")
        assert (kind, about["reason"], about["target"]) == ("data_withheld", reason, "http://data/offers")
        assert about["remedy"]
