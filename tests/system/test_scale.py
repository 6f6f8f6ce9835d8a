"""What one PostgreSQL carries, measured with few sidecars: that everything is measured, not what it comes to."""

import json
from typing import Any

import pytest

from scripts import scale
from scripts.benchmark.scale import pooler
from tests.support.postgres import postgres_binaries

pytestmark = pytest.mark.system


@pytest.mark.seconds(120)
def test_sidecars_and_stores_are_measured_both_ways(capsys: pytest.CaptureFixture[str]) -> None:
    """Two sidecars and two stores, directly and through a pooler, which keeps fewer connections."""
    postgres_binaries()
    if pooler.program() is None:
        pytest.skip("missing tool: pgbouncer (Debian package pgbouncer)")

    code = scale.main(["--sidecars", "2", "--stores", "2", "--dispatches", "64", "--in-flight", "2", "--json"])

    told: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["carried"]
    assert code == 0
    expected = [("sidecars", False), ("sidecars", True), ("stores", False), ("stores", True)]
    assert [(each["what"], each["pooled"]) for each in told] == expected
    for each in told:
        assert each["dispatches"] == 64
        assert min(each["rate"], each["p50_ms"], each["commits"], each["log_kb"], each["cpu_us"]["PostgreSQL"]) > 0
        assert (each["cpu_us"]["pooler"] > 0) is each["pooled"]
        assert (each["cpu_us"]["sidecars"] > 0) is (each["what"] == "sidecars")
    direct, pooled = told[:2]
    assert pooled["connections"] < direct["connections"]


@pytest.mark.parametrize(
    ("ways", "server", "between", "said"),
    [
        (("direct", "pooled"), True, True, ""),
        (("direct", "pooled"), False, True, "PostgreSQL not installed"),
        (("direct", "pooled"), True, False, "PgBouncer not installed"),
        (("direct",), True, False, ""),
    ],
)
def test_what_is_not_installed_is_named(ways: tuple[str, ...], server: bool, between: bool, said: str) -> None:
    """Only what is needed is missed."""
    assert scale.missing(ways, server=server, pooler=between) == said
