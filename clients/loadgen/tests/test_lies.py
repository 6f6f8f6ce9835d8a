import pytest

from clients.loadgen.tests.support.lying_sidecar_host import Lie, LyingSidecar, served
from subagents_loadgen.__main__ import exit_code
from subagents_loadgen.report import Report, as_json
from subagents_loadgen.run_request import understood
from subagents_loadgen.running import NotMeasured, run
from subagents_loadgen.text import as_text


async def report_of(servicer: LyingSidecar, *more: str) -> Report:
    """Send five operations of two calls, one after the other."""
    async with served(servicer, over_tcp="--channels" in more) as target:
        given = ("--target", target, "--in-flight", "1", "--requests", "5", "--warm-up", "0s", "--fan-out", "2")
        return await run(understood([*given, *more]))


async def test_an_honest_server_has_no_violation() -> None:
    """Otherwise the tests of lies would show nothing."""
    report = await report_of(LyingSidecar())
    assert dict(report.tally.violations) == {}
    assert report.tally.outcomes == {"SUCCEEDED": 10}
    assert exit_code(report, 1.0) == 0
    assert "no violation of the contract" in as_text(report)


LIES: dict[str, Lie] = {
    "outcomes are not in emission order": lambda outcomes: outcomes.reverse(),
    "a call has no outcome": lambda outcomes: outcomes.pop(),
    "a call has two outcomes": lambda outcomes: outcomes.append(outcomes[0]),
    "the stream ended without a result": lambda outcomes: outcomes.clear(),
}


@pytest.mark.parametrize("violation", LIES)
async def test_a_lie_over_the_wire_is_counted_and_ends_with_1(violation: str) -> None:
    """Five operations, five violations, also those that nobody measured."""
    report = await report_of(LyingSidecar(LIES[violation]))
    assert report.tally.violations[violation] == 5
    assert exit_code(report, 1.0) == 1
    assert f"{5:>9}  {violation}" in as_text(report)
    assert as_json(report)["violations"][violation] == 5


async def test_a_lie_in_a_unary_answer_is_counted() -> None:
    """The outcomes are looked at in the same way."""
    report = await report_of(LyingSidecar(lambda outcomes: outcomes.reverse()), "--scenario", "unary")
    assert dict(report.tally.violations) == {"outcomes are not in emission order": 5}


async def test_a_lie_during_the_warm_up_counts_too() -> None:
    """Nothing is measured, and yet the server lies."""
    async with served(LyingSidecar(lambda outcomes: outcomes.reverse())) as target:
        given = ("--target", target, "--rate", "100", "--duration", "0s", "--warm-up", "20ms", "--fan-out", "2")
        report = await run(understood(given))
    assert report.tally.whole.count == 0
    assert report.tally.violations.total() == report.tally.warm_up == 2
    assert "nothing was measured: the warm-up took up everything" in report.warnings()


async def test_a_stream_that_is_to_be_resumed_is_left_first() -> None:
    """The server sends the outcomes to nobody but the one who resumes, and only if the dispatch was to go on."""
    servicer = LyingSidecar()
    report = await report_of(servicer, "--resume", "100%")
    assert (dict(report.tally.violations), dict(report.tally.errors)) == ({}, {})
    assert report.tally.outcomes == {"SUCCEEDED": 10}
    assert len(servicer.left) == report.tally.steps["resume"].count == 5


async def test_channels_are_connections_of_their_own() -> None:
    """Three, each used; what the operations consist of follows the seed."""
    first, second, other = LyingSidecar(), LyingSidecar(), LyingSidecar()
    await report_of(first, "--channels", "3")
    await report_of(second)
    await report_of(other, "--seed", "2")
    assert len(first.peers) == 3
    assert len(first.principals) == 3 + 5
    assert first.principals[3:] == second.principals[1:] != other.principals[1:]


async def test_a_surface_without_tools_is_an_error_not_a_hang() -> None:
    """There is nothing to call."""
    servicer = LyingSidecar()
    servicer.surface.surface.ClearField("sub_agent_tools")
    report = await report_of(servicer)
    assert dict(report.tally.errors) == {"dispatch - THE_SURFACE_IS_EMPTY": 5}
    assert exit_code(report, 0.5) == 1


async def test_a_server_that_is_not_there_is_not_measured() -> None:
    """The message says so instead of a table of errors."""
    async with served(LyingSidecar()) as target:
        pass
    with pytest.raises(NotMeasured, match="no server listens there"):
        await run(understood(["--target", target, "--in-flight", "1"]))
