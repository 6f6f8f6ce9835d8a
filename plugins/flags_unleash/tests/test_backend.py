"""The backend against a real server: shares, switching, tokens, and a service that lies to a running sidecar."""

import asyncio
from pathlib import Path
from typing import Final

import pytest
from starlette.responses import Response

from plugins.flags_unleash.tests.bench import UnleashBench
from plugins.flags_unleash.tests.unleash import OTHER_ENVIRONMENT, Unleash, share
from sidecar.core.errors import StoreUnavailable
from sidecar.policy.protocols import FlagReport
from sidecar_conformance.flag_backend import SourceFault
from sidecar_flags_unleash import UnleashFlags
from sidecar_flags_unleash.wire import MOST_BYTES, NotUnderstood
from tests.support.flag_services import COHORT, KILL, closes_and_opens_again
from tests.support.requirement import requirement

pytestmark = pytest.mark.system
SHARED: Final = "ai_assistant_subagent_shared"


@pytest.fixture
def bench(unleash: Unleash, tmp_path: Path) -> UnleashBench:
    """Make one."""
    return UnleashBench(unleash, tmp_path)


async def fetched(backend: UnleashFlags) -> FlagReport:
    """Fetch once, and close."""
    try:
        return await backend.fetch()
    finally:
        await backend.close()


async def test_a_gradual_rollout_is_read_as_a_share(bench: UnleashBench) -> None:
    """As the server keeps it and tells it, not as a client of it would decide about a user."""
    await asyncio.to_thread(bench.unleash.have, SHARED, on=True, strategies=[share(25)])
    async with bench.running():
        report = await fetched(bench.make())
    assert SHARED in report.on
    assert report.shares[SHARED] == 2500


async def test_to_switch_a_flag_on_keeps_the_share_that_a_person_gave_it(bench: UnleashBench) -> None:
    """And a share of nobody is not on: the switch fails, and says where to look."""
    async with bench.running():
        backend = bench.make()
        await asyncio.to_thread(bench.unleash.have, SHARED, on=False, strategies=[share(25)])
        await backend.switch(SHARED, True, "ada")
        await asyncio.to_thread(bench.unleash.have, SHARED, on=False, strategies=[share(0)])
        with pytest.raises(StoreUnavailable, match="look at its strategies"):
            await backend.switch(SHARED, True, "ada")
        await backend.close()
    assert bench.unleash.features()[SHARED]["strategies"][0]["parameters"]["rollout"] == "0"


async def test_without_an_admin_token_a_person_switches(bench: UnleashBench) -> None:
    """The edit says where; a switch all the same fails."""
    async with bench.running():
        backend = bench.made(writes=False)
        edit = backend.edit_for(KILL, False)
        with pytest.raises(StoreUnavailable, match="admin_token_file"):
            await backend.switch(KILL, False, "ada")
        await backend.close()
    assert edit.startswith("Unleash, environment production of http://127.0.0.1:")
    assert edit.endswith(f"switch {KILL} off")


@pytest.mark.parametrize("token", ["", "default:production.wrong", "two words", OTHER_ENVIRONMENT])
async def test_a_token_that_is_none_or_of_another_environment_is_no_contact(bench: UnleashBench, token: str) -> None:
    """The flags of `development` say nothing of `production`; no message holds the token."""
    await bench.set_flags(frozenset({KILL}))
    async with bench.running():
        (bench._folder / "client").write_text(token)
        with pytest.raises(Exception, match=r"token|HTTP status 401") as raised:
            await fetched(bench.make())
    assert not token or token not in str(raised.value)


async def test_a_redirect_is_not_followed(bench: UnleashBench) -> None:
    """The token would go with it."""
    async with bench.running():
        bench.proxy.lie = Response(status_code=302, headers={"location": bench.unleash.url})
        with pytest.raises(Exception, match="HTTP status 302"):
            await fetched(bench.make())


async def test_a_list_without_end_is_cut_off(bench: UnleashBench) -> None:
    """Bounded, whatever the server sends."""
    async with bench.running():
        bench.proxy.lie = Response(b" " * (MOST_BYTES + 1))
        with pytest.raises(Exception, match="more than 8388608 bytes"):
            await fetched(bench.make())


async def test_an_empty_list_is_no_contact(bench: UnleashBench) -> None:
    """The server says 200, and would turn everything off."""
    lie = b'{"features": [], "query": {"environment": "production"}}'
    async with bench.running():
        bench.proxy.lie = Response(lie, media_type="application/json")
        with pytest.raises(NotUnderstood, match="no flag"):
            await fetched(bench.make())


@requirement("PF1-T-19", "PF1-D-34")
@pytest.mark.seconds(90)
@pytest.mark.parametrize("fault", [SourceFault.HANG, SourceFault.AWAY, SourceFault.GARBAGE])
async def test_a_service_that_fails_closes_its_own_sub_agent_and_kills_nothing(
    bench: UnleashBench, fault: SourceFault
) -> None:
    """Through the RPC: gated by Unleash, then stale, then back; whom no flag gates never notices."""
    for name in (KILL, COHORT):
        await asyncio.to_thread(bench.unleash.have, name, on=True)
    async with bench.running():
        await closes_and_opens_again(
            bench.make(), lambda: bench.misbehave(fault), lambda: bench.misbehave(SourceFault.NONE)
        )
