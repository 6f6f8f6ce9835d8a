"""What needs attention although turns are taken: withheld data of another user, for an hour."""

from sidecar.composition.telemetry.attention import INCIDENT_SHOWN, IncidentWatch
from sidecar.observability import names
from sidecar.observability.metrics import Metrics


def test_withheld_data_of_another_user_is_said_for_an_hour_after_the_last() -> None:
    """Nothing before the first one; a second one begins the hour anew."""
    metrics, now = Metrics(), [0.0]
    incidents = metrics.counter(names.SECURITY_INCIDENTS, "Incidents.", "reason")
    watch = IncidentWatch(metrics, lambda: now[0])
    before = watch.attention()
    incidents.add("principal_mismatch")
    (first,) = watch.attention()
    now[0] = INCIDENT_SHOWN / 2
    incidents.add("nonce_mismatch")
    (both,) = watch.attention()
    now[0] = 1.25 * INCIDENT_SHOWN
    still = watch.attention()
    now[0] = 1.6 * INCIDENT_SHOWN

    assert before == ()
    assert first.startswith("1 responses of data services were withheld")
    assert both.startswith("2 responses")
    assert len(still) == 1
    assert watch.attention() == ()
