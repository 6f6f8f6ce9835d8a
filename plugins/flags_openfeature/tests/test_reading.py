"""What a provider's answers come to: on, off, a share of users, unclear, or no contact."""

import os
from pathlib import Path
from typing import Any, Final

import pytest
from starlette.responses import JSONResponse

from plugins.flags_openfeature.tests.benches import Bench, FileBench, FlagdBench, OfrepBench, flag
from sidecar.policy.protocols import FlagReport
from sidecar_flags_openfeature import OpenFeatureFlags
from sidecar_flags_openfeature.evaluation import NothingClear
from sidecar_flags_openfeature.settings import OpenFeatureSettings
from tests.support.requirement import requirement

KNOWN: Final = "ai_assistant_subagent_known"
NAME: Final = "ai_assistant_subagent_shop_cohort"
FRACTIONAL: Final = {
    "fractional": [{"cat": [{"var": "$flagd.flagKey"}, {"var": "targetingKey"}]}, ["on", 90], ["other", 10]]
}
BY_PLACE: Final = {"if": [{"==": [{"var": "place"}, "eu"]}, "on", "other"]}


async def told(settings: OpenFeatureSettings, *names: str) -> FlagReport:
    """Fetch once."""
    backend = OpenFeatureFlags(settings)
    backend.set_names(frozenset(names or (NAME, KNOWN)))
    try:
        return await backend.fetch()
    finally:
        await backend.close()


def read(report: FlagReport) -> int | None:
    """Return for how many users `NAME` is on; None: that is unclear."""
    if NAME in report.unclear:
        assert NAME not in report.on | report.off
        return None
    return report.shares.get(NAME, 10_000) if NAME in report.on else 0


@pytest.fixture(params=["file", "in-process", "ofrep"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    """Make one of each kind."""
    if request.param == "in-process":
        return FlagdBench()
    return FileBench(tmp_path) if request.param == "file" else OfrepBench(tmp_path)


@pytest.mark.parametrize(
    ("value", "share"),
    [(True, 10_000), (False, 0), (100, 10_000), (0, 0), (25, 2500), (12.5, 1250), (0.01, 1)],
)
async def test_a_flag_is_a_boolean_or_a_percentage(bench: Bench, value: bool | float, share: int) -> None:
    """Over each provider."""
    async with bench.running():
        await bench.have({KNOWN: flag(True), NAME: flag(value)})
        report = await told(bench.settings())
    assert read(report) == share
    assert report.asked == {NAME, KNOWN}


@pytest.mark.parametrize("value", [101, -1, -0.5, 0.001, 1e300])
async def test_a_number_that_is_no_percentage_is_unclear(tmp_path: Path, value: float) -> None:
    """Neither on nor off; the other flags can be read."""
    bench = FileBench(tmp_path)
    await bench.have({KNOWN: flag(True), NAME: flag(value)})
    report = await told(bench.settings())
    assert read(report) is None
    assert report.on == {KNOWN}


@requirement("PF1-D-66")
async def test_no_provider_buckets_anybody(tmp_path: Path) -> None:
    """Flagd's `fractional` puts callers without a key in one bucket: 90 % would be everybody, or nobody."""
    bench = FileBench(tmp_path)
    await bench.have({KNOWN: flag(True), NAME: flag(True, targeting=FRACTIONAL)})
    assert read(await told(bench.settings())) is None

    ofrep = OfrepBench(tmp_path)
    async with ofrep.running():
        await ofrep.have({KNOWN: flag(True)})
        ofrep.answers[NAME] = JSONResponse({"key": NAME, "value": True, "variant": "on", "reason": "SPLIT"})
        assert read(await told(ofrep.settings())) is None
    assert ofrep.asked
    assert all("targetingKey" not in asked.get("context", {}) for asked in ofrep.asked)


async def test_a_rule_over_what_holds_for_everybody_counts_where_settings_say_so(tmp_path: Path) -> None:
    """The place of a deployment is no user."""
    bench = FileBench(tmp_path)
    await bench.have({KNOWN: flag(True), NAME: flag(True, targeting=BY_PLACE)})
    closed = bench.settings()
    reasons = frozenset({"STATIC", "TARGETING_MATCH"})
    for place, share in (("eu", 10_000), ("us", 0)):
        opened = OpenFeatureSettings("flagd", closed.options, context={"place": place}, reasons=reasons)
        assert read(await told(opened)) == share
    assert read(await told(closed)) is None


async def test_a_disabled_flag_and_one_that_is_not_there_are_off(bench: Bench) -> None:
    """Only the first is known to exist."""
    async with bench.running():
        await bench.have({KNOWN: flag(True), NAME: flag(False)})
        report = await told(bench.settings(), KNOWN, NAME, "nowhere")
    assert (report.on, report.off, report.unclear) == ({KNOWN}, {NAME}, frozenset())


async def test_a_flag_that_flagd_disables_is_off(tmp_path: Path) -> None:
    """Whatever its variants say."""
    bench = FileBench(tmp_path)
    await bench.have({KNOWN: flag(True), NAME: {**flag(True), "state": "DISABLED"}})
    assert read(await told(bench.settings())) == 0


async def test_a_provider_that_knows_none_of_the_flags_is_no_contact(bench: Bench) -> None:
    """So looks one that has not loaded them, or has lost them: all off would kill."""
    async with bench.running():
        await bench.have({"another": flag(True)})
        with pytest.raises(NothingClear):
            await told(bench.settings())


@pytest.mark.parametrize(
    "lie",
    [
        {"variant": "on", "reason": "STATIC"},
        {"value": "yes", "variant": "on", "reason": "STATIC"},
        {"value": None, "variant": "on", "reason": "STATIC"},
        {"value": True, "variant": "on", "reason": "STALE"},
        {"value": True, "variant": "on", "reason": "UNKNOWN"},
    ],
)
async def test_an_answer_without_a_value_of_its_own_is_unclear_and_not_off(tmp_path: Path, lie: dict[str, Any]) -> None:
    """The provider hands our default back for a missing value; taken for off, that would kill."""
    bench = OfrepBench(tmp_path)
    async with bench.running():
        await bench.have({KNOWN: flag(True)})
        bench.answers[NAME] = JSONResponse({"key": NAME, **lie})
        assert read(await told(bench.settings())) is None


async def test_an_older_copy_that_is_put_back_is_seen(tmp_path: Path) -> None:
    """With its old time, which the provider itself takes for no change."""
    bench = FileBench(tmp_path)
    await bench.have({KNOWN: flag(True), NAME: flag(True)})
    backend = OpenFeatureFlags(bench.settings())
    backend.set_names(frozenset({NAME}))
    assert read(await backend.fetch()) == 10_000
    await bench.have({KNOWN: flag(True), NAME: flag(False)})
    os.utime(bench.path, (0, 0))
    assert read(await backend.fetch()) == 0
    await backend.close()
