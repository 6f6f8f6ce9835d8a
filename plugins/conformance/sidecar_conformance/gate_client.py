"""Cases for gate clients, contract `gate-client/1`."""
# ruff: noqa: S101  the cases are tests

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import ClassVar, Final

import msgspec

from sidecar.core.identifiers import Commit, DefinitionId, Digest, Slot, Vertical
from sidecar.policy.lifecycle import GateAnswer, GateClient, GateQuestion, GateUnavailable, Verdict
from sidecar_conformance.gate_bench import GateClientBench, GateFault
from sidecar_conformance.suite import SOON, Suite, beats, case, ends_soon, lively_loop

ECHOED: Final = ("gate", "digest", "commit", "from_ramp", "to_ramp", "policy_version")

QUESTION: Final = GateQuestion(
    gate="pre_ramp",
    slot=Slot("shop"),
    definition_id=DefinitionId("shop"),
    digest=Digest("sha256:" + "a1" * 32),
    commit=Commit("c" * 40),
    vertical=Vertical("shop"),
    from_ramp=500,
    to_ramp=2500,
    policy_version="1",
    requested_by="operator@example.com",
    question_id="conformance-1",
)
OTHER: Final = msgspec.structs.replace(
    QUESTION, gate="pre_full", from_ramp=2500, to_ramp=10_000, question_id="conformance-2"
)


class GateClientSuite(Suite):
    """Subclass it with a fixture `bench` that returns a `GateClientBench`."""

    abilities: ClassVar = {
        "expiry": "the gate service itself determines how long a verdict is valid",
        "hang": "the bench can let the gate service hang",
        "stored": "the gate service stores answers; a client that computes answers itself cannot misread any",
        "verdicts": "the gate service can give each of the four verdicts, for each gate separately",
    }

    @case()
    async def test_nothing_passes_before_it_is_decided(self, bench: GateClientBench) -> None:
        """Without a decision, the client gives no answer, or a verdict other than pass."""
        async with bench.running():
            client = bench.make()
            assert not await passes(client)
            await asyncio.wait_for(client.close(), SOON)

    @case(needs="verdicts")
    async def test_each_verdict_arrives(self, bench: GateClientBench) -> None:
        """The client returns each of the four verdicts."""
        for verdict in Verdict:
            async with made(bench, verdict) as client:
                assert (await asked(client)).verdict is verdict

    @case()
    async def test_an_answer_has_the_contracts_types(self, bench: GateClientBench) -> None:
        """Its expiry time has an offset from UTC."""
        async with made(bench, Verdict.PASS) as client:
            answer = await asked(client)
            assert isinstance(answer, GateAnswer)
            assert answer.expires_at.utcoffset() is not None
            assert isinstance(answer.summary, str)
            assert all(isinstance(part, str) for pair in answer.evidence.items() for part in pair)

    @case()
    async def test_an_answer_echoes_its_question(self, bench: GateClientBench) -> None:
        """The sidecar rejects an answer that does not repeat the fields of its question."""
        async with made(bench, Verdict.PASS) as client:
            answer = await asked(client)
            assert [getattr(answer, name) for name in ECHOED] == [getattr(QUESTION, name) for name in ECHOED]

    @case()
    async def test_a_verdict_holds_for_a_while(self, bench: GateClientBench) -> None:
        """The expiry time of a new verdict is in the future."""
        async with made(bench, Verdict.PASS) as client:
            assert (await asked(client)).expires_at > datetime.now(UTC)

    @case()
    async def test_a_repeated_question_gets_the_same_verdict(self, bench: GateClientBench) -> None:
        """The sidecar repeats a question if its first answer was lost."""
        async with made(bench, Verdict.PASS) as client:
            assert (await asked(client)).verdict is (await asked(client)).verdict is Verdict.PASS

    @case(needs="verdicts")
    async def test_a_verdict_of_one_gate_is_none_of_another(self, bench: GateClientBench) -> None:
        """`pre_ramp` has passed and `pre_full` has failed; each question gets the verdict of its own gate."""
        async with made(bench, Verdict.PASS) as client:
            await bench.decide(OTHER, Verdict.FAIL)
            assert (await asked(client, OTHER)).verdict is Verdict.FAIL
            assert (await asked(client)).verdict is Verdict.PASS

    @case(needs="stored")
    async def test_a_verdict_about_another_content_does_not_pass(self, bench: GateClientBench) -> None:
        """The client must not replace the digest in a stored answer by the digest in the question."""
        async with made(bench, Verdict.PASS) as client:
            await bench.misbehave(GateFault.OTHER_DIGEST)
            assert not await passes(client)

    @case(needs="stored")
    async def test_a_verdict_about_another_step_does_not_pass(self, bench: GateClientBench) -> None:
        """The client must not replace the ramps in a stored answer by the ramps in the question."""
        async with made(bench, Verdict.PASS) as client:
            await bench.misbehave(GateFault.OTHER_STEP)
            assert not await passes(client)

    @case(needs="expiry")
    async def test_an_expired_verdict_does_not_pass(self, bench: GateClientBench) -> None:
        """The client must not extend the expiry time of a stored answer."""
        async with made(bench, Verdict.PASS) as client:
            await bench.misbehave(GateFault.EXPIRED)
            assert not await passes(client)

    @case(needs="stored")
    async def test_an_unknown_verdict_is_no_answer(self, bench: GateClientBench) -> None:
        """The client must turn it into neither pass nor fail."""
        async with made(bench, Verdict.PASS) as client:
            await bench.misbehave(GateFault.UNKNOWN_VERDICT)
            assert isinstance(await failure_of(client), GateUnavailable)

    @case(needs="stored")
    async def test_garbage_is_no_answer(self, bench: GateClientBench) -> None:
        """The client must turn an unreadable answer into neither pass nor fail."""
        async with made(bench, Verdict.PASS) as client:
            await bench.misbehave(GateFault.GARBAGE)
            assert isinstance(await failure_of(client), GateUnavailable)

    @case()
    async def test_a_gate_that_is_away_is_no_answer(self, bench: GateClientBench) -> None:
        """An outage is not the verdict fail: the sidecar counts that verdict, and an operator can override it."""
        async with made(bench, Verdict.PASS) as client:
            await bench.misbehave(GateFault.AWAY)
            assert isinstance(await failure_of(client), GateUnavailable)

    @case()
    async def test_the_same_object_recovers(self, bench: GateClientBench) -> None:
        """After an outage of the gate service, the client that existed before returns the verdict."""
        async with made(bench, Verdict.PASS) as client:
            await recovers(client, bench, GateFault.AWAY)

    @case(needs="stored")
    async def test_the_same_object_recovers_from_garbage(self, bench: GateClientBench) -> None:
        """After an unreadable answer, the client that existed before returns the verdict."""
        async with made(bench, Verdict.PASS) as client:
            await recovers(client, bench, GateFault.GARBAGE)

    @case(needs="hang")
    async def test_a_hung_question_ends_when_cancelled(self, bench: GateClientBench) -> None:
        """The sidecar cancels a question at its deadline; the client answers the next question."""
        async with made(bench, Verdict.PASS) as client:
            await bench.misbehave(GateFault.HANG)
            hung = asyncio.ensure_future(client.ask(QUESTION))
            await beats()
            assert not hung.done()
            hung.cancel()
            await ends_soon(hung, "a cancelled question")
            await bench.misbehave(GateFault.NONE)
            assert (await asked(client)).verdict is Verdict.PASS

    @case(needs="hang")
    async def test_a_hanging_gate_does_not_hold_up_the_event_loop(self, bench: GateClientBench) -> None:
        """Turns continue while a gate hangs."""
        async with made(bench, Verdict.PASS) as client:
            await bench.misbehave(GateFault.HANG)
            async with lively_loop():
                hung = asyncio.ensure_future(client.ask(QUESTION))
                await beats()
            hung.cancel()
            await ends_soon(hung, "a cancelled question")

    @case(needs="hang")
    async def test_close_ends_while_a_question_hangs(self, bench: GateClientBench) -> None:
        """A shutdown does not wait for a question."""
        async with made(bench, Verdict.PASS) as client:
            await bench.misbehave(GateFault.HANG)
            hung = asyncio.ensure_future(client.ask(QUESTION))
            await beats()
            await asyncio.wait_for(client.close(), SOON)
            hung.cancel()
            await ends_soon(hung, "a question whose client was closed")

    @case()
    async def test_close_may_be_called_twice(self, bench: GateClientBench) -> None:
        """The second `close` does not raise."""
        async with made(bench, Verdict.PASS) as client:
            await asyncio.wait_for(client.close(), SOON)
            await asyncio.wait_for(client.close(), SOON)

    @case()
    async def test_two_clients_are_independent(self, bench: GateClientBench) -> None:
        """Each vertical has its own client; closing one client does not affect the other."""
        async with made(bench, Verdict.PASS) as one:
            other = bench.make()
            await one.close()
            assert (await asked(other)).verdict is Verdict.PASS
            await other.close()

    @case()
    async def test_secrets_show_in_no_text(self, bench: GateClientBench) -> None:
        """Neither the text of the client nor the text of its exception contains a secret: both can reach a log."""
        async with made(bench, Verdict.PASS) as client:
            await bench.misbehave(GateFault.AWAY)
            texts = f"{client!r} {client} {await failure_of(client)!r}"
            assert [secret for secret in bench.secrets if secret in texts] == []


