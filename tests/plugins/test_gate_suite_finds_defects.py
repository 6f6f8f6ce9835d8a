"""The gate client suite can fail: each planted defect is found, and each case finds at least one."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import pytest
from typing_extensions import override

from sidecar.core.identifiers import Digest
from sidecar.policy.lifecycle import GateAnswer, GateQuestion, GateUnavailable, Verdict
from sidecar_conformance.gate_bench import GateClientBench, GateFault
from sidecar_conformance.gate_client import GateClientSuite
from sidecar_conformance.suite import STALL, case_names, failures_of
from tests.plugins.suites import only

TOKEN: Final = "hunter2"


class Place:
    """Where gates are decided."""

    def __init__(self) -> None:
        self.verdicts: dict[str, Verdict] = {}
        self.fault = GateFault.NONE


class Right:
    """A client without a defect."""

    def __init__(self, place: Place) -> None:
        self.place = place

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Answer from the place."""
        fault = self.place.fault
        if fault is GateFault.HANG:
            await asyncio.Event().wait()
        if fault in {GateFault.AWAY, GateFault.GARBAGE, GateFault.UNKNOWN_VERDICT}:
            raise GateUnavailable("nobody there")
        if question.gate not in self.place.verdicts:
            raise GateUnavailable("not decided")
        lasts = timedelta(hours=-1 if fault is GateFault.EXPIRED else 1)
        answer = GateAnswer(
            verdict=self.place.verdicts[question.gate],
            gate=question.gate,
            digest=question.digest,
            commit=question.commit,
            from_ramp=question.from_ramp,
            to_ramp=question.to_ramp,
            policy_version=question.policy_version,
            expires_at=datetime.now(UTC) + lasts,
        )
        if fault is GateFault.OTHER_DIGEST:
            return changed(answer, digest=Digest("sha256:other"))
        return changed(answer, to_ramp=0) if fault is GateFault.OTHER_STEP else answer

    async def close(self) -> None:
        """Do nothing."""


def changed(answer: GateAnswer, **changes: Any) -> GateAnswer:
    """Return an answer with changes."""
    return msgspec.structs.replace(answer, **changes)


class PassesAll(Right):
    """Passes gates that are not decided."""

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Decide by itself."""
        self.place.verdicts.setdefault(question.gate, Verdict.PASS)
        return await super().ask(question)


class NoPending(Right):
    """Knows yes and no only."""

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Turn what is between into a no."""
        answer = await super().ask(question)
        return answer if answer.verdict is Verdict.PASS else changed(answer, verdict=Verdict.FAIL)


class WrongTypes(Right):
    """A number where a text belongs."""

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Add it."""
        return changed(await super().ask(question), evidence={"score": 1})


class Forgets(Right):
    """Leaves the commit out."""

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Forget it."""
        return changed(await super().ask(question), commit="")


class Fleeting(Right):
    """Its verdicts are over as soon as they are read."""

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Let it end now."""
        return changed(await super().ask(question), expires_at=datetime.now(UTC))


class Flips(Right):
    """Says something else the second time."""

    asked = 0

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Count."""
        self.asked += 1
        answer = await super().ask(question)
        again = self.asked == 2 and question.gate == "pre_ramp" and answer.verdict is Verdict.PASS
        return changed(answer, verdict=Verdict.FAIL) if again else answer


class OneVerdict(Right):
    """Keeps one verdict for all gates."""

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Answer with the first one there is."""
        answer = await super().ask(question)
        return changed(answer, verdict=next(iter(self.place.verdicts.values())))


class EchoesDigest(Right):
    """Writes the question's digest into every answer."""

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Make it fit."""
        return changed(await super().ask(question), digest=question.digest)


class EchoesStep(Right):
    """Writes the question's step into every answer."""

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Make it fit."""
        return changed(await super().ask(question), to_ramp=question.to_ramp)


class Renews(Right):
    """Makes verdicts younger."""

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Add an hour."""
        return changed(await super().ask(question), expires_at=datetime.now(UTC) + timedelta(hours=1))


class Guesses(Right):
    """Takes what it does not know for a no."""

    taken = GateFault.UNKNOWN_VERDICT

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Answer as if nothing was the matter."""
        if self.place.fault is not self.taken:
            return await super().ask(question)
        self.place.fault = GateFault.NONE
        answer = await super().ask(question)
        self.place.fault = self.taken
        return changed(answer, verdict=Verdict.FAIL)


class TakesGarbage(Guesses):
    """The same for garbage."""

    taken = GateFault.GARBAGE


class TakesOutage(Guesses):
    """The same for an outage."""

    taken = GateFault.AWAY


class NeverRecovers(Right):
    """Stays away once it was."""

    broken = False
    by = GateFault.AWAY

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Remember the outage."""
        self.broken = self.broken or self.place.fault is self.by
        if self.broken:
            raise GateUnavailable("still away")
        return await super().ask(question)


class KeepsGarbage(NeverRecovers):
    """The same for garbage."""

    by = GateFault.GARBAGE


