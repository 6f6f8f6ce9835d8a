"""Flags of the default backend, switched by hand at a whole process: a pause, its end, and one kill."""

import asyncio
from pathlib import Path

import pytest

from subagents.lifecycle.v1 import flags_pb2, lifecycle_pb2, reading_pb2
from tests.support.enum_words import word
from tests.support.requirement import requirement
from tests.support.sidecar_process import place
from tests.system.rollout.operating import FLAG, SUBAGENT, GatedOperator, an_operator

pytestmark = pytest.mark.system


async def flags_of(operator: GatedOperator) -> list[tuple[str, int, int]]:
    """Return name, value and version of both flags."""
    answer = await operator.ask("GetFlags", flags_pb2.GetFlagsRequest(slot=SUBAGENT))
    return [(flag.name, flag.value, flag.version) for each in answer.definitions for flag in each.flags]


async def until_rolled_back(operator: GatedOperator) -> list[reading_pb2.AuditRow]:
    """Follow the audit until the definition is in `rollback`; return its rows."""
    rows = []
    async with operator.following() as stream:
        async for message in stream:
            rows += message.rows
            if any(row.transition.target_state == reading_pb2.LIFECYCLE_STATE_ROLLBACK for row in rows):
                break
    return [row for row in rows if SUBAGENT in {row.rollout.definition_id, row.transition.definition_id}]


@requirement("PF1-D-7", "PF1-D-25", "PF1-FR-9b", "PF1-FR-5b")
async def test_a_pause_shows_at_the_next_bind_and_the_kill_flag_off_is_one_kill() -> None:
    """No deploy and no restart: off, on again within the ramp, off for good; the audit says who switched what."""
    with place() as folder:
        await _paused_and_killed(folder)


async def _paused_and_killed(folder: Path) -> None:
    async with asyncio.timeout(60), an_operator(folder) as operator, operator.serving():
        await operator.promoted(ramp=500)
        served = await operator.offers("turn-1")
        before = await flags_of(operator)
        paused = await operator.take("SwitchCohortFlagOff", operator.unread())
        away = await operator.offers("turn-2")
        header = await operator.header()
        resumed = await operator.take(
            "SwitchFlagOn", header, flag=flags_pb2.FLAG_KIND_COHORT, expected_version=paused.flag.version
        )
        repeated = await operator.take(
            "SwitchFlagOn", header, flag=flags_pb2.FLAG_KIND_COHORT, expected_version=paused.flag.version
        )
        back = await operator.offers("turn-3")
        off = lifecycle_pb2.StepHeader(
            definition_id=SUBAGENT, request_id="off-for-good", reason="it says nonsense", digest=paused.digest
        )
        killed = await operator.take("SwitchKillFlagOff", off)
        gone = await operator.offers("turn-4")
        rows = await until_rolled_back(operator)
        after = await operator.definition()

    on, is_off = reading_pb2.FLAG_VALUE_ON, reading_pb2.FLAG_VALUE_OFF
    assert before == [(FLAG, on, 2), (f"{FLAG}_cohort", on, 2)]
    assert ["ask_rewards" in each for each in (served, away, back, gone)] == [True, False, True, False]
    assert (paused.flag.before, paused.flag.after, paused.flag.backend) == (on, is_off, "embedded")
    assert (resumed.changed, resumed.flag.version, repeated.repeated) == (True, paused.flag.version + 1, True)
    assert "kills it for good" in killed.flag.affected[0].explanation
    assert after.state == reading_pb2.LIFECYCLE_STATE_ROLLBACK
    switched = [row for row in rows if word(row.rollout, "kind") == "flag_switched"]
    assert [(row.actor, row.rollout.detail.rpartition(": ")[2]) for row in switched] == [
        ("ada@example", "on -> off"),
        ("ada@example", "off -> on"),
        ("ada@example", "on -> off"),
    ]
    assert switched[-1].reason == "it says nonsense"
    fell = [row.actor for row in rows if row.transition.target_state == reading_pb2.LIFECYCLE_STATE_ROLLBACK]
    assert fell == ["kill-switch"]
