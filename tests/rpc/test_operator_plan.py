"""The operators' listener as settings describe it."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from sidecar.core.operators.roles import CAUSES
from sidecar.observability import names
from sidecar.observability.metrics import Counter, Metrics
from sidecar.observability.operators import RefusalReports
from sidecar.settings.operators import OperatorSettings


def test_keys_without_the_name_of_a_deployment_are_refused() -> None:
    """Else a token of any deployment would count in all of them."""
    with pytest.raises(ValidationError, match="deployment is empty"):
        OperatorSettings(keys=(Path("ada.pub"),))
    assert OperatorSettings().keys == ()


def test_each_cause_of_a_refusal_is_counted_from_zero() -> None:
    """So that the first one is a rise."""
    metrics = Metrics()
    reports = RefusalReports(metrics)
    counter = next(each for each in metrics if each.name == names.OPERATORS_REFUSED)
    assert isinstance(counter, Counter)
    before = dict(counter.series)
    reports.refused("/a.B/C", "expired", "", "")

    assert before == {(cause,): 0 for cause in CAUSES}
    assert counter.series == before | {("expired",): 1}
