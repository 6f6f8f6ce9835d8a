"""The loops that keep the snapshot fresh, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from sidecar.adapters.flags_memory import FlagFault, MemoryFlags
from sidecar.core.flag_states import FlagReport, FlagRoutes, FlagValue
from sidecar.core.identifiers import Vertical
from sidecar.operations.flag_snapshot import ContactState, FlagContactChanged, FlagSnapshotKeeper, FlagTiming
from sidecar.policy.protocols import FlagBackend
from tests.support.plugin_calls import plugin_calls
from tests.support.requirement import requirement
from tests.unit.flags.virtual_time import LoopClock, in_virtual_time

REWARDS = Vertical("rewards")
TIMING = FlagTiming(
    fetch_deadline=timedelta(seconds=2),
    refresh_interval=timedelta(seconds=3),
    min_interval=timedelta(milliseconds=50),
    max_staleness=timedelta(seconds=10),
)


class Seen(list[FlagContactChanged]):
    """What the observer was told."""

    def states(self, backend: str) -> list[ContactState]:
        """Return one backend's states in order."""
        return [change.state for change in self if change.backend == backend]


@asynccontextmanager
async def running(**backends: FlagBackend) -> AsyncIterator[tuple[FlagSnapshotKeeper, Seen]]:
    """Run the loops over `main` and, if given, `other`, which serves the vertical rewards."""
    routes = FlagRoutes("main", {REWARDS: "other"} if "other" in backends else {})
    seen = Seen()
    snapshots = FlagSnapshotKeeper(backends, routes, LoopClock(), TIMING, seen.append, plugin_calls())
    loops = asyncio.ensure_future(snapshots.run())
    await asyncio.sleep(0.01)
    try:
        yield snapshots, seen
    finally:
        loops.cancel()
        await asyncio.gather(loops, return_exceptions=True)


class Odd(MemoryFlags):
    """A backend with one method replaced by the test."""

    def __init__(self, fetch: Callable[[], object] | None = None, changed: Callable[[], object] | None = None) -> None:
        super().__init__({"ask"})
        self.fetches = 0
        self._odd_fetch = fetch
        self._odd_changed = changed

    async def fetch(self) -> FlagReport:
        """Count, and do what the test wants."""
        self.fetches += 1
        report = await super().fetch()
        return report if self._odd_fetch is None else self._odd_fetch()  # type: ignore[return-value]  # the fault itself

    async def changed(self) -> None:
        """Do what the test wants."""
        if self._odd_changed is None:
            await super().changed()
        else:
            self._odd_changed()


def raising(error: BaseException) -> Callable[[], object]:
    """Return a function that raises `error`."""

    def raise_it() -> object:
        raise error

    return raise_it


@requirement("PF1-NFR-4c")
def test_a_hint_brings_a_change_before_the_timer_would() -> None:
    """The flag goes on; long before the interval of 3 s is over it shows."""

    async def scenario() -> None:
        backend = MemoryFlags()
        async with running(main=backend) as (snapshots, _):
            assert snapshots.current().value("ask") is FlagValue.OFF
            backend.set("ask", on=True)
            await asyncio.sleep(0.1)
            assert snapshots.current().value("ask") is FlagValue.ON

    in_virtual_time(scenario())


@requirement("PF1-NFR-4b")
def test_reading_flags_asks_no_backend() -> None:
    """Not even while the backend hangs: a thousand reads fetch nothing and let no time pass."""

    async def scenario() -> None:
        backend = Odd()
        async with running(main=backend) as (snapshots, _):
            backend.misbehave(FlagFault.HANG)
            before, fetches = LoopClock().monotonic(), backend.fetches
            values = {snapshots.current().value("ask") for _ in range(1000)}
            assert values == {FlagValue.ON}
            assert (LoopClock().monotonic(), backend.fetches) == (before, fetches)

    in_virtual_time(scenario())


def test_a_snapshot_that_was_handed_out_never_changes() -> None:
    """A turn keeps what it was bound to."""

    async def scenario() -> None:
        backend = MemoryFlags()
        async with running(main=backend) as (snapshots, _):
            bound = snapshots.current()
            backend.set("ask", on=True)
            await asyncio.sleep(0.1)
            assert bound.value("ask") is FlagValue.OFF

    in_virtual_time(scenario())


