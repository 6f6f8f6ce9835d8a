"""The connector and the checks together, over real HTTP, against each fault of the reference data service."""

import json
from datetime import timedelta
from typing import Any

import pytest

from examples.ccs.faults import FaultKind, Where
from examples.ccs.schemas import PAYLOAD_SCHEMAS
from sidecar.core.envelopes import EnvelopeStatus, Released, Withheld, WithholdReason
from sidecar.policy.protocols import EnricherAnswer, EnricherRefused, RefusalKind
from tests.adapters.connector_rest.calling import ADA, call, connecting, judged, tool
from tests.support.reference_ccs import running_reference_ccs
from tests.support.requirement import requirement

CANARY = "canary-7f3a91"


@requirement("PC2-D-23", "PC2-T-4")
@pytest.mark.parametrize("key", list(PAYLOAD_SCHEMAS))
async def test_every_enricher_answers_with_an_envelope_that_is_released(key: tuple[str, str]) -> None:
    """Each (domain_type, enricher_id) of the service: an ok envelope whose payload fits its schema."""
    domain_type, enricher_id = key
    async with running_reference_ccs() as ccs, connecting() as connector:
        reply = await connector.enrich(call(ccs.endpoint, domain_type=domain_type, enricher_id=enricher_id))

    verdict = judged(reply, tool(domain_type, enricher_id))
    assert isinstance(verdict, Released)
    assert verdict.status is EnvelopeStatus.OK
    assert json.loads(verdict.cache_meta_json)["cacheable"] is True


@requirement("PC2-D-31")
async def test_the_request_carries_principal_arguments_nonce_and_trace_and_nothing_else() -> None:
    """A call with trace context and baggage: the service sees the first, and the user in body and credential."""
    headers = {"traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01", "baggage": "user=ada"}
    principal = "üser/1 ☃"
    async with running_reference_ccs() as ccs, connecting() as connector:
        await connector.enrich(call(ccs.endpoint, principal=principal, trace_headers=headers))
        (seen,) = ccs.calls

    assert (seen.principal, seen.on_behalf_of) == (principal, principal)
    assert (seen.arguments, seen.nonce) == ({"query": "coffee"}, "nonce-1")
    assert seen.traceparent == headers["traceparent"]


WITHHELD: list[tuple[FaultKind, dict[str, Any], WithholdReason]] = [
    (FaultKind.WRONG_PRINCIPAL, {}, WithholdReason.PRINCIPAL_MISMATCH),
    (FaultKind.WRONG_PRINCIPAL, {"status": "partial"}, WithholdReason.PRINCIPAL_MISMATCH),
    (FaultKind.WRONG_PRINCIPAL, {"status": "error"}, WithholdReason.PRINCIPAL_MISMATCH),
    (FaultKind.WRONG_PRINCIPAL, {"answer_as": "User-ada"}, WithholdReason.PRINCIPAL_MISMATCH),
    (FaultKind.DUPLICATE_KEYS, {"where": Where.PRINCIPAL}, WithholdReason.PRINCIPAL_MISMATCH),
    (FaultKind.DUPLICATE_KEYS, {"where": Where.ENVELOPE}, WithholdReason.MALFORMED),
    (FaultKind.DUPLICATE_KEYS, {"where": Where.PAYLOAD}, WithholdReason.PAYLOAD_INVALID),
    (FaultKind.REPLAY, {}, WithholdReason.NONCE_MISMATCH),
    (FaultKind.WRONG_MAJOR, {}, WithholdReason.VERSION_MISMATCH),
    (FaultKind.ERROR, {}, WithholdReason.STATUS_ERROR),
    (FaultKind.BREAKING, {}, WithholdReason.MALFORMED),
    (FaultKind.WRONG_KEY, {}, WithholdReason.UNKNOWN_KEY),
    (FaultKind.INVALID_PAYLOAD, {}, WithholdReason.PAYLOAD_INVALID),
    (FaultKind.MALFORMED, {}, WithholdReason.MALFORMED),
]


