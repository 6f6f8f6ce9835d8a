"""When checkpoints are written, and what becomes of a place or a record that is away."""

import asyncio
from datetime import timedelta

import pytest

from sidecar.adapters.record_memory import MemoryDatabase
from sidecar.core.verifying.lines import line_from
from sidecar.core.identifiers import InstanceId
from sidecar.operations.record.checkpoints import CHECKPOINT_FAILED, ROOT_DIFFERS
from sidecar.operations.record.retention import RETENTION_FAILED, RetentionRules
from tests.support.record_builders import BEGIN, a_routing, a_turn_end, a_whole_turn
from tests.support.requirement import requirement
from tests.support.second_place import SignedLog, a_signer


def signed(log: SignedLog) -> list[tuple[str, int]]:
    """Return instance and number of every line."""
    return [(line.instance, line.number) for text in log.place.lines if (line := line_from(text)) is not None]


async def test_a_checkpoint_is_written_only_if_the_root_has_moved() -> None:
    """Nothing at first; one for two children that closed meanwhile; none more while nothing closes."""
    log = SignedLog()
    checkpointing = log.checkpointing()
    await checkpointing.look()
    assert log.place.lines == []

    await log.database.commit(a_whole_turn("turn-1", ("shop", "rewards")))
    await checkpointing.look()
    await checkpointing.look()

    assert signed(log) == [("this-process", 2)]
    assert checkpointing.written == 1


async def test_a_place_that_is_away_is_told_and_made_up_for() -> None:
    """Two failures, for how long, and one checkpoint once it is there again."""
    log = SignedLog()
    checkpointing = log.checkpointing()
    await log.database.commit(a_whole_turn("turn-1"))
    log.place.away = True
    for seconds in (100.0, 110.0):
        log.clock.seconds = seconds
        await checkpointing.look()
    assert (checkpointing.failures, checkpointing.waiting_seconds) == (2, 10.0)
    assert log.anomalies.kinds == [CHECKPOINT_FAILED, CHECKPOINT_FAILED]

    log.place.away = False
    await checkpointing.look()

    assert checkpointing.waiting_seconds == 0
    assert signed(log) == [("this-process", 1)]


async def test_a_place_that_hangs_shows_like_one_that_refuses() -> None:
    """Five minutes into a write that does not end."""
    log = SignedLog()
    checkpointing = log.checkpointing()
    await log.database.commit(a_whole_turn("turn-1"))
    log.place.hangs = asyncio.Event()
    looking = asyncio.create_task(checkpointing.look())
    await asyncio.sleep(0)
    log.clock.seconds = 300.0
    assert checkpointing.waiting_seconds == 300.0

    log.place.hangs.set()
    await looking
    assert checkpointing.waiting_seconds == 0
    assert signed(log) == [("this-process", 1)]


async def test_the_next_start_signs_what_those_before_did_not_get_round_to() -> None:
    """One was killed after its last checkpoint, one before its first; the third signs for both, then for itself."""
    log = SignedLog()
    await log.turns(1, 1)
    await log.database.commit(a_whole_turn("turn-2"))
    log.database = MemoryDatabase(log.database.contents, InstanceId("second"))
    await log.database.commit(a_whole_turn("turn-3"))
    log.database = MemoryDatabase(log.database.contents, InstanceId("third"))
    checkpointing = log.checkpointing()

    await checkpointing.look()
    await log.database.commit(a_whole_turn("turn-4"))
    await checkpointing.look()
    await checkpointing.look()

    assert signed(log) == [("this-process", 2), ("second", 1), ("this-process", 3), ("third", 1)]
    assert await log.findings() == []


async def test_a_root_that_contradicts_what_was_signed_is_never_signed() -> None:
    """The record was exchanged for a shorter one while the sidecar was stopped."""
    log = SignedLog()
    await log.turns(1, 2)
    del log.database.contents.roots[log.database.instance][1:]

    await log.checkpointing().look()

    assert signed(log)[-1] == ("this-process", 4)
    assert log.anomalies.kinds == [ROOT_DIFFERS]


