"""When checkpoints are written, and what becomes of a place or a record that is away."""

import asyncio
from datetime import timedelta

import pytest

from sidecar.core.verifying.checkpoint_lines import line_from
from sidecar.operations.record.checkpoints import CHECKPOINT_FAILED, ROOT_DIFFERS
from sidecar.operations.record.retention import RETENTION_FAILED, RetentionRules
from tests.support.record_builders import BEGIN, a_dispatch, a_whole_turn, an_end
from tests.support.requirement import requirement
from tests.support.second_place import SignedLog, a_signer


def signed(log: SignedLog) -> list[tuple[str, int]]:
    """Return instance and number of facts of every line."""
    return [(line.instance, line.number) for text in log.place.lines if (line := line_from(text)) is not None]


async def test_a_checkpoint_is_written_only_if_the_root_has_moved() -> None:
    """Nothing at first; one for what was appended meanwhile; none more while nothing is appended."""
    log = SignedLog()
    checkpointing = log.checkpointing()
    await checkpointing.look()
    assert log.place.lines == []

    await log.store.append(a_whole_turn("turn-1", ("shop", "rewards")))
    await checkpointing.look()
    await checkpointing.look()

    assert signed(log) == [("this-process", 3)]
    assert checkpointing.written == 1


async def test_a_place_that_is_away_is_told_and_made_up_for() -> None:
    """Two failures, for how long, and one checkpoint once it is there again."""
    log = SignedLog()
    checkpointing = log.checkpointing()
    await log.store.append(a_whole_turn("turn-1"))
    log.place.away = True
    for seconds in (100.0, 110.0):
        log.clock.seconds = seconds
        await checkpointing.look()
    assert (checkpointing.failures, checkpointing.waiting_seconds) == (2, 10.0)
    assert log.anomalies.kinds == [CHECKPOINT_FAILED, CHECKPOINT_FAILED]

    log.place.away = False
    await checkpointing.look()

    assert checkpointing.waiting_seconds == 0
    assert signed(log) == [("this-process", 3)]


async def test_a_place_that_hangs_shows_like_one_that_refuses() -> None:
    """Five minutes into a write that does not end."""
    log = SignedLog()
    checkpointing = log.checkpointing()
    await log.store.append(a_whole_turn("turn-1"))
    log.place.hangs = asyncio.Event()
    looking = asyncio.create_task(checkpointing.look())
    await asyncio.sleep(0)
    log.clock.seconds = 300.0
    assert checkpointing.waiting_seconds == 300.0

    log.place.hangs.set()
    await looking
    assert checkpointing.waiting_seconds == 0
    assert signed(log) == [("this-process", 3)]


async def test_the_next_start_signs_what_those_before_did_not_get_round_to() -> None:
    """One was killed after its last checkpoint, one before its first; the third signs for both, then for itself."""
    log = SignedLog()
    await log.turns(1, 1)
    await log.store.append(a_whole_turn("turn-2"))
    log.go_on_as("second")
    await log.store.append(a_whole_turn("turn-3"))
    log.go_on_as("third")
    checkpointing = log.checkpointing()

    await checkpointing.look()
    await log.store.append(a_whole_turn("turn-4"))
    await checkpointing.look()
    await checkpointing.look()

    assert signed(log) == [("this-process", 3), ("second", 3), ("this-process", 6), ("third", 3)]
    assert await log.findings() == []


async def test_a_root_that_contradicts_what_was_signed_is_never_signed() -> None:
    """The record was exchanged for a shorter one while the sidecar was stopped."""
    log = SignedLog()
    await log.turns(1, 2)
    ((key, (number, root)),) = log.store.contents.roots.items()
    log.store.contents.roots[key] = number - 1, root

    await log.checkpointing().look()

    assert signed(log)[-1] == ("this-process", 6)
    assert log.anomalies.kinds == [ROOT_DIFFERS]


@requirement("SX-38")
def test_nobody_can_have_the_record_forget_before_90_days() -> None:
    """89 are refused, whoever makes the rules."""
    RetentionRules(timedelta(days=90), timedelta(days=14))
    with pytest.raises(ValueError, match="90 days or more, not 89"):
        RetentionRules(timedelta(days=89), timedelta(days=14))


