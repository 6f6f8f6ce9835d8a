"""The sidecar reports `still_working` for a sub-agent that runs and says nothing, in virtual time."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta

import pytest
from typing_extensions import override

from sidecar.core.dispatching.frames import Frame, StatusUpdate
from sidecar.core.status_events.policy import EventRule, Handling, Vocabulary
from sidecar.operations.requests import JoinPolicy
from sidecar.operations.turn.deliver_frames import deliver_frames
from sidecar.policy.protocols import NarrationPart, RunFinished, RunnerEvent, RunRequest, StatusReported
from tests.support.fake_runner import Script, ScriptedRunner
from tests.support.harness import KeepingRecorder
from tests.support.requirement import requirement
from tests.unit.dispatching.test_time_of_a_fan_out import Watch, begun_dispatch, operations
from tests.unit.flags.virtual_time import in_virtual_time

SILENCE = timedelta(seconds=2)
FORWARDED = {"searching_offers": EventRule(), "still_working": EventRule()}


class Reading(Watch):
    """Notes who is reported to do what, and when."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[float, str, str]] = []

    @override
    async def send(self, frame: Frame) -> None:
        """Look at one frame."""
        now = asyncio.get_running_loop().time()
        told = [event.what for event in frame.events if isinstance(event.what, StatusUpdate)]
        self.seen += [(now, " ".join(each.slots), each.type) for each in told]


def speaks(*after: float, until: float) -> Script:
    """Report at these seconds from its start, and answer at `until`; an odd word is in no vocabulary."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        began = asyncio.get_running_loop().time()
        for at in after:
            await asyncio.sleep(began + at - asyncio.get_running_loop().time())
            yield StatusReported("searching_offers" if at % 2 == 0 else "no_such_type")
        await asyncio.sleep(began + until - asyncio.get_running_loop().time())
        yield NarrationPart("done")
        yield RunFinished()

    return script


def heard(
    scripts: dict[str, Script], join: JoinPolicy | None = None, **vocabulary: object
) -> tuple[Sequence[tuple[float, str, str]], Sequence[tuple[str, str]]]:
    """Return what a listener of one dispatch was told, and what was counted: (slot, decision) each."""
    reading, recorder = Reading(), KeepingRecorder()
    rules = Vocabulary(**{"rules": FORWARDED, "silence": SILENCE, **vocabulary})  # type: ignore[arg-type]  # keyword by keyword

    async def listened() -> None:
        sidecar = operations(ScriptedRunner(scripts), vocabulary=rules, recorder=recorder)
        begun = await begun_dispatch(sidecar, *scripts, join=join or JoinPolicy())
        await deliver_frames(begun, 0, reading)

    in_virtual_time(listened())
    return reading.seen, [(slot, decision) for slot, decision in recorder.of("status_seen")]


@requirement("PC2-NFR-5")
def test_a_silent_sub_agent_is_reported_after_the_silence_and_then_ever_more_rarely() -> None:
    """Two, then four, then eight seconds: it takes 31, and 30 is the last one; each is counted once."""
    seen, counted = heard({"shop": speaks(until=31.0)})

    assert seen == [(at, "shop", "still_working") for at in (2.0, 6.0, 14.0, 30.0)]
    assert counted == [("shop", "still_working")] * 4


@requirement("PC2-NFR-5")
def test_a_report_of_its_own_begins_the_silence_anew() -> None:
    """It reports at second 8, after two silences: the wait is short again. What is dropped breaks no silence."""
    seen, counted = heard({"shop": speaks(3.0, 8.0, until=13.9)})

    times = (2.0, 6.0, 8.0, 10.0)
    assert seen == [(at, "shop", "searching_offers" if at == 8.0 else "still_working") for at in times]
    expected = ("still_working", "unknown", "still_working", "forward", "still_working")
    assert counted == [("shop", each) for each in expected]


@requirement("PC2-NFR-5")
def test_each_sub_agent_has_a_silence_of_its_own() -> None:
    """One reports every second second; the other, which is silent, is reported, and neither after its end."""
    seen, _ = heard({"shop": speaks(2.0, until=3.0), "rewards": speaks(until=5.0)})

    assert [each for each in seen if each[1] == "rewards"] == [(2.0, "rewards", "still_working")]
    assert [each for each in seen if each[1] == "shop" and each[0] > 2.0] == []


def test_a_sub_agent_that_waits_for_its_turn_is_not_silent() -> None:
    """One at a time: the second runs from second 3 on, and is reported two seconds later."""
    seen, _ = heard({"shop": speaks(until=3.0), "rewards": speaks(until=3.0)}, JoinPolicy(max_parallel=1))

    assert seen == [(2.0, "shop", "still_working"), (5.0, "rewards", "still_working")]


@pytest.mark.parametrize(
    ("rules", "silence", "expected"),
    [
        (FORWARDED, None, []),
        ({}, SILENCE, []),
        ({"still_working": EventRule(Handling.SUPPRESS)}, SILENCE, []),
        ({"still_working": EventRule(Handling.TRANSFORM, becomes="working")}, SILENCE, [(2.0, "shop", "working")]),
    ],
)
def test_the_platforms_policy_decides_what_a_silence_becomes(
    rules: dict[str, EventRule], silence: timedelta | None, expected: list[tuple[float, str, str]]
) -> None:
    """Switched off, not in the vocabulary, suppressed: nothing is told or counted; another type if it says so."""
    seen, counted = heard({"shop": speaks(until=5.0)}, rules=rules, silence=silence)

    assert (seen, len(counted)) == (expected, len(expected))


def test_silences_of_siblings_are_batched_where_the_policy_says_so() -> None:
    """Three are silent at the same time: one update for all of them."""
    rules = {"still_working": EventRule(Handling.BATCH, window=timedelta(milliseconds=500))}
    scripts = {slot: speaks(until=5.0) for slot in ("shop", "rewards", "support")}
    seen, counted = heard(scripts, rules=rules)

    assert seen == [(2.5, "shop rewards support", "still_working")]
    assert counted == [(slot, "still_working") for slot in scripts]
