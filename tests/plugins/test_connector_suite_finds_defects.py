"""The connector suite can fail: each planted defect is found, and each case finds at least one."""

import asyncio
import json
import threading
import unicodedata
from dataclasses import replace
from typing import Any

import pytest

from sidecar.policy.protocols import EnricherAnswer, EnricherCall, EnricherReply, RefusalKind
from sidecar_conformance.connector import ConnectorSuite
from sidecar_conformance.connector_bench import SeenCall, ServiceScript
from sidecar_conformance.suite import STALL, case_names, failures_of
from tests.plugins.memory_service import MemoryServiceBench, StraightConnector
from tests.plugins.suites import only


class OpensTheAnswer(StraightConnector):
    """Parses the body and writes it anew."""

    def answered(self, body: bytes) -> EnricherReply:
        """Normalise."""
        try:
            return EnricherAnswer(json.dumps(json.loads(body)).encode())
        except ValueError:
            return self.refused(RefusalKind.MALFORMED)


class NormalisesThePrincipal(StraightConnector):
    """Brings names into one Unicode form."""

    def seen_of(self, call: EnricherCall) -> SeenCall:
        """Normalise."""
        seen = super().seen_of(call)
        return replace(seen, principal=unicodedata.normalize("NFC", seen.principal))


class PastesArguments(StraightConnector):
    """Lets arguments stand beside the principal."""

    def seen_of(self, call: EnricherCall) -> SeenCall:
        """Merge."""
        seen = super().seen_of(call)
        return replace(seen, principal=seen.arguments.get("principal", seen.principal))


class DropsTheTrace(StraightConnector):
    """Forgets the trace context."""

    def seen_of(self, call: EnricherCall) -> SeenCall:
        """Drop it."""
        return replace(super().seen_of(call), traceparent=None)


class InventsNonces(StraightConnector):
    """Always sends a nonce."""

    def seen_of(self, call: EnricherCall) -> SeenCall:
        """Make one up."""
        seen = super().seen_of(call)
        return replace(seen, nonce=seen.nonce or "made-up")


class OneRefusal(StraightConnector):
    """Knows only `malformed`."""

    def refused(self, kind: RefusalKind) -> EnricherReply:
        """Flatten every kind."""
        return super().refused(RefusalKind.MALFORMED)


class NoLimit(StraightConnector):
    """Takes answers of any size."""

    async def exchange(self, call: EnricherCall) -> EnricherReply:
        """Do not look at the size."""
        self.max_body_bytes = 1 << 60
        return await super().exchange(call)


class KeepsHalves(StraightConnector):
    """Gives what had arrived before the connection broke."""

    async def sent(self, request: SeenCall) -> bytes | RefusalKind:
        """Take half for whole."""
        reply = await super().sent(request)
        return self.bench.body if self.bench.script is ServiceScript.TRUNCATE else reply


class Retries(StraightConnector):
    """Asks again after a refusal."""

    async def exchange(self, call: EnricherCall) -> EnricherReply:
        """Ask twice if need be."""
        reply = await super().exchange(call)
        return reply if isinstance(reply, EnricherAnswer) else await super().exchange(call)


class Clings(StraightConnector):
    """A cancelled call goes on."""

    async def exchange(self, call: EnricherCall) -> EnricherReply:
        """Take the first cancellation for nothing."""
        try:
            return await super().exchange(call)
        except asyncio.CancelledError:
            await self.closed.wait()
            raise


class OneAtATime(StraightConnector):
    """A call waits for the one before."""

    def __init__(self, bench: MemoryServiceBench, max_body_bytes: int) -> None:
        super().__init__(bench, max_body_bytes)
        self._turn = asyncio.Lock()

    async def exchange(self, call: EnricherCall) -> EnricherReply:
        """Queue."""
        async with self._turn:
            return await super().exchange(call)


