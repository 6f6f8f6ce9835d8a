"""The connector and the checks together, over real gRPC, against each fault of the reference data service."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from examples.ccs.faults import Fault, FaultKind, Where
from examples.ccs.grpc_front import serving_grpc
from examples.ccs.schemas import PAYLOAD_SCHEMAS, VERSIONS
from examples.ccs.server import ReferenceCcs
from sidecar.adapters.connector_grpc.connector import GrpcConnector
from sidecar.adapters.connector_grpc.settings import GrpcConnectorSettings
from sidecar.core.definitions.cards.card import ToolEntry
from sidecar.core.envelopes import (
    EnvelopeEncoding,
    Judgement,
    Released,
    Withheld,
    WithholdReason,
    build_typing_registry,
    check_envelope,
    expectation_of,
)
from sidecar.core.identifiers import Principal, ToolId
from sidecar.policy.protocols import EnricherAnswer, EnricherCall, EnricherRefused, EnricherReply, RefusalKind
from tests.support.requirement import requirement

ADA = Principal("user-ada")
NONCE = "nonce-1"
CANARY = "canary-9d20c4"
KEY = ("offers", "offer_search")


@asynccontextmanager
async def asking(*faults: Fault, target: str = "127.0.0.1:0", **settings: Any) -> AsyncIterator[Any]:
    """Yield a function that asks once; its keyword arguments are fields of `EnricherCall`."""
    ccs = ReferenceCcs()
    for fault in faults:
        ccs.faults.set(fault)
    connector = GrpcConnector(GrpcConnectorSettings(**settings))
    async with serving_grpc(ccs, target) as endpoint:

        async def ask(**changes: Any) -> EnricherReply:
            return await connector.enrich(call(**{"endpoint": endpoint, **changes}))

        try:
            yield ask
        finally:
            await connector.close()


def call(**changes: Any) -> EnricherCall:
    """Return a call for user-ada to `endpoint`, which has to be given."""
    fields: dict[str, Any] = {
        "tool_id": ToolId("offer_search"),
        "domain_type": KEY[0],
        "enricher_id": KEY[1],
        "principal": ADA,
        "arguments_json": '{"query": "coffee"}',
        "nonce": NONCE,
        "timeout": timedelta(seconds=10),
    }
    return EnricherCall(**{**fields, **changes})


def judged(reply: EnricherReply, key: tuple[str, str] = KEY) -> Judgement:
    """Return what the gateway's checks make of an answer for user-ada."""
    assert isinstance(reply, EnricherAnswer)
    assert reply.form is EnvelopeEncoding.PROTOBUF
    tool = ToolEntry(
        id=ToolId(key[1]),
        description="",
        domain_type=key[0],
        enricher_id=key[1],
        version=VERSIONS[key],
        echoes_nonce=True,
        payload_schema=PAYLOAD_SCHEMAS[key],
    )
    registry, _ = build_typing_registry([tool])
    return check_envelope(reply.body, expectation_of(tool, registry, ADA, NONCE), form=reply.form)


@requirement("PC2-D-23")
@pytest.mark.parametrize("key", list(PAYLOAD_SCHEMAS))
async def test_every_enricher_answers_with_an_envelope_that_is_released(key: tuple[str, str], tmp_path: Path) -> None:
    """Each (domain_type, enricher_id) of the service, over a Unix socket."""
    async with asking(target=f"unix:{tmp_path}/ccs.sock") as ask:
        verdict = judged(await ask(domain_type=key[0], enricher_id=key[1]), key)

    assert isinstance(verdict, Released)
    assert json.loads(verdict.cache_meta_json)["cacheable"] is True


