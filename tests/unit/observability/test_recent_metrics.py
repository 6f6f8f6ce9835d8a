"""`/metrics` is made once a second at most."""

from collections.abc import Mapping

from sidecar.composition.pages import RecentMetrics, pages
from sidecar.observability.metrics import Metrics
from sidecar.observability.readiness import Readiness
from sidecar.observability.redaction import Redactor
from sidecar.rpc.ops_http import Render


class Clock:
    """A time that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        """Return it."""
        return self.now


class Counted:
    """A gauge that counts how often it is read."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self) -> float:
        """Return how often."""
        self.reads += 1
        return float(self.reads)


def shown_by(gauge: Counted, clock: Clock) -> Mapping[str, Render]:
    """Return the pages of a process with one gauge."""
    metrics = Metrics()
    metrics.gauge("test.reads", "How often.", gauge.read)
    return pages(RecentMetrics(metrics, clock.monotonic, 1.0), Readiness(lambda ready: None), Redactor())


async def test_many_scrapes_within_a_second_make_the_page_once() -> None:
    """A hundred in one moment; another one a second later is made anew."""
    gauge, clock = Counted(), Clock()
    metrics = shown_by(gauge, clock)["/metrics"]

    seen = {(await metrics("")).body for _ in range(100)}
    clock.now += 0.99
    seen.add((await metrics("")).body)
    assert (len(seen), gauge.reads) == (1, 1)

    clock.now += 0.01
    assert b"test_reads 2.0" in (await metrics("")).body


async def test_what_a_scraper_accepts_decides_its_form_and_not_how_often_it_is_made() -> None:
    """Two forms, each made once; no header makes a third."""
    gauge, clock = Counted(), Clock()
    metrics = shown_by(gauge, clock)["/metrics"]

    plain = await metrics("text/plain")
    dotted = await metrics("application/openmetrics-text;version=1.0.0")
    for number in range(100):
        assert (await metrics(f"x/{number}")).body == plain.body
    assert plain.content_type != dotted.content_type
    assert gauge.reads == 2
