"""A blocking call is reported while it blocks, with the plugin that makes it."""

import asyncio
import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType, ModuleType

import pytest

from sidecar.composition.telemetry.background_reports import LagReports
from sidecar.observability import event_names, names
from sidecar.observability.loop_watchdog import LoopWatchdog
from sidecar.observability.metrics import Counter, Metrics
from sidecar.observability.readiness import Readiness
from sidecar.operations.blocked_stack import Holder, holder_of

PLUGIN = """
def blocks(until):
    until.wait(10)

def looks(at):
    return at()
"""
PLUGINS = {"flags_that_block": "flags-that-block"}


def plugin() -> ModuleType:
    """Return a module of an installed plugin."""
    module = ModuleType("flags_that_block.backend")
    exec(PLUGIN, module.__dict__)
    return module


@dataclass(slots=True)
class Heard:
    """Keeps what it is told; a block lasts until it is reported."""

    reported: threading.Event = field(default_factory=threading.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    many: asyncio.Event = field(default_factory=asyncio.Event)
    answers: list[float] = field(default_factory=list)
    holders: list[Holder] = field(default_factory=list)
    ends: list[tuple[Holder, float]] = field(default_factory=list)

    def answered(self, seconds: float) -> None:
        """Keep it."""
        self.answers.append(seconds)
        if len(self.answers) == 100:
            self.many.set()

    def held_up(self, holder: Holder) -> None:
        """Let the block end."""
        self.holders.append(holder)
        self.reported.set()

    def released(self, holder: Holder, seconds: float) -> None:
        """Keep it."""
        self.ends.append((holder, seconds))
        self.over.set()


async def blocked_by(block: Callable[[threading.Event], None]) -> Heard:
    """Block the loop until the watchdog has reported it."""
    heard = Heard()
    watchdog = LoopWatchdog(asyncio.get_running_loop(), heard, PLUGINS, every=0.001, patience=0.02)
    with watchdog.watching():
        block(heard.reported)
        assert heard.reported.is_set(), "it was not reported while it lasted"
        await asyncio.wait_for(heard.over.wait(), 10)
    return heard


async def test_a_plugin_that_blocks_is_named_while_it_blocks() -> None:
    """One report with its innermost frame, and one at the end with the time that it took."""
    heard = await blocked_by(plugin().blocks)
    (holder,) = heard.holders
    assert holder.plugin == "flags-that-block"
    assert holder.frame == "flags_that_block.backend:3 blocks"
    assert any(each.startswith("threading:") for each in holder.stack)
    ((ended, seconds),) = heard.ends
    assert ended == holder
    assert seconds >= 0.02
    assert max(heard.answers) >= 0.02


async def test_a_block_without_a_plugin_names_the_innermost_frame_outside_the_standard_library() -> None:
    """Else the report would name `threading`, which says nothing."""
    heard = await blocked_by(waits)
    assert heard.holders[0].plugin == ""
    assert heard.holders[0].frame.startswith(f"{__name__}:")


def waits(until: threading.Event) -> None:
    """Block as code of no plugin."""
    until.wait(10)


async def test_a_loop_that_answers_is_not_reported() -> None:
    """A hundred answers, and no hold-up."""
    heard = Heard()
    with LoopWatchdog(asyncio.get_running_loop(), heard, {}, every=0.0001, patience=10).watching():
        await asyncio.wait_for(heard.many.wait(), 10)
    assert (heard.holders, heard.ends) == ([], [])


def test_it_ends_with_its_context_while_the_loop_is_still_blocked() -> None:
    """A stop does not wait for the call that blocks."""
    heard, loop = Heard(), asyncio.new_event_loop()
    with LoopWatchdog(loop, heard, {}, every=0.001, patience=0.01).watching():  # a loop that never runs
        assert heard.reported.wait(10)
    loop.close()
    assert heard.ends == []


def test_the_plugin_is_found_behind_frames_of_libraries_that_it_calls() -> None:
    """The plugin is responsible for the library that it calls."""

    def library() -> Holder:
        return holder_of(frame_of_caller(), PLUGINS)

    assert plugin().looks(library).plugin == "flags-that-block"


def frame_of_caller() -> FrameType | None:
    """Return the frame of the caller."""
    frame = inspect.currentframe()
    return frame.f_back if frame else None


def test_a_hold_up_is_seen_in_log_metric_and_health(caplog: pytest.LogCaptureFixture) -> None:
    """The alert's counter is there at 0, rises once, and health shows the last one."""
    metrics, readiness = Metrics(), Readiness(lambda ready: None)
    reports = LagReports(metrics, readiness)
    (counter,) = (each for each in metrics if isinstance(each, Counter))
    assert (counter.name, counter.series) == (names.LOOP_HELD_UP, {("none",): 0})
    assert readiness.detail()["event_loop"] == {"last_held_up": None}

    holder = Holder("flags-that-block", "flags_that_block.backend:3 blocks", ("threading:9 wait",))
    reports.held_up(holder)
    (record,) = caplog.records
    assert (record.levelname, vars(record)["event"]) == ("ERROR", event_names.LOOP_HELD)
    reports.released(holder, 4.8561)
    reports.answered(4.8)

    assert counter.series == {("none",): 0, ("flags-that-block",): 1}
    last = readiness.detail()["event_loop"]["last_held_up"]
    assert (last["plugin"], last["frame"], last["seconds"]) == (holder.plugin, holder.frame, 4.856)
    assert list(readiness.against) == ["start"], "a hold-up that is over does not decide readiness"