@asynccontextmanager
async def made(bench: GateClientBench, verdict: Verdict) -> AsyncIterator[GateClient]:
    """Start the gate service with this verdict on `QUESTION`, yield a client, and close the client."""
    async with bench.running():
        await bench.decide(QUESTION, verdict)
        client = bench.make()
        try:
            yield client
        finally:
            await bench.misbehave(GateFault.NONE)
            await asyncio.wait_for(client.close(), SOON)


async def asked(client: GateClient, question: GateQuestion = QUESTION) -> GateAnswer:
    """Return the answer to a question; fail after `SOON` seconds."""
    return await asyncio.wait_for(client.ask(question), SOON)


async def passes(client: GateClient) -> bool:
    """Return whether the sidecar would accept the client's answer to `QUESTION` as a pass."""
    try:
        answer = await asked(client)
    except GateUnavailable:
        return False
    fits = all(getattr(answer, name) == getattr(QUESTION, name) for name in ECHOED)
    return answer.verdict is Verdict.PASS and fits and answer.expires_at > datetime.now(UTC)


async def recovers(client: GateClient, bench: GateClientBench, fault: GateFault) -> None:
    """Ask during a fault and again after it; fail unless the second question gets the verdict."""
    await bench.misbehave(fault)
    await failure_of(client)
    await bench.misbehave(GateFault.NONE)
    assert (await asked(client)).verdict is Verdict.PASS


async def failure_of(client: GateClient) -> Exception | None:
    """Ask and return the client's exception; None if the client answered or took longer than `SOON` seconds."""
    try:
        async with asyncio.timeout(SOON) as guard:
            await client.ask(QUESTION)
    except Exception as error:  # noqa: BLE001  each case checks the class itself
        return None if guard.expired() else error
    return None


__all__ = ["OTHER", "QUESTION", "GateClientBench", "GateClientSuite", "GateFault"]
