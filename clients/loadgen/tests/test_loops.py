"""In virtual time: what is asserted here does not depend on the machine."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice, pairwise
from random import Random

import pytest

from subagents_loadgen.loops import Progress, Sample, arrival_times, run_load
from subagents_loadgen.plan import Arrivals, Load, Mix, Plan, Target
from subagents_loadgen.report import Report
from subagents_loadgen.tally import Tally
from subagents_loadgen.wire.operation import Finished
from tests.support.virtual_time import Trace, VirtualLoop, simulate


class Server:
    """Serves one operation at a time, 1 ms each, and does nothing at all from second 2 to second 3."""

    def __init__(self) -> None:
        self._place = asyncio.Lock()
        self.asked: list[int] = []

    async def serve(self, number: int) -> Finished:
        """Serve one."""
        self.asked.append(number)
        async with self._place:
            now = asyncio.get_running_loop().time()
            await asyncio.sleep(3 - now if 2 <= now < 3 else 0.001)
        return Finished()


def simulated(load: Load, serve: Callable[[int], Awaitable[Finished]] | None = None) -> tuple[list[Sample], Progress]:
    """Run a load against a server in virtual time."""
    samples: list[Sample] = []

    async def work() -> Progress:
        return await run_load(load, 1, serve or Server().serve, samples.append, asyncio.Event())

    return samples, simulate(VirtualLoop(Random(1), Trace()), work())


def tally_of(samples: list[Sample]) -> Tally:
    """Return what the report would count."""
    tally = Tally()
    for sample in samples:
        tally.note(sample)
    return tally


def test_a_stall_is_charged_to_everything_that_was_due_meanwhile() -> None:
    """Open loop, 100 a second for 5 s: a fifth of all falls due in the stall and waits half a second on average."""
    tally = tally_of(simulated(Load(rate=100, in_flight=1000, seconds=5))[0])
    assert tally.whole.count == 500
    assert tally.whole.percentile(75) < 0.01
    assert 0.4 < tally.whole.percentile(90) < 0.6
    assert tally.whole.percentile(99) > 0.9


def test_a_closed_loop_hides_the_same_stall() -> None:
    """One at a time: a single operation meets it. This is why the open loop exists."""
    tally = tally_of(simulated(Load(rate=None, in_flight=1, seconds=5))[0])
    assert tally.whole.most > 0.99
    assert tally.whole.percentile(99.9) < 0.01


def test_waiting_for_a_place_counts_as_latency() -> None:
    """With one place the generator itself has to wait for the server, which must not hide the stall either."""
    tally = tally_of(simulated(Load(rate=100, in_flight=1, seconds=5))[0])
    assert tally.whole.count == 500
    assert tally.whole.percentile(99) > 0.9
    assert tally.served.percentile(99) < 0.01
    assert tally.lag.percentile(99) > 0.9


def test_what_is_never_sent_is_counted() -> None:
    """The server hangs for good; one of ten that are due has the only place."""
    gone = asyncio.Event()

    async def hangs(number: int) -> Finished:
        await asyncio.wait_for(gone.wait(), 60)
        return Finished()

    async def times_out(number: int) -> Finished:
        try:
            return await hangs(number)
        except TimeoutError:
            return Finished(errors=["bind DEADLINE_EXCEEDED -"])

    samples, progress = simulated(Load(rate=10, in_flight=1, seconds=1, grace=2), times_out)
    assert (len(samples), progress.unsent, progress.most_running) == (1, 9, 1)
    load = Load(rate=10, in_flight=1, seconds=1)
    report = Report(Plan("stuck", [Target("unix:/x")], [Mix()], [load]), tally_of(samples), [progress])
    assert report.share_failed == 1.0
    assert [one.split(" ")[0] for one in report.warnings()] == ["9", "with", "all"]


@pytest.mark.parametrize("load", [Load(rate=50, in_flight=9, seconds=2), Load(rate=None, in_flight=3, seconds=2)])
def test_the_warm_up_is_not_measured_and_comes_on_top(load: Load) -> None:
    """One second before two."""
    warmed = Load(rate=load.rate, in_flight=load.in_flight, seconds=2, warm_up=1)
    samples, progress = simulated(warmed)
    assert (progress.began, progress.ends) == (1, 3)
    assert all(sample.measured == (sample.intended >= 1) for sample in samples)
    assert any(not sample.measured for sample in samples)
    assert max(sample.intended for sample in samples) > 2.9 or load.rate is None
    assert tally_of(samples).whole.count == sum(sample.measured for sample in samples)


@pytest.mark.parametrize("rate", [100.0, None])
def test_a_number_of_requests_ends_the_run(rate: float | None) -> None:
    """Seven, not counting the warm-up."""
    samples, _ = simulated(Load(rate=rate, in_flight=2, seconds=1, requests=7, warm_up=0.1))
    assert sum(sample.measured for sample in samples) == 7


def test_a_closed_loop_keeps_so_many_in_flight() -> None:
    """Never more than four, and each number once."""
    server = Server()
    samples, progress = simulated(Load(rate=None, in_flight=4, seconds=1), server.serve)
    assert progress.most_running == 4
    assert progress.running == 0
    assert server.asked == list(range(len(samples)))


@pytest.mark.parametrize("rate", [0.01, None])
def test_a_stop_ends_the_run_in_order(rate: float | None) -> None:
    """Nothing more begins, also where the next operation is due in 100 s; what runs is waited for."""

    async def work() -> tuple[float, int]:
        loop, stop, samples = asyncio.get_running_loop(), asyncio.Event(), list[Sample]()
        loop.call_later(1.5, stop.set)
        await run_load(Load(rate=rate, in_flight=1, seconds=1000), 1, Server().serve, samples.append, stop)
        return loop.time(), len(samples)

    ended, count = simulate(VirtualLoop(Random(1), Trace()), work())
    assert 1.5 <= ended < 1.6
    assert count in ((1,) if rate else (1500, 1501))


def test_even_arrivals_do_not_drift() -> None:
    """The thousandth is where it belongs, not where a thousand rounded steps lead."""
    times = list(islice(arrival_times(Load(rate=3, in_flight=1, seconds=1), 1), 1000))
    assert times[999] == 333.0
    assert times[0] == 0


def test_random_arrivals_follow_the_seed_and_the_rate() -> None:
    """The same seed gives the same times, another one others; 20,000 arrivals at 100 a second take about 200 s."""
    load = Load(rate=100, in_flight=1, seconds=1, arrivals=Arrivals.POISSON)
    times = list(islice(arrival_times(load, 1), 20_000))
    assert times == list(islice(arrival_times(load, 1), 20_000))
    assert times[:10] != list(islice(arrival_times(load, 2), 10))
    assert times == sorted(times)
    assert 195 < times[-1] < 205
    assert max(later - earlier for earlier, later in pairwise(times)) > 0.05


@pytest.mark.parametrize(("first", "last"), [(10, 30), (30, 10)])
def test_a_ramp_goes_evenly_from_one_rate_to_the_other(first: float, last: float) -> None:
    """Four seconds at 20 a second on average; a quarter of the way, the rate has made a quarter of its change."""
    load = Load(rate=first, ramp_to=last, in_flight=1000, seconds=4)
    times = [at for at in islice(arrival_times(load, 1), 80) if at < 4]
    per_second = [sum(second <= at < second + 1 for at in times) for second in range(4)]
    step = (last - first) / 4
    assert len(times) == 80
    assert [abs(count - (first + step * (place + 0.5))) <= 1 for place, count in enumerate(per_second)] == [True] * 4


def test_an_operation_that_a_falling_rate_never_reaches_is_not_due() -> None:
    """From 10 a second to none in two seconds: ten operations."""
    times = arrival_times(Load(rate=10, ramp_to=0, in_flight=1, seconds=2), 1)
    assert [at < 2 for at in islice(times, 12)] == [True] * 10 + [False] * 2