@requirement("SX-38")
def test_nobody_can_have_the_record_forget_before_90_days() -> None:
    """89 are refused, whoever makes the rules."""
    RetentionRules(timedelta(days=90), timedelta(days=14))
    with pytest.raises(ValueError, match="90 days or more, not 89"):
        RetentionRules(timedelta(days=89), timedelta(days=14))


@requirement("SX-38", "SX-39")
async def test_what_is_89_days_old_stays_and_what_is_older_goes_with_a_marker() -> None:
    """The first turns are 91 days old, the others 89; the log verifies before and after, and goes on afterwards."""
    log = SignedLog()
    await log.turns(1, 2)
    await log.turns(3, 4, days=2)
    log.clock.time = BEGIN + timedelta(days=91)
    assert await log.findings() == []
    retention = log.retention()

    await retention.remove()
    await retention.remove()

    assert retention.children == 4
    assert sorted(log.database.contents.turns) == ["turn-3", "turn-4"]
    (marker,) = await log.database.markers()
    assert (marker.number, marker.closed_before) == (4, BEGIN + timedelta(days=1))
    assert signed(log)[-1] == ("this-process", 4)
    await log.turns(5, 5, days=91)
    assert await log.findings() == []


async def test_turns_without_children_go_with_their_age_and_need_no_marker() -> None:
    """One is 91 days old, one 89; both were never signed for, and the log is whole all the same."""
    log = SignedLog()
    await log.database.commit([a_turn_end("old"), a_routing("old", ())])
    await log.database.commit([a_turn_end("young", at=timedelta(days=2).total_seconds())])
    log.clock.time = BEGIN + timedelta(days=91)
    retention = log.retention()

    await retention.remove()

    assert (retention.turns, retention.children) == (1, 0)
    assert list(log.database.contents.turns) == ["young"]
    assert await log.database.markers() == []
    assert await log.findings() == []


async def test_frames_go_earlier_than_the_events_they_belong_to() -> None:
    """After 14 days what runners sent is gone, and every child is still there."""
    log = SignedLog()
    await log.turns(1, 1)
    log.clock.time = BEGIN + timedelta(days=15)
    retention = log.retention()

    await retention.remove()

    assert (retention.attempts, retention.children) == (2, 0)
    assert await log.findings() == []


async def test_nothing_is_removed_while_the_second_place_cannot_take_the_marker() -> None:
    """The place is away: an anomaly, and everything is still there."""
    log = SignedLog()
    await log.turns(1, 1)
    log.clock.time = BEGIN + timedelta(days=100)
    log.place.away = True

    await log.retention().remove()

    assert log.anomalies.kinds == [RETENTION_FAILED]
    assert list(log.database.contents.turns) == ["turn-1"]
    assert await log.database.markers() == []


@requirement("SX-38")
async def test_a_marker_that_nobody_signed_covers_nothing() -> None:
    """Old children are removed under a marker that somebody else made: it is named, and is not in the second place."""
    log = SignedLog()
    await log.turns(1, 3)
    theirs = SignedLog(database=log.database)
    theirs.place.signer = a_signer("another")
    theirs.clock.time = BEGIN + timedelta(days=100)
    await theirs.retention().remove()

    findings = await log.findings()

    assert {finding.kind for finding in findings} == {"marker_forged"}
    findings = await log.findings(keys=("ours", "another"))
    assert {finding.kind for finding in findings} == {"marker_misfit"}


async def test_a_marker_taken_away_shows_as_a_gap() -> None:
    """What it covered is missing then."""
    log = SignedLog()
    await log.turns(1, 3)
    log.clock.time = BEGIN + timedelta(days=90, seconds=16)
    await log.retention().remove()
    assert await log.findings() == []

    log.database.contents.markers.clear()
    links = log.database.contents.roots[log.database.instance]
    links[:] = [link for link in links if link.number > 2]

    findings = await log.findings()
    assert {finding.kind for finding in findings} == {"root_missing"}
    assert "no retention marker covers it" in findings[0].text
