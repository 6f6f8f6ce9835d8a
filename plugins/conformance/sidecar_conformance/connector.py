"""Cases for connectors, contract `connector/1`."""
# ruff: noqa: S101  the cases are tests

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, ClassVar, Final

from sidecar.core.identifiers import Principal, ToolId
from sidecar.policy.protocols import (
    Connector,
    EnricherAnswer,
    EnricherCall,
    EnricherRefused,
    EnricherReply,
    RefusalKind,
)
from sidecar_conformance.connector_bench import ConnectorBench, SeenCall, ServiceScript
from sidecar_conformance.suite import SOON, Suite, beats, case, ends_soon, lively_loop

PRINCIPAL: Final = "user-7/é \"quoted\" 'ünïcode'"
"""Contains characters that a careless connector changes; the service must get it byte for byte."""
LARGEST: Final = 4096
"""Maximum bytes of an answer."""
CANARY: Final = "canary-5c1d"
"""Secret text whose appearance in a printed object is a leak."""


class ConnectorSuite(Suite):
    """Subclass it with a fixture `bench` that returns a `ConnectorBench`."""

    abilities: ClassVar = {"truncate": "the bench can break a connection off in the middle of an answer"}

    @case()
    async def test_the_answer_comes_back_unopened(self, bench: ConnectorBench) -> None:
        """The connector never parses the body: the gateway checks the principal first."""
        async with made(bench) as connector:
            for body in (b'{"principal": "somebody else", "a": 1, "a": 2}', b'{"cut', b"\x00\xff not text", b" {} \n"):
                bench.body = body
                assert await enriched(connector, bench) == EnricherAnswer(body, bench.form)

    @case()
    async def test_the_principal_arrives_unchanged(self, bench: ConnectorBench) -> None:
        """No trimming, no case folding, no Unicode normalisation."""
        async with made(bench) as connector:
            for principal in (PRINCIPAL, "e\u0301", "\u00e9", "User-7", "0007"):
                await enriched(connector, bench, principal=Principal(principal))
                assert bench.seen[-1].principal == principal

    @case()
    async def test_arguments_cannot_choose_the_principal(self, bench: ConnectorBench) -> None:
        """A sub-agent writes the arguments: neither a member `principal` nor a broken quote changes the principal."""
        async with made(bench) as connector:
            for arguments in (
                '{"principal": "other"}',
                '{}, "principal": "other"',
                '{"a": "\\", \\"principal\\": \\""}',
            ):
                await enriched(connector, bench, arguments_json=arguments)
            assert {call.principal for call in bench.seen} <= {PRINCIPAL}

    @case()
    async def test_the_request_arrives_unchanged(self, bench: ConnectorBench) -> None:
        """The service gets domain type, enricher id, arguments, nonce and trace of the call."""
        async with made(bench) as connector:
            trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
            await enriched(
                connector,
                bench,
                arguments_json='{"limit": 3, "text": "ä\\n\\"x\\"", "deep": [{"n": null}]}',
                nonce="nonce-1",
                trace_headers={"traceparent": trace},
            )
            assert list(bench.seen) == [
                SeenCall(
                    principal=PRINCIPAL,
                    domain_type="orders",
                    enricher_id="recent_orders",
                    arguments={"limit": 3, "text": 'ä\n"x"', "deep": [{"n": None}]},
                    nonce="nonce-1",
                    traceparent=trace,
                )
            ]

    @case()
    async def test_without_a_nonce_none_is_sent(self, bench: ConnectorBench) -> None:
        """A service that does not know nonces may refuse what it does not know."""
        async with made(bench) as connector:
            await enriched(connector, bench)
            assert bench.seen[0].nonce is None

    @case()
    async def test_a_missing_principal_is_told_as_such(self, bench: ConnectorBench) -> None:
        """Source: PC2-D-32."""
        async with made(bench) as connector:
            bench.script = ServiceScript.MISSING_PRINCIPAL
            assert await enriched(connector, bench) == EnricherRefused(RefusalKind.MISSING_PRINCIPAL)

    @case()
    async def test_a_principal_mismatch_is_told_as_such(self, bench: ConnectorBench) -> None:
        """Source: PC2-D-33."""
        async with made(bench) as connector:
            bench.script = ServiceScript.PRINCIPAL_MISMATCH
            assert await enriched(connector, bench) == EnricherRefused(RefusalKind.PRINCIPAL_MISMATCH)

    @case()
    async def test_a_failing_service_is_unavailable(self, bench: ConnectorBench) -> None:
        """It answered, with an error of its own."""
        async with made(bench) as connector:
            bench.script = ServiceScript.FAIL
            assert await enriched(connector, bench) == EnricherRefused(RefusalKind.UNAVAILABLE)

    @case()
    async def test_a_service_that_is_away_is_unavailable(self, bench: ConnectorBench) -> None:
        """No server listens at the address."""
        async with made(bench) as connector:
            reply = await enriched(connector, bench, endpoint=bench.endpoint_of_nobody)
            assert reply == EnricherRefused(RefusalKind.UNAVAILABLE)

    @case()
    async def test_a_service_that_never_answers_ends_with_the_calls_timeout(self, bench: ConnectorBench) -> None:
        """The connector returns a refusal of kind `TIMEOUT` and does not raise an exception."""
        async with made(bench) as connector:
            bench.script = ServiceScript.HANG
            reply = await enriched(connector, bench, timeout=timedelta(milliseconds=200))
            assert reply == EnricherRefused(RefusalKind.TIMEOUT)

    @case()
    async def test_an_answer_over_the_limit_is_too_large(self, bench: ConnectorBench) -> None:
        """An answer of exactly the limit is accepted; one byte more is refused."""
        async with made(bench) as connector:
            bench.body = b"x" * LARGEST
            assert await enriched(connector, bench) == EnricherAnswer(bench.body, bench.form)
            bench.body = b"x" * (LARGEST + 1)
            assert await enriched(connector, bench) == EnricherRefused(RefusalKind.TOO_LARGE)

    @case(needs="truncate")
    async def test_half_an_answer_is_no_answer(self, bench: ConnectorBench) -> None:
        """If the connection breaks in the middle of an answer, the connector refuses the answer."""
        async with made(bench) as connector:
            bench.script = ServiceScript.TRUNCATE
            reply = await enriched(connector, bench)
            assert isinstance(reply, EnricherRefused)
            assert reply.kind in {RefusalKind.UNAVAILABLE, RefusalKind.MALFORMED}

    @case()
    async def test_nothing_is_ever_sent_twice(self, bench: ConnectorBench) -> None:
        """The sidecar decides about retries, and never retries after a principal mismatch."""
        async with made(bench) as connector:
            for times, script in enumerate(ServiceScript, start=1):
                if script is ServiceScript.TRUNCATE and "truncate" in self.closed:
                    continue
                bench.script = script
                before = len(bench.seen)
                # Only the hanging service uses up its timeout, so only this timeout is short.
                seconds = 1 if script is ServiceScript.HANG else 60
                await enriched(connector, bench, timeout=timedelta(seconds=seconds))
                assert len(bench.seen) == before + 1, f"{script} (script {times}) was sent again"

    @case()
    async def test_a_cancelled_call_ends_and_the_next_one_works(self, bench: ConnectorBench) -> None:
        """The sidecar cancels a call when its child is cancelled."""
        async with made(bench) as connector:
            bench.script = ServiceScript.HANG
            hung = asyncio.ensure_future(connector.enrich(call_to(bench)))
            await asyncio.wait_for(bench.asked(1), SOON)
            hung.cancel()
            await ends_soon(hung, "a cancelled call")
            bench.script = ServiceScript.ANSWER
            assert await enriched(connector, bench) == EnricherAnswer(bench.body, bench.form)

    @case()
    async def test_calls_at_once_neither_wait_for_each_other_nor_mix(self, bench: ConnectorBench) -> None:
        """A call for one user hangs while a call for another user is answered."""
        async with made(bench) as connector:
            bench.script = ServiceScript.HANG
            hung = asyncio.ensure_future(connector.enrich(call_to(bench, principal=Principal("one"))))
            await asyncio.wait_for(bench.asked(1), SOON)
            bench.script = ServiceScript.ANSWER
            reply = await enriched(connector, bench, principal=Principal("two"))
            assert reply == EnricherAnswer(bench.body, bench.form)
            assert not hung.done()
            assert [call.principal for call in bench.seen] == ["one", "two"]
            hung.cancel()
            await ends_soon(hung, "a cancelled call")

    @case()
    async def test_a_hanging_service_does_not_hold_up_the_event_loop(self, bench: ConnectorBench) -> None:
        """The event loop stays responsive while a service hangs."""
        async with made(bench) as connector:
            bench.script = ServiceScript.HANG
            async with lively_loop():
                hung = asyncio.ensure_future(connector.enrich(call_to(bench)))
                await beats()
            hung.cancel()
            await ends_soon(hung, "a cancelled call")

    @case()
    async def test_close_ends_while_a_call_hangs(self, bench: ConnectorBench) -> None:
        """`close` does not wait for the call, and the call ends soon."""
        async with made(bench) as connector:
            bench.script = ServiceScript.HANG
            hung = asyncio.ensure_future(connector.enrich(call_to(bench, timeout=timedelta(seconds=1))))
            await asyncio.wait_for(bench.asked(1), SOON)
            await asyncio.wait_for(connector.close(), SOON)
            await ends_soon(hung, "a call whose connector was closed")

    @case()
    async def test_close_may_be_called_twice_and_a_later_call_is_refused(self, bench: ConnectorBench) -> None:
        """A call after `close` returns a refusal and does not raise an exception."""
        async with made(bench) as connector:
            await asyncio.wait_for(connector.close(), SOON)
            await asyncio.wait_for(connector.close(), SOON)
            assert isinstance(await enriched(connector, bench), EnricherRefused)

    @case()
    async def test_no_text_shows_what_was_carried(self, bench: ConnectorBench) -> None:
        """Neither the text of the answer nor the text of the connector contains the payload or the user."""
        async with made(bench) as connector:
            bench.body = CANARY.encode()
            reply = await enriched(connector, bench, principal=Principal(CANARY))
            assert CANARY not in f"{reply!r} {reply} {connector!r} {connector}"


