import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from subagents_errors import CallFailure
from subagents_loadgen.__main__ import exit_code
from subagents_loadgen.report import Report
from subagents_loadgen.run_request import understood
from subagents_loadgen.running import NotMeasured, run
from tests.support.fake_runner import waits_for
from tests.support.harness import SECRET, SidecarForTests, running_sidecar_for_tests


@asynccontextmanager
async def a_sidecar(**setup: Any) -> AsyncIterator[SidecarForTests]:
    """Serve, with the boot secret in a file."""
    async with running_sidecar_for_tests(**setup) as sidecar:
        (sidecar.folder / "secret").write_text(SECRET)
        yield sidecar


async def loaded(sidecar: SidecarForTests, arguments: str) -> Report:
    """Run the load generator against it."""
    where = ["--target", sidecar.dispatch_target, "--boot-secret-file", str(sidecar.folder / "secret")]
    return await run(understood([*where, "--warm-up", "0s", *arguments.split()]))


@pytest.mark.parametrize("scenario", ["turn", "unary"])
async def test_whole_turns_keep_every_promise(scenario: str) -> None:
    """A closed loop over two connections; calls beyond the cap of three are dropped, the others succeed."""
    async with a_sidecar() as sidecar:
        report = await loaded(sidecar, f"--in-flight 3 --requests 12 --channels 2 --fan-out 1,5 --scenario {scenario}")
    assert dict(report.tally.violations) == {}
    assert dict(report.tally.errors) == {}
    assert report.tally.whole.count == 12
    assert set(report.tally.outcomes) == {"SUCCEEDED", "DROPPED OVER_CAP"}
    assert {"bind", "dispatch", "end"} <= set(report.tally.steps)
    assert exit_code(report, 0.0) == 0


async def test_an_open_loop_of_bindings_ends_what_it_binds() -> None:
    """Ten turns at random moments, and one of the probe; none is left open."""
    async with a_sidecar() as sidecar:
        report = await loaded(sidecar, "--rate 200 --arrivals poisson --requests 10 --scenario bind")
        assert len(sidecar.recorder.of("turn_routed")) == 11
    assert report.tally.whole.count == 10
    assert "dispatch" not in report.tally.steps
    assert exit_code(report, 0.0) == 0


async def test_streams_that_are_left_are_resumed_without_loss() -> None:
    """Every one, whether or not it was over already."""
    async with a_sidecar() as sidecar:
        report = await loaded(sidecar, "--in-flight 2 --requests 6 --fan-out 2 --resume 100%")
    assert dict(report.tally.violations) == {}
    assert report.tally.steps["resume"].count == 6
    assert report.tally.outcomes == {"SUCCEEDED": 12}


async def test_a_cancelled_call_is_one_outcome_among_others() -> None:
    """Sub-agents never answer, so that every call of the one-call dispatches is cancelled."""
    never = asyncio.Event()
    async with a_sidecar() as sidecar:
        for slot in ("shop", "rewards", "support"):
            sidecar.runner.use(slot, waits_for(never))
        report = await loaded(sidecar, "--in-flight 2 --requests 4 --cancel 100%")
    assert dict(report.tally.violations) == {}
    assert report.tally.steps["cancel"].count == 4
    assert set(report.tally.outcomes) <= {f"FAILED {CallFailure.CALL_CANCELLED}", "NOT_STARTED CALL_CANCELLED"}


async def test_a_resumed_dispatch_can_have_a_cancelled_call() -> None:
    """Both at once."""
    async with a_sidecar() as sidecar:
        sidecar.runner.use("shop", waits_for(asyncio.Event()))
        report = await loaded(sidecar, "--in-flight 1 --requests 2 --cancel 100% --resume 100% --tools ask_shop")
    assert dict(report.tally.violations) == {}
    assert report.tally.steps["resume"].count == report.tally.steps["cancel"].count == 2


async def test_failed_rpcs_are_counted_by_status_and_reason() -> None:
    """A dispatch of 65 calls is refused; the turn is ended all the same, and the share of failures is a verdict."""
    async with a_sidecar() as sidecar:
        report = await loaded(sidecar, "--in-flight 1 --requests 2 --fan-out 65")
        assert len(sidecar.recorder.of("turn_routed")) == 3
    assert dict(report.tally.errors) == {"dispatch INVALID_ARGUMENT INVALID_REQUEST": 2}
    assert dict(report.tally.violations) == {}
    assert report.tally.failed.count == 2
    assert (exit_code(report, 1.0), exit_code(report, 0.5)) == (0, 1)


async def test_a_tool_that_is_not_bound_is_an_outcome() -> None:
    """The model's mistake, asked for on purpose."""
    async with a_sidecar() as sidecar:
        report = await loaded(sidecar, "--in-flight 1 --requests 1 --tools ask_nobody")
    assert report.tally.outcomes == {"REFUSED UNKNOWN_TOOL": 1}
    assert dict(report.tally.violations) == {}


async def test_a_wrong_secret_is_explained() -> None:
    """Before any load is sent."""
    async with a_sidecar() as sidecar:
        (sidecar.folder / "secret").write_text("wrong")
        with pytest.raises(NotMeasured, match="BOOT_SECRET_WRONG: say --boot-secret-file"):
            await loaded(sidecar, "--in-flight 1")
