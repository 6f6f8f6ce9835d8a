"""Something that a rollout needs is away while steps are taken: nothing moves by it, and nobody is served more.

Source: issue "Rollout of sub-agents", DESIGN section 8: an outage holds; unreachable is not off.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from examples.gates.switches import Behaviour, Switch
from subagents.lifecycle.v1 import lifecycle_pb2, reading_pb2
from tests.support.enum_words import word
from tests.support.postgres import PostgresServer
from tests.support.requests import Failure, failure_of
from tests.support.sidecar_process import next_look, place
from tests.system.rollout.operating import FLAG, SUBAGENT, GatedOperator, an_operator

pytestmark = [pytest.mark.system, pytest.mark.seconds(120)]

PROMOTE, ROLLBACK = reading_pb2.LIFECYCLE_STATE_PROMOTE, reading_pb2.LIFECYCLE_STATE_ROLLBACK
VERBS: dict[str, dict[str, Any]] = {
    "Transition": {"target_state": PROMOTE},
    "SetRamp": {"ramp_basis_points": 9000},
    "ConfigureRollout": {"mode": reading_pb2.ROLLOUT_MODE_FULL},
    "AcknowledgeBreach": {"breach_id": "floor-1"},
    "OverrideGate": {"gate": "pre_ramp", "ramp_basis_points": 9000},
    "RollBack": {},
    "Activate": {},
    "RetireFlags": {},
}
"""Every step that waits for the store, with what it asks for."""
FRESHNESS = """
[flag_refresh]
fetch_deadline = "1s"
refresh_interval = "200ms"
max_staleness = "2s"
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of its own, with definitions."""
    with place() as path:
        yield path


async def test_with_the_database_away_no_verb_moves_anything_and_what_is_known_goes_on(
    folder: Path, server: PostgresServer
) -> None:
    """Each verb is refused; back, all is as before; only the kill, which waits for nothing, has come about."""
    async with an_operator(folder, dsn=server.dsn(server.new_database())) as operator:
        async with operator.serving():
            await operator.promoted(100)
            before = await operator.status()
            headers = {verb: await operator.header() for verb in VERBS}
            server.kill()
            refused = {verb: await _refused(operator, verb, header) for verb, header in headers.items()}
            reading = await failure_of(operator.status())
            served = await operator.offers("turn-1"), await operator.offers("turn-2", "user-0")
            server.start_again()
            server.wait_until_it_answers()
            after = await _status_again(operator)
            server.kill()
            killed = await operator.take("Kill", operator.unread())
            gone = await operator.offers("turn-3")
            server.start_again()
            server.wait_until_it_answers()
        async with operator.serving():
            recorded = await operator.take("Kill", operator.unread())
            rows = [row.transition for row in await operator.audit() if row.HasField("transition")]

    assert {each.reason for each in refused.values()} == {"STORE_UNAVAILABLE"}
    assert reading.reason == "STORE_UNAVAILABLE"
    assert [f"ask_{SUBAGENT}" in offered for offered in served] == [True, False]
    assert _standing(after) == _standing(before)
    assert (list(word(killed, "reached")), f"ask_{SUBAGENT}" in gone) == (["replica"], False)
    assert recorded.state == ROLLBACK
    assert [row.target_state for row in rows].count(ROLLBACK) == 1


async def _status_again(operator: GatedOperator) -> reading_pb2.SlotStatus:
    """Return how the slot stands, as soon as the sidecar has found its database again."""
    while True:
        try:
            return await operator.status()
        except grpc.aio.AioRpcError as away:
            if away.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
        await next_look()


def _standing(status: reading_pb2.SlotStatus) -> tuple[object, ...]:
    """Return what must not have changed."""
    one = status.definitions[0]
    return status.revision, status.active_digest, status.mode, one.state, one.ramp_basis_points, one.flag_pair


async def _refused(operator: GatedOperator, verb: str, header: lifecycle_pb2.StepHeader) -> Failure:
    fields = dict(VERBS[verb])
    if verb == "OverrideGate":
        expires = Timestamp()
        expires.GetCurrentTime()
        expires.seconds += 600
        fields["expires_at"] = expires
    return await failure_of(operator.take(verb, header, **fields))


@pytest.mark.parametrize("behaviour", [Behaviour.HANG, Behaviour.ERROR, Behaviour.DROP, Behaviour.GARBAGE])
async def test_a_gate_service_that_is_no_help_holds_the_ramp_where_it_is(folder: Path, behaviour: Behaviour) -> None:
    """Hung, broken, cut, nonsense: held; the operator is told by log and counter; the first `pass` after it counts."""
    async with an_operator(folder) as operator, operator.serving() as sidecar:
        await operator.promoted(100)
        operator.gates.switches.set(Switch(behaviour=behaviour))
        held = await failure_of(operator.step("SetRamp", ramp_basis_points=9000))
        standing = await operator.definition()
        served = await operator.offers("turn-1", "user-0")
        told = await sidecar.event("sidecar.anomaly", lambda event: event["kind"] == "gate_unavailable")
        operator.gates.switches.clear()
        raised = await operator.step("SetRamp", ramp_basis_points=9000)

    assert held.reason == "GATE_HELD"
    assert (standing.state, standing.ramp_basis_points, raised.ramp_basis_points) == (PROMOTE, 100, 9000)
    assert f"ask_{SUBAGENT}" not in served
    assert SUBAGENT in told["message"]


async def test_flags_that_cannot_be_read_take_a_sub_agent_off_and_never_move_it(folder: Path) -> None:
    """The file of flags is gone: nobody is served, the state stays; back and on, it is served again, no kill fired."""
    flags = folder / "flags.json"
    on = f'{{"flags": {{"{FLAG}": true, "{FLAG}_cohort": true}}}}'
    flags.write_text(on)
    more = f'\n[flags.file]\nplugin = "file"\npath = "{flags}"\npoll_seconds = 0.05\n' + FRESHNESS
    async with an_operator(folder, more, flags="file") as operator, operator.serving() as sidecar:
        await operator.promoted(100)
        before = await operator.offers("turn-1")
        seen = len(sidecar.events)  # a busy machine may have made flags too old for a moment before
        flags.unlink()
        await sidecar.event(
            "flags.contact", lambda event: event["state"] == "unreachable" and sidecar.events.index(event) >= seen
        )
        gone = await operator.offers("turn-2")
        standing = await operator.definition()
        raised = await operator.step("SetRamp", ramp_basis_points=200)
        still = await operator.offers("turn-3")
        seen = len(sidecar.events)
        flags.write_text(on)
        await sidecar.event(
            "flags.contact", lambda event: event["state"] == "fresh" and sidecar.events.index(event) >= seen
        )
        back = await operator.offers("turn-4")
        rows = [row for row in await operator.audit() if row.HasField("transition")]

    assert [f"ask_{SUBAGENT}" in offered for offered in (before, gone, still, back)] == [True, False, False, True]
    assert (standing.state, {each.value for each in standing.flags}) == (
        PROMOTE,
        {reading_pb2.FLAG_VALUE_UNREACHABLE},
    )
    assert raised.state == PROMOTE
    assert ROLLBACK not in [row.transition.target_state for row in rows]


async def test_flags_that_go_with_the_process_are_not_switched_where_the_record_stays(folder: Path) -> None:
    """The backend `memory` beside a database: the step waits for the settings, else each restart would be a kill."""
    async with an_operator(folder, flags="memory") as operator, operator.serving():
        await operator.promoted()
        waiting = await operator.step("SetRamp", ramp_basis_points=100)

    assert waiting.changed is False
    assert list(waiting.edits) == [
        f"settings: add {name} to flags.memory.on, and start the sidecar again; or use the backend `embedded`"
        for name in (FLAG, f"{FLAG}_cohort")
    ]