@requirement("SX-38", "SX-39")
async def test_what_is_89_days_old_stays_and_what_is_older_goes_with_a_marker() -> None:
    """The first day is 91 days old, the other 89; the log verifies before and after, and goes on afterwards."""
    log = SignedLog()
    await log.turns(1, 2)
    await log.turns(3, 4, days=2)
    log.clock.time = BEGIN + timedelta(days=91)
    assert await log.findings() == []
    retention = log.retention()

    await retention.remove()
    await retention.remove()

    assert retention.turns == 2
    assert sorted(log.store.contents.turns) == ["turn-3", "turn-4"]
    (marker,) = await log.journal.markers()
    assert (marker.partition, marker.number) == (BEGIN.date(), 6)
    assert marker.ended_before == BEGIN + timedelta(days=1)
    assert signed(log)[-1] == ("this-process", 6)
    await log.turns(5, 5, days=91)
    assert await log.findings() == []


@pytest.mark.parametrize("ended", [None, 86_400.0])
async def test_a_day_stays_as_long_as_one_of_its_turns_has_to(ended: float | None) -> None:
    """It never ended, or it ended a day later than the others."""
    log = SignedLog()
    await log.turns(1, 2)
    opened = a_dispatch("turn-9", slots=())
    await log.store.append([opened, *([] if ended is None else an_end([opened], "turn-9", at=ended))])
    log.clock.time = BEGIN + timedelta(days=91)
    retention = log.retention()

    await retention.remove()

    assert (retention.turns, len(log.store.contents.turns)) == (0, 3)
    assert await log.journal.markers() == []


async def test_a_day_goes_with_a_marker_of_each_sidecar_that_appended_to_it() -> None:
    """Also of one that never signed; both are in the second place first."""
    log = SignedLog()
    await log.turns(1, 1)
    log.go_on_as("second")
    await log.store.append(a_whole_turn("turn-2"))
    log.clock.time = BEGIN + timedelta(days=91)

    await log.retention().remove()

    assert [marker.instance for marker in await log.journal.markers()] == ["second", "this-process"]
    assert signed(log)[-2:] == [("second", 3), ("this-process", 3)]
    assert await log.findings() == []


async def test_what_was_signed_before_the_place_looks_back_is_not_signed_again() -> None:
    """A start finds a day in the file that is older than what it reads of it; the root of the day before stays."""
    log = SignedLog()
    await log.turns(1, 1)
    await log.turns(2, 2, days=1)
    del log.place.lines[:]
    log.place.since = (BEGIN + timedelta(days=1)).date()
    log.go_on_as("second")

    await log.checkpointing().look()

    lines = [line for text in log.place.lines if (line := line_from(text)) is not None]
    assert [(line.instance, line.day) for line in lines] == [("this-process", log.place.since)]


async def test_frames_go_earlier_than_the_events_they_belong_to() -> None:
    """After 14 days what runners sent is gone, and every fact is still there."""
    log = SignedLog()
    await log.turns(1, 1)
    log.clock.time = BEGIN + timedelta(days=15)
    retention = log.retention()

    await retention.remove()

    assert (retention.attempts, retention.turns) == (2, 0)
    assert await log.findings() == []


async def test_nothing_is_removed_while_the_second_place_cannot_take_the_marker() -> None:
    """The place is away: an anomaly, and everything is still there."""
    log = SignedLog()
    await log.turns(1, 1)
    log.clock.time = BEGIN + timedelta(days=100)
    log.place.away = True

    await log.retention().remove()

    assert log.anomalies.kinds == [RETENTION_FAILED]
    assert list(log.store.contents.turns) == ["turn-1"]
    assert await log.journal.markers() == []


@requirement("SX-38")
async def test_a_marker_that_nobody_signed_covers_nothing() -> None:
    """A day is removed under a marker that somebody else made: it is named, and is not in the second place."""
    log = SignedLog()
    await log.turns(1, 3)
    theirs = SignedLog(log.store)
    theirs.place.signer = a_signer("another")
    theirs.clock.time = BEGIN + timedelta(days=100)
    await theirs.retention().remove()

    findings = await log.findings()

    assert {finding.kind for finding in findings} == {"marker_forged", "root_cut"}
    findings = await log.findings(keys=("ours", "another"))
    assert {finding.kind for finding in findings} == {"marker_misfit"}


async def test_a_marker_taken_away_shows_what_is_missing() -> None:
    """What it covered."""
    log = SignedLog()
    await log.turns(1, 3)
    log.clock.time = BEGIN + timedelta(days=91)
    await log.retention().remove()
    assert await log.findings() == []

    log.store.contents.markers.clear()

    (finding,) = await log.findings()
    assert finding.kind == "root_cut"
    assert "0 are there, a signed checkpoint has 9" in finding.text