class Clings(Right):
    """Takes a cancellation for nothing, once."""

    closing = False

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Go on waiting."""
        while self.place.fault is GateFault.HANG:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if self.closing:
                    raise
                self.closing = True
        return await super().ask(question)


class Blocks(Right):
    """Waits without awaiting."""

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Hold the loop up."""
        if self.place.fault is GateFault.HANG:
            threading.Event().wait(STALL + 0.3)
        return await super().ask(question)


class CloseWaits(Right):
    """Closing waits for the gate."""

    async def close(self) -> None:
        """Wait while it hangs."""
        if self.place.fault is GateFault.HANG:
            await asyncio.Event().wait()


class ClosesOnce(Right):
    """The second close fails."""

    closed = False

    async def close(self) -> None:
        """Raise the second time, within a moment."""
        if self.closed:
            self.closed = False
            raise RuntimeError("closed already")
        self.closed = True


class Shared(Right):
    """All clients share one connection."""

    connection: list[str] = []  # noqa: RUF012  being shared is the defect

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.connection[:] = ["open"]

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Need the connection."""
        if not self.connection:
            raise GateUnavailable("not connected")
        return await super().ask(question)

    async def close(self) -> None:
        """Close it for everybody."""
        self.connection.clear()


class Tells(Right):
    """Shows its token."""

    def __repr__(self) -> str:
        return f"Tells({TOKEN})"


class Bench(GateClientBench):
    """A place in memory."""

    secrets = (TOKEN,)

    def __init__(self, client: type[Right] = Right) -> None:
        self._client = client
        self._place = Place()

    @override
    def make(self) -> Right:
        return self._client(self._place)

    @override
    async def decide(self, question: GateQuestion, verdict: Verdict) -> None:
        self._place.verdicts[question.gate] = verdict

    @override
    async def misbehave(self, fault: GateFault) -> None:
        self._place.fault = fault


DEFECTS: dict[type[Right], set[str]] = {
    PassesAll: {"test_nothing_passes_before_it_is_decided"},
    NoPending: {"test_each_verdict_arrives"},
    WrongTypes: {"test_an_answer_has_the_contracts_types"},
    Forgets: {"test_an_answer_echoes_its_question"},
    Fleeting: {"test_a_verdict_holds_for_a_while"},
    Flips: {"test_a_repeated_question_gets_the_same_verdict"},
    OneVerdict: {"test_a_verdict_of_one_gate_is_none_of_another"},
    EchoesDigest: {"test_a_verdict_about_another_content_does_not_pass"},
    EchoesStep: {"test_a_verdict_about_another_step_does_not_pass"},
    Renews: {"test_an_expired_verdict_does_not_pass"},
    Guesses: {"test_an_unknown_verdict_is_no_answer"},
    TakesGarbage: {"test_garbage_is_no_answer"},
    TakesOutage: {"test_a_gate_that_is_away_is_no_answer"},
    NeverRecovers: {"test_the_same_object_recovers"},
    KeepsGarbage: {"test_the_same_object_recovers_from_garbage"},
    Clings: {"test_a_hung_question_ends_when_cancelled"},
    Blocks: {"test_a_hanging_gate_does_not_hold_up_the_event_loop"},
    CloseWaits: {"test_close_ends_while_a_question_hangs"},
    ClosesOnce: {"test_close_may_be_called_twice"},
    Shared: {"test_two_clients_are_independent"},
    Tells: {"test_secrets_show_in_no_text"},
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_found(defect: type[Right]) -> None:
    """By the cases made for it; others may see it too."""
    suite = only(GateClientSuite, DEFECTS[defect], jumping=defect is not Blocks)

    assert set(failures_of(suite, lambda: Bench(defect))) == DEFECTS[defect]


def test_every_case_has_a_defect_that_it_is_there_to_find() -> None:
    """A case without one might never fail."""
    assert set().union(*DEFECTS.values()) == case_names(GateClientSuite)


def test_a_right_client_has_no_failures() -> None:
    """Else the defects above prove nothing."""
    assert failures_of(only(GateClientSuite, case_names(GateClientSuite)), Bench) == {}


class Computed(Right):
    """A client that passes what was approved, and cannot say anything else."""

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Look whether there is an approval; only the place of the approvals can be away."""
        approved = self.place.verdicts.get(question.gate) is Verdict.PASS
        return await Right(_place(Verdict.PASS if approved else Verdict.PENDING, question, self.place)).ask(question)


def _place(verdict: Verdict, question: GateQuestion, seen: Place) -> Place:
    place = Place()
    place.verdicts = {question.gate: verdict}
    place.fault = GateFault.AWAY if seen.fault is GateFault.AWAY else GateFault.NONE
    return place


class ComputedSuite(GateClientSuite):
    """The suite for a client without a place where answers are stored."""

    closed = frozenset({"expiry", "hang", "stored", "verdicts"})


def test_a_client_that_computes_its_answers_passes_without_the_abilities_of_a_stored_answer() -> None:
    """What is left finds the defects that such a client can have."""
    assert failures_of(only(ComputedSuite, case_names(ComputedSuite)), lambda: Bench(Computed)) == {}
    assert "test_nothing_passes_before_it_is_decided" in case_names(ComputedSuite)