@requirement("PC2-T-5", "PC2-T-28", "PC2-T-32", "PC2-D-27")
@pytest.mark.parametrize(("kind", "details", "reason"), WITHHELD)
async def test_a_wrong_envelope_is_withheld_whole(
    kind: FaultKind, details: dict[str, Any], reason: WithholdReason
) -> None:
    """Each fault that comes as an envelope: the reason is named and the canary in it goes nowhere."""
    async with running_reference_ccs() as ccs, connecting() as connector:
        ccs.fault(kind, canary=CANARY, **details)
        reply = await connector.enrich(call(ccs.endpoint))

    verdict = judged(reply, tool())
    assert verdict == Withheld(reason)
    assert CANARY not in repr((reply, verdict))


REFUSED: list[tuple[FaultKind, RefusalKind]] = [
    (FaultKind.DOWN, RefusalKind.UNAVAILABLE),
    (FaultKind.OVERSIZE, RefusalKind.TOO_LARGE),
    (FaultKind.GZIP_BOMB, RefusalKind.TOO_LARGE),
    (FaultKind.MISSING_PRINCIPAL, RefusalKind.MISSING_PRINCIPAL),
    (FaultKind.PRINCIPAL_MISMATCH, RefusalKind.PRINCIPAL_MISMATCH),
]


@requirement("PC2-D-32", "PC2-D-33")
@pytest.mark.parametrize(("kind", "refusal"), REFUSED)
async def test_an_answer_without_an_envelope_is_a_refusal(kind: FaultKind, refusal: RefusalKind) -> None:
    """Each fault that gives no envelope, once; the next call finds the service well again."""
    async with running_reference_ccs() as ccs, connecting() as connector:
        ccs.fault(kind, times=1)
        first = await connector.enrich(call(ccs.endpoint))
        second = await connector.enrich(call(ccs.endpoint))

        assert first == EnricherRefused(refusal)
        assert isinstance(second, EnricherAnswer)
        assert len(ccs.calls) == 2, "a refusal was retried"


async def test_a_partial_answer_goes_on_as_partial() -> None:
    """`status: partial` with a failed source: the payload is released, the failed source is not in it."""
    async with running_reference_ccs() as ccs, connecting() as connector:
        ccs.fault(FaultKind.PARTIAL)
        verdict = judged(await connector.enrich(call(ccs.endpoint)), tool())

    assert isinstance(verdict, Released)
    assert verdict.status is EnvelopeStatus.PARTIAL
    assert "merchant_feed" not in verdict.payload_json + verdict.cache_meta_json


async def test_a_slow_service_ends_the_call_at_its_own_timeout() -> None:
    """A service that would answer in half a minute, a call with 50 ms: TIMEOUT, and the connection is not reused."""
    async with running_reference_ccs() as ccs, connecting() as connector:
        ccs.fault(FaultKind.SLOW, times=1)
        reply = await connector.enrich(call(ccs.endpoint, timeout=timedelta(milliseconds=50)))
        next_reply = await connector.enrich(call(ccs.endpoint))

    assert reply == EnricherRefused(RefusalKind.TIMEOUT)
    assert isinstance(next_reply, EnricherAnswer)


async def test_without_a_nonce_a_replay_for_the_right_principal_is_not_noticed() -> None:
    """Where the tool does not declare the echo, the principal is all there is: the limit the documentation states."""
    async with running_reference_ccs() as ccs, connecting() as connector:
        ccs.fault(FaultKind.REPLAY, canary=CANARY)
        reply = await connector.enrich(call(ccs.endpoint, nonce=None))

    assert isinstance(judged(reply, tool(echoes_nonce=False)), Released)


async def test_switches_apply_per_enricher_per_principal_and_per_count() -> None:
    """A fault for another user, another enricher, or only from the second request on leaves the others alone."""
    async with running_reference_ccs() as ccs, connecting() as connector:
        ccs.fault(FaultKind.DOWN, principal="user-grace")
        ccs.fault(FaultKind.DOWN, enricher_id="points_balance")
        ccs.fault(FaultKind.DOWN, principal=ADA, skip=1, times=1)
        replies = [await connector.enrich(call(ccs.endpoint)) for _ in range(3)]
        grace = await connector.enrich(call(ccs.endpoint, principal="user-grace"))

    assert [isinstance(reply, EnricherAnswer) for reply in replies] == [True, False, True]
    assert grace == EnricherRefused(RefusalKind.UNAVAILABLE)
