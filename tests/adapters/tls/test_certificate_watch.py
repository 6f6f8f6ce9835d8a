"""The server certificate is watched: metrics for the alert `CertificateExpires`, one warning for each certificate."""

import datetime as dt
from pathlib import Path

import pytest

from sidecar.composition.tls import CertificateWatch
from sidecar.observability import call_names
from sidecar.observability.metrics import Gauge, Metrics
from sidecar.observability.readiness import Readiness
from tests.support.authority import LOCAL, Authority
from tests.support.second_place import SettableClock

DAY = dt.timedelta(days=1)


@pytest.mark.parametrize(
    ("life", "late", "told"),
    [
        ((-DAY, DAY), False, []),
        ((-3 * DAY, DAY), True, ["tls_certificate_expires"]),
        ((-3 * DAY, -DAY), True, ["tls_files_unusable"]),
    ],
    ids=str,
)
def test_a_certificate_in_its_last_third_is_late_by_metric_and_by_warning(
    tmp_path: Path, life: tuple[dt.timedelta, dt.timedelta], late: bool, told: list[str]
) -> None:
    """The two gauges say what the alert compares; the warning comes once, however often one looks."""
    issued = Authority().issue(*LOCAL, life=life)
    warned: list[str] = []
    clock = SettableClock(dt.datetime.now(dt.UTC))
    watch = CertificateWatch(clock, lambda kind, _: warned.append(kind))
    watch.follow("tls", issued.written(tmp_path))
    metrics = Metrics()

    watch.show(metrics, Readiness(lambda _: None), {})
    watch.look()
    watch.look()

    gauges = {metric.name: metric.read()["tls",] for metric in metrics if isinstance(metric, Gauge)}
    left, whole = gauges[call_names.TLS_CERTIFICATE_LEFT], gauges[call_names.TLS_CERTIFICATE_LIFE]
    assert whole == pytest.approx((life[1] - life[0]).total_seconds())
    assert left == pytest.approx(life[1].total_seconds(), abs=60)
    assert (left * 3 < whole) is late
    assert warned == told