@requirement("PF1-T-19")
@pytest.mark.parametrize("fault", [FlagFault.HANG, FlagFault.RAISE, FlagFault.GARBAGE])
def test_a_faulty_backend_keeps_its_last_report_until_that_is_too_old(fault: FlagFault) -> None:
    """On at 9 s, unreachable after 10 s, and on again once it answers; the other backend never notices."""

    async def scenario() -> None:
        main, other = MemoryFlags({"ask"}), MemoryFlags({"ask"})
        async with running(main=main, other=other) as (snapshots, seen):
            main.misbehave(fault)
            await asyncio.sleep(9)
            assert snapshots.current().value("ask") is FlagValue.ON
            await asyncio.sleep(2)
            assert snapshots.current().value("ask") is FlagValue.UNREACHABLE
            assert snapshots.current().value("ask", REWARDS) is FlagValue.ON
            assert seen.states("main") == [ContactState.FRESH, ContactState.UNREACHABLE]
            main.misbehave(FlagFault.NONE)
            await asyncio.sleep(6)
            assert snapshots.current().value("ask") is FlagValue.ON
            assert seen.states("main")[2:] == [ContactState.FRESH]
            assert seen.states("other") == [ContactState.FRESH]

    in_virtual_time(scenario())


def test_an_answer_without_news_is_a_contact() -> None:
    """Nothing changes for an hour, and nothing goes stale or is told to the observer."""

    async def scenario() -> None:
        async with running(main=MemoryFlags({"ask"})) as (snapshots, seen):
            await asyncio.sleep(3600)
            assert snapshots.current().value("ask") is FlagValue.ON
            assert len(seen) == 1

    in_virtual_time(scenario())


def test_a_stuck_loop_cannot_make_a_stale_snapshot_look_fresh() -> None:
    """The loops are gone; reading still judges the age."""

    async def scenario() -> None:
        async with running(main=MemoryFlags({"ask"})) as (snapshots, _):
            pass
        assert snapshots.current().value("ask") is FlagValue.ON
        await asyncio.sleep(11)
        assert snapshots.current().value("ask") is FlagValue.UNREACHABLE
        assert snapshots.current().active_flags(frozenset({"ask"})) == ()

    in_virtual_time(scenario())


def test_a_backend_that_refuses_to_be_cancelled_goes_stale_and_is_reported() -> None:
    """Its own loop is stuck for good, so the watch over ages has to tell."""

    async def scenario() -> None:
        stuck, let_go = Odd(), asyncio.Event()

        async def clinging() -> FlagReport:
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    continue
            return FlagReport(frozenset(), "late")

        async with running(main=stuck, other=MemoryFlags({"ask"})) as (snapshots, seen):
            stuck.fetch = clinging  # type: ignore[method-assign]  # the backend goes bad
            await asyncio.sleep(20)
            assert seen.states("main") == [ContactState.FRESH, ContactState.UNREACHABLE]
            assert snapshots.current().value("ask", REWARDS) is FlagValue.ON
            let_go.set()

    in_virtual_time(scenario())


@pytest.mark.parametrize(
    "error",
    [ValueError("no"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), TimeoutError(), MemoryError()],
    ids=repr,
)
def test_whatever_a_fetch_raises_is_its_own_failure(error: BaseException) -> None:
    """Even a stray cancellation or an exit; the loop asks again, and says why it failed."""

    async def scenario() -> None:
        backend = Odd(fetch=raising(error))
        async with running(main=backend) as (snapshots, seen):
            await asyncio.sleep(10)
            assert backend.fetches == 4
            assert seen.states("main") == [ContactState.UNREACHABLE]
            assert type(error).__name__ in snapshots.failures()["main"]

    in_virtual_time(scenario())


@pytest.mark.parametrize(
    "report",
    [
        None,
        {"ask"},
        FlagReport({"ask"}, "1"),  # type: ignore[arg-type]  # wrong on purpose
        FlagReport(frozenset({1}), "1"),  # type: ignore[arg-type]  # wrong on purpose
        FlagReport(frozenset(), "1", {"ask"}),  # type: ignore[arg-type]  # wrong on purpose
        FlagReport(frozenset(), 7),  # type: ignore[arg-type]  # wrong on purpose
    ],
)
def test_an_answer_of_a_wrong_type_is_no_contact(report: object) -> None:
    """Not even if it is a report with a mutable set in it."""

    async def scenario() -> None:
        async with running(main=Odd(fetch=lambda: report)) as (snapshots, _):
            assert snapshots.current().value("ask") is FlagValue.UNREACHABLE
            assert snapshots.failures()["main"].startswith("TypeError: ")

    in_virtual_time(scenario())