@asynccontextmanager
async def made(bench: ConnectorBench) -> AsyncIterator[Connector]:
    """Start the service, yield a connector that accepts answers of up to `LARGEST` bytes, and close the connector."""
    async with bench.running():
        connector = bench.make(LARGEST)
        try:
            yield connector
        finally:
            await asyncio.wait_for(connector.close(), SOON)


def call_to(bench: ConnectorBench, **changes: Any) -> EnricherCall:
    """Return a call to the bench's service; `changes` replace fields of the call."""
    plain: dict[str, Any] = {
        "tool_id": ToolId("recent_orders"),
        "endpoint": bench.endpoint,
        "domain_type": "orders",
        "enricher_id": "recent_orders",
        "principal": Principal(PRINCIPAL),
        "arguments_json": "{}",
        "nonce": None,
        "timeout": timedelta(minutes=1),
    }
    return EnricherCall(**{**plain, **changes})


async def enriched(connector: Connector, bench: ConnectorBench, **changes: Any) -> EnricherReply:
    """Call the service and return the reply; fail after twice `SOON` seconds."""
    return await asyncio.wait_for(connector.enrich(call_to(bench, **changes)), 2 * SOON)


__all__ = ["ConnectorBench", "ConnectorSuite", "SeenCall", "ServiceScript"]
