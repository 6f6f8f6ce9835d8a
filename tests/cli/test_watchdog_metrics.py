"""The metrics of the watchdog of ramps: what they say, and how they are served."""

import socket
from io import StringIO
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sidecar.cli.evaluation.metrics_server import serving_metrics
from sidecar.cli.evaluation.ramp_watchdog import WatchOptions, watch_ramps
from sidecar.cli.evaluation.watchdog_metrics import WatchdogMetrics
from sidecar.cli.subagent.client import CannotOperate, OperatorExit, SidecarAddress
from sidecar.cli.subagent.views import OperatorCommands
from sidecar.core.evaluation.ramp_verdict import Verdict


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.seconds


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Return every sample, as Prometheus's parser reads it, by the end of its name and the values of its labels."""
    return {
        (sample.name.removeprefix("sidecar_watchdog_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_before_the_first_look_all_counters_are_there_and_no_round_is_claimed() -> None:
    """An alert sees the first refusal as a rise; a watchdog that never judged has no last round."""
    clock = Clock()
    assert samples(WatchdogMetrics(60, clock).text()) == {
        ("start_time_seconds",): 1000.0,
        ("interval_seconds",): 60.0,
        ("rounds_total", "judged"): 0.0,
        ("rounds_total", "failed"): 0.0,
        ("ramp_downs_total", "ramped_down"): 0.0,
        ("ramp_downs_total", "would_ramp_down"): 0.0,
        ("ramp_downs_total", "refused"): 0.0,
    }


def test_a_round_is_noted_with_its_verdicts_and_a_failed_one_does_not_count_as_the_last() -> None:
    """A ramp that has ended has no verdict any more; a slot's name is escaped."""
    clock = Clock()
    metrics = WatchdogMetrics(60, clock)
    clock.seconds += 1
    metrics.judged({"shop": Verdict.BREACH, 'a"b\\c\nd': Verdict.WAIT}, ["refused"])
    before = samples(metrics.text())
    clock.seconds += 60
    metrics.failed()
    failed = samples(metrics.text())
    metrics.judged({"shop": Verdict.PROPOSE}, [])
    after = samples(metrics.text())

    assert before["last_round_time_seconds",] == failed["last_round_time_seconds",] == 1001.0
    assert after["last_round_time_seconds",] == 1061.0
    assert (failed["rounds_total", "judged"], failed["rounds_total", "failed"]) == (1.0, 1.0)
    assert (failed["ramp_downs_total", "refused"], after["ramp_downs_total", "refused"]) == (1.0, 1.0)
    said = {key[1:]: value for key, value in before.items() if key[0] == "ramp_verdict" and value}
    assert said == {("shop", "breach"): 1.0, ('a"b\\c\nd', "wait"): 1.0}
    verdicts = {key[1:]: value for key, value in after.items() if key[0] == "ramp_verdict"}
    assert verdicts == {("shop", each): float(each == "propose") for each in Verdict}


def test_they_are_served_as_prometheus_asks_for_them() -> None:
    """Each request has the newest state; there is no other page; afterwards the port is free."""
    metrics = WatchdogMetrics(60)
    with serving_metrics("127.0.0.1:0", metrics.text) as served:
        with urlopen(f"http://{served}/metrics", timeout=5) as answer:
            assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
            assert ("rounds_total", "judged") in samples(answer.read().decode())
        metrics.failed()
        with urlopen(f"http://{served}/metrics?x=1", timeout=5) as answer:
            assert samples(answer.read().decode())["rounds_total", "failed"] == 1.0
        with pytest.raises(HTTPError) as missing:
            urlopen(f"http://{served}/", timeout=5)
        assert missing.value.code == 404
        missing.value.close()
        with (
            pytest.raises(CannotOperate, match="cannot be used: Address already in use"),
            serving_metrics(served, metrics.text),
        ):
            pass
    with serving_metrics(served, metrics.text):
        pass


def test_an_address_of_version_6_is_one() -> None:
    """Where the loopback has one; elsewhere it cannot be used, as any other that is not there."""
    served = ""
    try:
        with (
            serving_metrics("[::1]:0", WatchdogMetrics().text) as address,
            urlopen(f"http://{address}/metrics") as page,
        ):
            served = page.read().decode()
    except CannotOperate:
        pass
    assert ("sidecar_watchdog_rounds_total" in served) == has_ipv6()


class Ended(Exception):
    """A test ends the loop of the watchdog."""


def test_a_watchdog_that_cannot_look_says_so_in_its_metrics_and_goes_on(tmp_path: Path) -> None:
    """No sidecar is there: after the second round two have failed, and none is the last."""
    seen: list[dict[tuple[str, ...], float]] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    errors = StringIO()

    def pause(seconds: float) -> None:
        with urlopen(f"http://{address}/metrics", timeout=5) as page:
            seen.append(samples(page.read().decode()))
        if len(seen) == 2:
            raise Ended

    where = SidecarAddress(targets=(f"unix:{tmp_path}/nowhere",), token="t")
    commands = OperatorCommands(where, StringIO(), errors, pause=pause)
    options = WatchOptions(every=30, metrics_address=address)
    with pytest.raises(Ended):
        watch_ramps(lambda: commands, options)
    assert [each["rounds_total", "failed"] for each in seen] == [1.0, 2.0]
    assert ("last_round_time_seconds",) not in seen[-1]
    assert seen[-1]["interval_seconds",] == 30.0

    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = WatchOptions(every=30, metrics_address=f"127.0.0.1:{taken.getsockname()[1]}")
        assert watch_ramps(lambda: commands, busy) == OperatorExit.NOT_ASKED
    assert "cannot be used: Address already in use" in errors.getvalue()


@pytest.mark.parametrize("address", ["9465", "localhost:9465", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536"])
def test_an_address_that_is_none_is_refused_before_the_first_look(address: str) -> None:
    """With an example of one."""
    with pytest.raises(CannotOperate, match=r"such as 127\.0\.0\.1:9465") as refused, serving_metrics(address, str):
        pass
    assert refused.value.code is OperatorExit.NOT_ASKED


def has_ipv6() -> bool:
    """Return whether the loopback has an address of version 6."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False
