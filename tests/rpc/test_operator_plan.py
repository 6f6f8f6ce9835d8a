"""The operators' listener as settings describe it."""

from pathlib import Path
from typing import Final, cast

import pytest

from sidecar.adapters.checkpoints import read_or_make_signer
from sidecar.composition.operators.operator_access import OperatorServices, operator_plan
from sidecar.core.roles import CAUSES
from sidecar.observability import names
from sidecar.observability.metrics import Counter, Metrics
from sidecar.observability.operators import RefusalReports
from sidecar.operations.process.administration import Administer
from sidecar.settings import read_settings
from sidecar.settings.kinds import InvalidValues
from sidecar.settings.operators import OperatorSettings
from tests.support.operators import an_operated_sidecar


def test_keys_without_the_name_of_a_deployment_are_refused() -> None:
    """Else a token of any deployment would count in all of them."""
    with pytest.raises(InvalidValues, match="deployment is empty"):
        OperatorSettings(keys=(Path("ada.pub"),))
    assert OperatorSettings().keys == ()


def test_each_cause_of_a_refusal_is_counted_from_zero() -> None:
    """So that the first one is a rise."""
    metrics = Metrics()
    reports = RefusalReports(metrics)
    counter = next(each for each in metrics if each.name == names.OPERATORS_REFUSED)
    assert isinstance(counter, Counter)
    before = dict(counter.series)
    reports.refused("/a.B/C", "expired", None)

    assert before == {(cause,): 0 for cause in CAUSES}
    assert counter.series == before | {("expired",): 1}


SETTINGS: Final = """\
[definitions]
path = "config"

[dispatch]
fan_out_cap = 3

[operators]
deployment = "tests"
keys = [{plain}]

[operators.key.watchdog]
file = "{folder}/watchdog.pub"
roles = ["breaker"]
subjects = ["watchdog@ci"]
"""


@pytest.mark.parametrize("plain", ["", "ada"])
async def test_the_start_warns_of_a_key_for_everything_beside_one_with_limits(
    plain: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And says nothing while every key has its limits; either way there is a listener."""
    for name in ("ada", "watchdog"):
        read_or_make_signer(tmp_path / name)
    file = tmp_path / "sidecar.toml"
    file.write_text(SETTINGS.format(folder=tmp_path, plain=f'"{tmp_path}/{plain}.pub"' if plain else ""))
    async with an_operated_sidecar() as bench:
        nobody, history = cast("Administer", None), bench.sidecar.operations.history
        services = OperatorServices(bench.rollout, nobody, history)
        plan, _ = operator_plan(read_settings(file, {}), services, Metrics(), bench.clock, lambda *_: None)
    warned = [record for record in caplog.records if record.name == "sidecar.operators"]

    assert plan is not None
    assert [getattr(each, "fields", {}).get("keys") for each in warned] == ([[f"{tmp_path}/ada.pub"]] if plain else [])