class Blocks(StraightConnector):
    """Waits without awaiting."""

    async def sent(self, request: SeenCall) -> bytes | RefusalKind:
        """Hold the loop up."""
        threading.Event().wait(STALL + 0.3)
        return await super().sent(request)


class CloseWaits(StraightConnector):
    """Closing waits for whatever runs."""

    running = 0

    async def exchange(self, call: EnricherCall) -> EnricherReply:
        """Count."""
        self.running += 1
        reply = await super().exchange(call)
        self.running -= 1
        return reply

    async def close(self) -> None:
        """Wait for ever if something runs."""
        if self.running:
            await asyncio.Event().wait()
        await super().close()


class RaisesAfterClose(StraightConnector):
    """A later call raises instead of being refused."""

    async def enrich(self, call: EnricherCall) -> EnricherReply:
        """Raise."""
        if self.closed.is_set():
            raise RuntimeError("closed")
        return await super().enrich(call)


class Talkative(EnricherAnswer, frozen=True):
    """Prints its body."""

    def __repr__(self) -> str:
        return f"Talkative({self.body!r})"


class TellsTheBody(StraightConnector):
    """Its answers show their payload."""

    def answered(self, body: bytes) -> EnricherReply:
        """Answer with one that prints itself."""
        return Talkative(body)


class TellsTheUser(StraightConnector):
    """Remembers whom it served last, and prints it."""

    last = ""

    def seen_of(self, call: EnricherCall) -> SeenCall:
        """Remember."""
        self.last = call.principal
        return super().seen_of(call)

    def __repr__(self) -> str:
        return f"TellsTheUser(last={self.last})"


DEFECTS: dict[type[StraightConnector], set[str]] = {
    OpensTheAnswer: {"test_the_answer_comes_back_unopened"},
    NormalisesThePrincipal: {"test_the_principal_arrives_unchanged"},
    PastesArguments: {"test_arguments_cannot_choose_the_principal"},
    DropsTheTrace: {"test_the_request_arrives_unchanged"},
    InventsNonces: {"test_without_a_nonce_none_is_sent"},
    OneRefusal: {
        "test_a_missing_principal_is_told_as_such",
        "test_a_principal_mismatch_is_told_as_such",
        "test_a_failing_service_is_unavailable",
        "test_a_service_that_is_away_is_unavailable",
        "test_a_service_that_never_answers_ends_with_the_calls_timeout",
        "test_an_answer_over_the_limit_is_too_large",
    },
    NoLimit: {"test_an_answer_over_the_limit_is_too_large"},
    KeepsHalves: {"test_half_an_answer_is_no_answer"},
    Retries: {"test_nothing_is_ever_sent_twice"},
    Clings: {"test_a_cancelled_call_ends_and_the_next_one_works"},
    OneAtATime: {"test_calls_at_once_neither_wait_for_each_other_nor_mix"},
    Blocks: {"test_a_hanging_service_does_not_hold_up_the_event_loop"},
    CloseWaits: {"test_close_ends_while_a_call_hangs"},
    RaisesAfterClose: {"test_close_may_be_called_twice_and_a_later_call_is_refused"},
    TellsTheBody: {"test_no_text_shows_what_was_carried"},
    TellsTheUser: {"test_no_text_shows_what_was_carried"},
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_found(defect: type[StraightConnector]) -> None:
    """By the cases made for it; others may see it too."""
    suite: Any = only(ConnectorSuite, DEFECTS[defect], jumping=defect is not Blocks)

    assert set(failures_of(suite, lambda: MemoryServiceBench(defect))) == DEFECTS[defect]


def test_every_case_has_a_defect_that_it_is_there_to_find() -> None:
    """A case without one might never fail."""
    assert set().union(*DEFECTS.values()) == case_names(ConnectorSuite)


def test_a_right_connector_has_no_failures() -> None:
    """Else the defects above prove nothing."""
    assert failures_of(only(ConnectorSuite, case_names(ConnectorSuite)), MemoryServiceBench) == {}
