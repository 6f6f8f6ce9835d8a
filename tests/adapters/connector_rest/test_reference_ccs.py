"""The reference data service itself: its schemas, its process, its refusals."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from examples.ccs.data import PAYLOADS
from examples.ccs.faults import FaultKind
from examples.ccs.schemas import PAYLOAD_SCHEMAS, VERSIONS
from sidecar.core.envelopes.versions import is_compatible
from tests.adapters.connector_rest.calling import tool
from tests.support.plain_http import plain_client
from tests.support.reference_ccs import running_reference_ccs, spawned_reference_ccs
from tests.support.requirement import requirement
from tests.unit.envelopes.building import schema_of

CONFIG: Final = Path(__file__).parents[3] / "examples" / "config" / "agent_config.yaml"
KEYS: Final = list(PAYLOAD_SCHEMAS)


@requirement("PC2-D-23", "PC2-T-24")
@pytest.mark.parametrize("key", KEYS)
def test_the_example_configuration_declares_the_schemas_of_the_service(key: tuple[str, str]) -> None:
    """The tool entry of each key: the very schema, and a version of the same major."""
    entries: list[dict[str, Any]] = yaml.safe_load(CONFIG.read_text())["tools"]
    (entry,) = [each for each in entries if (each.get("domain_type"), each.get("enricher_id")) == key]

    assert entry["payload_schema"] == PAYLOAD_SCHEMAS[key]
    assert is_compatible(entry["version"], VERSIONS[key])


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "principal", ["user-ada", "user-grace", "üser/1 ☃", *(f"user-{number}" for number in range(50))]
)
def test_the_data_of_every_user_fits_the_schema(key: tuple[str, str], principal: str) -> None:
    """Each enricher for many users: valid, the same at every call, and not another user's."""
    payload = PAYLOADS[key](principal, {})

    assert schema_of(tool(*key)).accepts(payload)
    assert payload == PAYLOADS[key](principal, {})
    assert payload != PAYLOADS[key](f"{principal}-other", {})


async def test_the_process_prints_its_address_serves_and_stops() -> None:
    """`python -m examples.ccs --port 0`: a switch over HTTP, a call it decides, the call's record, SIGTERM."""
    request = {"principal": "user-ada", "domain_type": "orders", "enricher_id": "order_status"}
    async with spawned_reference_ccs() as ccs, plain_client() as client:
        await ccs.fault(FaultKind.DOWN, times=1)
        statuses = [(await client.post(ccs.endpoint, json=request)).status_code for _ in range(2)]
        calls = await ccs.calls()
        healthy = await client.get(f"{ccs.address}/healthz")

    assert statuses == [503, 200]
    assert [(each.principal, each.fault, each.status) for each in calls] == [
        ("user-ada", "down", 503),
        ("user-ada", None, 200),
    ]
    assert healthy.status_code == 200
    with pytest.raises(ProcessLookupError):
        os.kill(ccs.pid, signal.SIG_DFL)


REFUSALS: list[tuple[dict[str, Any], dict[str, str], tuple[int, str]]] = [
    ({"principal": ""}, {}, (400, "missing_principal")),
    ({"principal": None}, {}, (400, "invalid_request")),
    ({"domain_type": "weather"}, {}, (404, "unknown_enricher")),
    ({}, {"x-ccs-on-behalf-of": "user-grace"}, (403, "principal_mismatch")),
    ({}, {"x-ccs-on-behalf-of": "User-ada"}, (403, "principal_mismatch")),
]


@requirement("PC2-D-32", "PC2-D-33")
@pytest.mark.parametrize(("changes", "headers", "refusal"), REFUSALS)
async def test_the_service_refuses_what_the_catalogue_says(
    changes: dict[str, Any], headers: dict[str, str], refusal: tuple[int, str]
) -> None:
    """No principal, one that is not the calling credential's, an enricher that does not exist."""
    request = {"principal": "user-ada", "domain_type": "orders", "enricher_id": "order_status", **changes}
    async with running_reference_ccs() as ccs, plain_client() as client:
        reply = await client.post(ccs.endpoint, json=request, headers=headers)

    assert (reply.status_code, reply.json()["code"]) == refusal


async def test_a_switch_that_is_misspelt_is_refused() -> None:
    """An unknown kind and an unknown field: 400 with the place, and no switch is set."""
    async with running_reference_ccs() as ccs, plain_client() as client:
        for switch in ({"kind": "slowly"}, {"kind": "slow", "enricher": "offers"}):
            reply = await client.post(f"{ccs.address}/admin/faults", content=json.dumps(switch))
            assert reply.status_code == 400
        assert ccs.service.faults.take("offer_search", "user-ada") is None


async def test_clearing_the_switches_gives_slow_answers_at_once() -> None:
    """A request that would wait half a minute, cleared over HTTP while it waits."""
    request = {"principal": "user-ada", "domain_type": "orders", "enricher_id": "order_status"}
    async with running_reference_ccs() as ccs, plain_client(timeout=10) as client:
        ccs.fault(FaultKind.SLOW)
        slow = asyncio.ensure_future(client.post(ccs.endpoint, json=request))
        await ccs.service.faults.delaying.wait()
        cleared = await client.delete(f"{ccs.address}/admin/faults")
        reply = await slow

    assert (cleared.status_code, reply.status_code) == (204, 200)


async def test_a_slow_answer_comes_after_its_delay() -> None:
    """A switch with a delay of 10 ms, left on."""
    request = {"principal": "user-ada", "domain_type": "orders", "enricher_id": "order_status"}
    async with running_reference_ccs() as ccs, plain_client(timeout=10) as client:
        ccs.fault(FaultKind.SLOW, delay_seconds=0.01)
        reply = await client.post(ccs.endpoint, json=request)

    assert reply.status_code == 200
    assert ccs.service.faults.delaying.is_set()