@pytest.mark.parametrize(
    ("changed", "most"),
    [(raising(OSError("gone")), 5), (raising(SystemExit()), 5), (raising(KeyboardInterrupt()), 5), (lambda: None, 242)],
)
def test_a_broken_hint_neither_stops_nor_floods_the_fetches(changed: Callable[[], object], most: int) -> None:
    """In 12 s: raising means the timer of 3 s, always hinting means the quiet time of 50 ms."""

    async def scenario() -> None:
        backend = Odd(changed=changed)
        async with running(main=backend) as (snapshots, _):
            await asyncio.sleep(12)
            assert most - 3 <= backend.fetches <= most
            assert snapshots.current().value("ask") is FlagValue.ON

    in_virtual_time(scenario())


def test_the_age_counts_from_the_beginning_of_the_fetch() -> None:
    """An answer that took 1.5 s may be 1.5 s old."""

    async def scenario() -> None:
        backend = MemoryFlags({"ask"})
        backend.misbehave(FlagFault.HANG)
        async with running(main=backend) as (snapshots, _):
            await asyncio.sleep(1.5)
            backend.misbehave(FlagFault.NONE)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert snapshots.current().fresh_until == pytest.approx(10.0, abs=0.01)

    in_virtual_time(scenario())


def test_the_start_fetches_from_all_backends_at_once() -> None:
    """One that hangs delays the others by nothing and the start by its deadline."""

    async def scenario() -> None:
        main, other = MemoryFlags({"ask"}), MemoryFlags()
        other.misbehave(FlagFault.HANG)
        snapshots = FlagSnapshotKeeper(
            {"main": main, "other": other},
            FlagRoutes("main", {REWARDS: "other"}),
            LoopClock(),
            TIMING,
            lambda _: None,
            plugin_calls(),
        )
        await snapshots.refresh_all()
        assert LoopClock().monotonic() == pytest.approx(2.0, abs=0.01)
        assert snapshots.current().value("ask") is FlagValue.ON
        assert snapshots.current().value("ask", REWARDS) is FlagValue.UNREACHABLE
        assert snapshots.failures() == {"other": "no answer within 2 s"}

    in_virtual_time(scenario())


@pytest.mark.parametrize("backends", [{}, {"other": MemoryFlags}, {"main": MemoryFlags, "extra": MemoryFlags}])
def test_backends_and_routes_must_name_the_same(backends: Mapping[str, Callable[[], FlagBackend]]) -> None:
    """A backend nobody asks, or a vertical that nobody answers, is a mistake of the composition."""
    made = {name: make() for name, make in backends.items()}
    with pytest.raises(ValueError, match="flag backends"):
        FlagSnapshotKeeper(made, FlagRoutes("main"), LoopClock(), TIMING, lambda _: None, plugin_calls())


def test_timing_that_lets_healthy_flags_go_stale_is_refused() -> None:
    """One lost fetch must not take anything off the surface."""
    with pytest.raises(ValueError, match="max_staleness"):
        FlagTiming(max_staleness=timedelta(seconds=4))


def test_an_answer_that_was_asked_for_earlier_does_not_take_a_newer_one_back() -> None:
    """The loop's slow question begins before a flag goes on and ends after a quick one: no flag is seen to fall."""

    async def scenario() -> None:
        asked: list[float] = []

        class Slow(MemoryFlags):
            """Answers the first question slowly, with what held when it was asked."""

            async def fetch(self) -> FlagReport:
                """Answer."""
                asked.append(LoopClock().monotonic())
                report = await super().fetch()
                await asyncio.sleep(1 if len(asked) == 1 else 0)
                return report

        backend = Slow()
        async with running(main=backend) as (snapshots, seen):
            backend.set("ask", on=True)
            await snapshots.refresh(["main"])
            quick = snapshots.current().value("ask")
            await asyncio.sleep(1.0)
            assert (len(asked), quick, snapshots.current().value("ask")) == (2, FlagValue.ON, FlagValue.ON)
            assert [change.state for change in seen] == [ContactState.FRESH]

    in_virtual_time(scenario())
