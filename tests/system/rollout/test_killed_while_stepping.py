"""A sidecar that is killed in the middle of a step: the next one finds each step taken whole or not at all."""

import asyncio
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from examples.gates.switches import Behaviour, Switch
from subagents.lifecycle.v1 import lifecycle_pb2, reading_pb2
from tests.support.enum_words import word
from tests.support.postgres import PostgresServer
from tests.support.sidecar_process import SidecarProcess, place
from tests.system.rollout.operating import FLAG, SUBAGENT, GatedOperator, an_operator

pytestmark = [pytest.mark.system, pytest.mark.seconds(120)]

TEST, PROMOTE = reading_pb2.LIFECYCLE_STATE_TEST, reading_pb2.LIFECYCLE_STATE_PROMOTE
HANG = Switch(behaviour=Behaviour.HANG)
MOMENTS = (0.002, 0.015)
"""Seconds after which a step is interrupted: while it is asked about, written, answered."""


@pytest.fixture(params=["sqlite", "postgresql"])
def dsn(request: pytest.FixtureRequest) -> str:
    """Where the record is; empty: in a file."""
    if request.param == "sqlite":
        return ""
    server: PostgresServer = request.getfixturevalue("server")
    return server.dsn(server.new_database())


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of its own, with definitions."""
    with place() as path:
        yield path


async def killed(sidecar: SidecarProcess) -> None:
    """Kill the process, at once."""
    sidecar.signal(signal.SIGKILL)
    await sidecar.ended()


async def test_a_step_that_waited_for_its_gate_has_moved_nothing_and_can_be_repeated(folder: Path, dsn: str) -> None:
    """Promotion and a raise, each killed with its question still open; the same request is then taken once."""
    async with an_operator(folder, dsn=dsn) as operator:
        async with operator.serving() as sidecar:
            await operator.step("Transition", target_state=TEST)
            promoted = await _interrupted(operator, sidecar, "Transition", target_state=PROMOTE)
        async with operator.serving() as sidecar:
            waiting = await operator.definition()
            await operator.take("Transition", promoted, target_state=PROMOTE)
            await operator.step("SetRamp", ramp_basis_points=100)
            raised = await _interrupted(operator, sidecar, "SetRamp", ramp_basis_points=9000)
        async with operator.serving():
            held = await operator.definition()
            served = await operator.offers("turn-1"), await operator.offers("turn-2", "user-0")
            again = await operator.take("SetRamp", raised, ramp_basis_points=9000)
            twice = await operator.take("SetRamp", raised, ramp_basis_points=9000)
            rows = [row for row in await operator.audit() if row.request_id == raised.request_id]

    assert (waiting.state, waiting.flag_pair) == (TEST, reading_pb2.FLAG_PAIR_NAMED)
    assert (held.state, held.ramp_basis_points) == (PROMOTE, 100)
    assert [f"ask_{SUBAGENT}" in offered for offered in served] == [True, False]
    assert (again.changed, again.repeated, twice.repeated) == (True, False, True)
    assert [word(row.rollout, "kind") for row in rows] == ["ramp_set"]


async def _interrupted(
    operator: GatedOperator, sidecar: SidecarProcess, method: str, **fields: int
) -> lifecycle_pb2.StepHeader:
    """Take a step, and kill the sidecar while its gate thinks; return the header."""
    operator.gates.switches.waiting.clear()
    header = await operator.header()
    operator.gates.switches.set(HANG)
    step = asyncio.create_task(operator.take(method, header, **fields))
    await operator.gates.switches.waiting.wait()
    await killed(sidecar)
    with pytest.raises(grpc.aio.AioRpcError):
        await step
    operator.gates.switches.clear()
    return header


async def test_steps_that_were_in_flight_are_taken_whole_or_not_at_all(folder: Path, dsn: str) -> None:
    """Killed again and again while an operator ramps: ramp, audit and the repeated request agree each time."""
    async with an_operator(folder, dsn=dsn) as operator:
        async with operator.serving() as sidecar:
            await operator.promoted(100)
            in_flight = await _killed_while_ramping(operator, sidecar, MOMENTS[0])
        async with operator.serving() as sidecar:
            await _taken_whole_or_not_at_all(operator, in_flight)
            in_flight = await _killed_while_ramping(operator, sidecar, MOMENTS[1])
        async with operator.serving():
            await _taken_whole_or_not_at_all(operator, in_flight)


@dataclass(frozen=True, slots=True)
class InFlight:
    """A step of the ramp whose answer nobody heard.

    Attributes:
        before, wanted: the ramp, in basis points.
    """

    header: lifecycle_pb2.StepHeader
    before: int
    wanted: int


async def _killed_while_ramping(operator: GatedOperator, sidecar: SidecarProcess, moment: float) -> InFlight:
    """Take two steps of the ramp, and kill a moment after the second was sent."""
    ramp = (await operator.definition()).ramp_basis_points
    before = (await operator.step("SetRamp", ramp_basis_points=ramp + 10)).ramp_basis_points
    header, wanted = await operator.header(), before + 10
    step = asyncio.create_task(operator.take("SetRamp", header, ramp_basis_points=wanted))
    await asyncio.wait([step], timeout=moment)
    await killed(sidecar)
    await asyncio.gather(step, return_exceptions=True)
    return InFlight(header, before, wanted)


async def _taken_whole_or_not_at_all(operator: GatedOperator, step: InFlight) -> None:
    """Look at the next sidecar, and repeat the request there."""
    found = (await operator.definition()).ramp_basis_points
    before = [row for row in await operator.audit() if word(row.rollout, "kind") == "ramp_set"]
    repeated = await operator.take("SetRamp", step.header, ramp_basis_points=step.wanted)
    after = [row for row in await operator.audit() if word(row.rollout, "kind") == "ramp_set"]
    flags = {each.name: each.value for each in (await operator.definition()).flags}

    assert found in {step.before, step.wanted}
    assert found == before[-1].rollout.after_basis_points
    assert [row.rollout.before_basis_points for row in after[1:]] == [
        row.rollout.after_basis_points for row in after[:-1]
    ]
    assert (repeated.ramp_basis_points, repeated.repeated) == (step.wanted, found == step.wanted)
    assert [row.request_id for row in after].count(step.header.request_id) == 1
    assert set(flags.values()) == {reading_pb2.FLAG_VALUE_ON}


async def test_a_kill_that_was_answered_holds_though_the_sidecar_is_killed_at_once(folder: Path, dsn: str) -> None:
    """One transition, one switch, nobody served; the next sidecar finds the flag off and fires nothing again."""
    async with an_operator(folder, dsn=dsn) as operator:
        async with operator.serving() as sidecar:
            await operator.promoted(9000)
            before = await operator.offers("turn-1")
            kill = operator.unread()
            await operator.take("Kill", kill)
            await killed(sidecar)
        async with operator.serving():
            after = await operator.offers("turn-2")
            again = await operator.take("Kill", kill)
            rows = [row for row in await operator.audit() if row.HasField("transition")]
            one = await operator.definition()

    assert (f"ask_{SUBAGENT}" in before, f"ask_{SUBAGENT}" in after) == (True, False)
    assert (again.repeated, one.state) == (True, reading_pb2.LIFECYCLE_STATE_ROLLBACK)
    assert [row.transition.target_state for row in rows].count(reading_pb2.LIFECYCLE_STATE_ROLLBACK) == 1
    assert {each.name: each.value for each in one.flags}[FLAG] == reading_pb2.FLAG_VALUE_OFF
