"""Which failures stop calls to a host for a while, and whose calls they stop."""

from collections.abc import AsyncGenerator
from datetime import timedelta

import pytest

from sidecar.core.executing.retries import BreakerRules
from sidecar.core.faults import Fault
from sidecar.policy.protocols import NarrationPart, RunFinished, RunnerError, RunnerEvent, RunRequest
from subagents.errors.v1 import error_reason_pb2 as errors_pb
from tests.support.builders import a_card, with_limits
from tests.support.data_tools import a_card_with_tools, an_envelope
from tests.support.fake_runner import ScriptedRunner, answers, ends_early, hangs, lies, raises
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.records import event_named
from tests.support.requirement import requirement

RULES = {"breaker": BreakerRules(failures=2, open_for=60.0)}
QUICK = timedelta(milliseconds=50)
AWAY = RunnerError("no such host", unreachable=True)


async def reasons(sidecar: SidecarForTests, tool: str, times: int) -> list[str]:
    """Call one sub-agent several times, one after the other; return why each call failed."""
    bound = await sidecar.bind()
    replies = [await sidecar.dispatch(bound, tool) for _ in range(times)]
    names = [errors_pb.ErrorReason.Name(reply.of("call-1").status.reason) for reply in replies]
    return [name.removeprefix("ERROR_REASON_") for name in names]


@requirement("PC2-D-47")
@pytest.mark.parametrize("error", [ValueError("a defect"), AWAY], ids=["raises", "unreachable"])
async def test_failures_of_one_sub_agent_stop_no_other_on_the_same_host(error: Exception) -> None:
    """Shop fails six times; support, which the same host runs, still answers."""
    async with running_sidecar_for_tests(rules=RULES) as sidecar:
        sidecar.runner.use("shop", raises(error))
        await reasons(sidecar, "ask_shop", 6)

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_support")

        assert reply.outcomes == ["SUCCEEDED"]


@pytest.mark.parametrize(
    "script",
    [raises(ValueError("a defect")), raises(RunnerError("busy", transient=True)), lies(), ends_early()],
    ids=["raises", "host error", "wrong component", "no end"],
)
async def test_errors_of_the_sub_agent_never_open_a_breaker(script: object) -> None:
    """Six in a row: the host is asked every time."""
    async with running_sidecar_for_tests(rules=RULES) as sidecar:
        sidecar.runner.use("shop", script)  # type: ignore[arg-type]  # one of the scripts above

        failed = await reasons(sidecar, "ask_shop", 6)

        assert "RUNNER_BREAKER_OPEN" not in failed
        assert len(sidecar.runner.started) == 6


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (raises(AWAY), "RUNNER_UNAVAILABLE"),
        (raises(RunnerError("reset", connection_lost=True), after="so far"), "RUNNER_FAILED"),
        (hangs(), "ATTEMPT_TIMEOUT"),
    ],
    ids=["unavailable", "connection lost", "no first message in time"],
)
async def test_transport_faults_in_a_row_open_the_breaker(script: object, reason: str) -> None:
    """The third call is not sent out, and says so; the operator is told once, with slot and target."""
    cards = [with_limits(a_card("shop"), attempt_timeout=QUICK)]
    async with running_sidecar_for_tests(cards=cards, rules=RULES) as sidecar:
        sidecar.runner.use("shop", script)  # type: ignore[arg-type]  # one of the scripts above

        assert await reasons(sidecar, "ask_shop", 3) == [reason, reason, "RUNNER_BREAKER_OPEN"]

        opened = [each[1] for each in sidecar.recorder.of("anomaly") if each[0] == "breaker_opened"]
        assert opened == ["shop, scripted"]


async def test_a_slow_sub_agent_that_has_asked_for_data_is_there() -> None:
    """It reports nothing and runs out of time, but uses its grant: the breaker stays closed."""

    async def asks_and_hangs(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        await runner.call_tool(request.grant, "offers", "{}")
        async for event in hangs()(request, runner):
            yield event

    card = with_limits(a_card_with_tools("shop", "offers"), attempt_timeout=timedelta(milliseconds=700))
    async with running_sidecar_for_tests(cards=[card], rules=RULES) as sidecar:
        sidecar.runner.use("shop", asks_and_hangs)
        sidecar.connector.reply = an_envelope

        assert await reasons(sidecar, "ask_shop", 3) == ["ATTEMPT_TIMEOUT"] * 3


async def test_a_probe_that_meets_an_error_of_the_sub_agent_closes_the_breaker() -> None:
    """The host is back, though shop raises: the next call is sent out at once."""
    rules = {"breaker": BreakerRules(failures=1, open_for=0.0)}
    async with running_sidecar_for_tests(rules=rules) as sidecar:
        sidecar.runner.use("shop", raises(AWAY))
        await reasons(sidecar, "ask_shop", 1)
        sidecar.runner.use("shop", raises(ValueError("a defect")))
        await reasons(sidecar, "ask_shop", 1)
        sidecar.runner.use("shop", answers())

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        assert reply.outcomes == ["SUCCEEDED"]


async def test_a_host_that_is_away_is_named_in_log_and_timeline() -> None:
    """One line and one event each: target, address, errno and what to do."""
    fault = Fault("unix:/run/shop.sock", "unix:/run/shop.sock", "ENOENT", "start it")
    away = RunnerError("no such file", unreachable=True, fault=fault)
    cards = [with_limits(a_card("shop"), max_retries=1)]
    async with running_sidecar_for_tests(cards=cards) as sidecar:
        sidecar.runner.use("shop", raises(away))

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        failed = event_named(sidecar, reply.of("call-1").child_id, "failed")
        assert failed.summary == "failed: RUNNER_UNAVAILABLE, unix:/run/shop.sock (ENOENT)"
        assert failed.details() == {"cause": "RUNNER_UNAVAILABLE", "detail": "no such file", **fault.details()}
        [(kind, text, about)] = sidecar.recorder.of("anomaly")
        assert kind == "runner_unreachable"
        assert text == "shop cannot be run, unix:/run/shop.sock (ENOENT): start it"
        assert about == {"sub_agent_id": "shop", **fault.details()}


async def test_what_a_sub_agent_says_before_it_fails_makes_its_failure_no_fault_of_the_host() -> None:
    """It narrates, then hangs: a timeout, without a word about the way to the host."""

    async def begins(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        yield NarrationPart("So far so good.")
        async for event in hangs()(request, runner):
            yield event
        yield RunFinished()

    cards = [with_limits(a_card("shop"), attempt_timeout=QUICK)]
    async with running_sidecar_for_tests(cards=cards, rules=RULES) as sidecar:
        sidecar.runner.use("shop", begins)

        assert await reasons(sidecar, "ask_shop", 3) == ["ATTEMPT_TIMEOUT"] * 3
        assert sidecar.recorder.of("anomaly") == []
