"""Providers that fail, hang, tell events, or cannot be made; and what they do to a running sidecar."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from plugins.flags_openfeature.tests.benches import Bench, FileBench, FlagdBench, OfrepBench, flag
from plugins.flags_openfeature.tests.providers import OwnProvider
from sidecar.policy.factory import make_flag_backend
from sidecar.policy.loading import PluginProblem
from sidecar_conformance.flag_backend import SourceFault
from sidecar_flags_openfeature import OpenFeatureFlags, OpenFeatureSettings
from sidecar_flags_openfeature.backend import MOST_THREADS, ProviderHangs, ProviderNotReady
from sidecar_flags_openfeature.plugin import sidecar_flag_backends
from tests.support.flag_services import COHORT, KILL, closes_and_opens_again
from tests.support.requirement import requirement

OWN: Final = "plugins.flags_openfeature.tests.providers:OwnProvider"
ON: Final = {KILL: True, COHORT: 25}


@pytest.fixture(autouse=True)
def providers() -> Iterator[list[OwnProvider]]:
    """Keep what is made."""
    OwnProvider.made.clear()
    yield OwnProvider.made
    if OwnProvider.hangs is not None:
        OwnProvider.hangs.set()
        OwnProvider.hangs = None


def backend_of(**said: Any) -> OpenFeatureFlags:
    """Return a backend over the provider of one's own."""
    backend = OpenFeatureFlags(OpenFeatureSettings(OWN, {"values": ON}, **said))
    backend.set_names(frozenset(ON))
    return backend


async def test_any_provider_can_be_named_and_its_secret_comes_from_a_file(
    tmp_path: Path, providers: list[OwnProvider]
) -> None:
    """As the keyword argument that the settings say."""
    (tmp_path / "key").write_text("s3cret\n")
    backend = backend_of(secret_files={"key": tmp_path / "key"})
    report = await backend.fetch()
    await backend.close()
    assert (report.on, report.shares) == (set(ON), {COHORT: 2500})
    assert {each.key for each in providers} == {"s3cret"}
    assert all(each.ended for each in providers)


async def test_stale_is_no_contact_and_the_next_fetch_asks_a_new_provider(providers: list[OwnProvider]) -> None:
    """It is a hint, too; that values are old counts also if it is told while they are read."""
    backend = backend_of()
    await backend.fetch()
    providers[-1].says_stale()
    await backend.changed()
    with pytest.raises(ProviderNotReady, match="STALE"):
        await backend.fetch()
    assert providers[-1].ended
    await backend.fetch()
    providers[-1].during = providers[-1].says_stale
    with pytest.raises(ProviderNotReady, match="STALE"):
        await backend.fetch()
    await backend.close()


async def test_a_provider_that_hangs_for_ever_takes_a_few_threads_and_no_more() -> None:
    """Each fetch is given up by the sidecar; once the provider answers again, so does the backend."""
    backend = backend_of()
    OwnProvider.hangs = threading.Event()
    for _ in range(MOST_THREADS):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(backend.fetch(), 0.01)
    with pytest.raises(ProviderHangs):
        await backend.fetch()
    await asyncio.wait_for(backend.close(), 5)
    OwnProvider.hangs.set()
    OwnProvider.hangs = None


async def test_what_a_provider_raises_is_its_own_failure_even_system_exit(providers: list[OwnProvider]) -> None:
    """A thread of its own, so nothing else sees it."""

    def leaves() -> None:
        raise SystemExit

    backend = backend_of()
    await backend.fetch()
    providers[-1].during = leaves
    with pytest.raises(ProviderNotReady, match="SystemExit"):
        await backend.fetch()
    await backend.close()


@pytest.mark.parametrize(
    "said",
    [
        {"provider": "nowhere.at.all:Provider"},
        {"provider": "flagd", "options": {"unknown": 1}},
        {"provider": "flagd", "options": {"resolver_type": "file"}},
        {"provider": "flagd", "options": {"resolver_type": "guess"}},
        {"provider": "ofrep", "options": {"base_url": "http://flags.example.com"}},
        {"provider": "ofrep"},
        {"provider": "ofrep", "options": {"base_url": "https://flags.example.com"}, "reasons": ["SPLIT"]},
        {"provider": OWN, "options": {"values": {}}, "secret_files": {"key": "/nowhere"}},
        {},
    ],
)
def test_what_cannot_be_made_stops_the_start(said: dict[str, Any]) -> None:
    """With the setting that is wrong, and no value."""
    with pytest.raises(PluginProblem):
        make_flag_backend(sidecar_flag_backends()[0], said)


@requirement("PF1-T-19", "PF1-D-34")
@pytest.mark.system
@pytest.mark.seconds(90)
@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("file", SourceFault.GARBAGE),
        ("in-process", SourceFault.AWAY),
        ("in-process", SourceFault.HANG),
        ("ofrep", SourceFault.HANG),
        ("ofrep", SourceFault.GARBAGE),
    ],
)
async def test_a_service_that_fails_closes_its_own_sub_agent_and_kills_nothing(
    tmp_path: Path, kind: str, fault: SourceFault
) -> None:
    """Through the RPC: gated, then stale, then back; whom no flag gates never notices."""
    benches: dict[str, Bench] = {"file": FileBench(tmp_path), "in-process": FlagdBench(), "ofrep": OfrepBench(tmp_path)}
    bench = benches[kind]
    async with bench.running():
        await bench.have({KILL: flag(True), COHORT: flag(True)})
        await closes_and_opens_again(
            bench.make(), lambda: bench.misbehave(fault), lambda: bench.misbehave(SourceFault.NONE)
        )