WITHHELD: list[tuple[FaultKind, dict[str, Any], WithholdReason]] = [
    (FaultKind.WRONG_PRINCIPAL, {}, WithholdReason.PRINCIPAL_MISMATCH),
    (FaultKind.WRONG_PRINCIPAL, {"status": "partial"}, WithholdReason.PRINCIPAL_MISMATCH),
    (FaultKind.WRONG_PRINCIPAL, {"status": "error"}, WithholdReason.PRINCIPAL_MISMATCH),
    (FaultKind.WRONG_PRINCIPAL, {"answer_as": "User-ada"}, WithholdReason.PRINCIPAL_MISMATCH),
    (FaultKind.DUPLICATE_KEYS, {"where": Where.PRINCIPAL}, WithholdReason.PRINCIPAL_MISMATCH),
    (FaultKind.DUPLICATE_KEYS, {"where": Where.ENVELOPE}, WithholdReason.MALFORMED),
    (FaultKind.REPLAY, {}, WithholdReason.NONCE_MISMATCH),
    (FaultKind.WRONG_MAJOR, {}, WithholdReason.VERSION_MISMATCH),
    (FaultKind.ERROR, {}, WithholdReason.STATUS_ERROR),
    (FaultKind.WRONG_KEY, {}, WithholdReason.UNKNOWN_KEY),
    (FaultKind.INVALID_PAYLOAD, {}, WithholdReason.PAYLOAD_INVALID),
    (FaultKind.MALFORMED, {}, WithholdReason.MALFORMED),
]


@requirement("PC2-T-5", "PC2-D-26", "PC2-D-34")
@pytest.mark.parametrize(("kind", "details", "reason"), WITHHELD)
async def test_a_wrong_envelope_is_withheld_for_its_reason(
    kind: FaultKind, details: dict[str, Any], reason: WithholdReason
) -> None:
    """Nothing of it, not even the canary, is in what the gateway keeps."""
    async with asking(Fault(kind=kind, canary=CANARY, **details)) as ask:
        verdict = judged(await ask())

    assert verdict == Withheld(reason)
    assert CANARY not in repr(verdict)


REFUSED = [
    (FaultKind.MISSING_PRINCIPAL, RefusalKind.MISSING_PRINCIPAL),
    (FaultKind.PRINCIPAL_MISMATCH, RefusalKind.PRINCIPAL_MISMATCH),
    (FaultKind.DOWN, RefusalKind.UNAVAILABLE),
    (FaultKind.OVERSIZE, RefusalKind.TOO_LARGE),
]


@requirement("PC2-D-32", "PC2-D-33")
@pytest.mark.parametrize(("kind", "refusal"), REFUSED)
async def test_a_refusal_is_told_as_such(kind: FaultKind, refusal: RefusalKind) -> None:
    """Over gRPC a refusal is a status with a message."""
    async with asking(Fault(kind=kind)) as ask:
        assert await ask() == EnricherRefused(refusal)


@pytest.mark.parametrize("endpoint", ["ccs.example.com:8481", "10.0.0.7:8481", "dns:///ccs:8481", ""])
async def test_nothing_is_sent_beyond_this_machine_unless_it_is_allowed(endpoint: str) -> None:
    """A name, an address, a resolver's target, nothing at all."""
    async with asking() as ask:
        assert await ask(endpoint=endpoint) == EnricherRefused(RefusalKind.UNAVAILABLE)


async def test_a_new_service_takes_the_place_of_one_that_is_not_in_use(tmp_path: Path) -> None:
    """Room for one connection, two services in turn, then the first again."""
    ccs = ReferenceCcs()
    connector = GrpcConnector(GrpcConnectorSettings(max_connections=1))
    async with serving_grpc(ccs, f"unix:{tmp_path}/a") as first, serving_grpc(ccs, f"unix:{tmp_path}/b") as second:
        for endpoint in (first, second, first):
            assert isinstance(judged(await connector.enrich(call(endpoint=endpoint))), Released)
        await connector.close()


async def test_a_service_that_is_down_is_named_with_address_errno_and_remedy(tmp_path: Path) -> None:
    """A socket that nobody serves: what an operator needs to find it."""
    target = f"unix:{tmp_path}/no.sock"
    async with asking() as ask:
        reply = await ask(endpoint=target)

    assert isinstance(reply, EnricherRefused)
    assert reply.fault is not None
    assert (reply.fault.target, reply.fault.address, reply.fault.errno) == (target, target, "ENOENT")
    assert "start the process" in reply.fault.remedy
