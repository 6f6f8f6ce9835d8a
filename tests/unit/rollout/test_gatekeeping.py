"""A gate's answer counts only if it is about the question; everything else holds, and is told to an operator."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from sidecar.core.errors import GateFailed, GateHeld
from sidecar.core.identifiers import Commit, DefinitionId, Digest, Vertical
from sidecar.core.rollout.definition_changes import MajorChange, PendingPromotion
from sidecar.core.rollout.events import TransitionEvent
from sidecar.core.rollout.facts import DefinitionFacts, Override
from sidecar.operations.rollout.steps.gate_checks import GateEvaluator, GateRules, refuse_unless_passed
from sidecar.policy.lifecycle import GateAnswer, GateClient, GateQuestion, GateUnavailable, Verdict
from tests.support.requirement import requirement
from tests.unit.rollout.building import NOW, SHOP, facts

QUESTION = GateQuestion(
    gate="",
    slot=SHOP,
    definition_id=DefinitionId("shop"),
    digest=Digest("sha256:shop"),
    commit=Commit("commit-shop"),
    vertical=Vertical("shop"),
    from_ramp=500,
    to_ramp=2500,
    policy_version="1",
    requested_by="ada@example",
    question_id="r-1",
)


class Clock:
    """Stands still."""

    def now(self) -> datetime:
        """Return the date."""
        return NOW

    def monotonic(self) -> float:
        """Return no time."""
        return 0.0


class Told:
    """Keeps what was reported."""

    def __init__(self) -> None:
        self.failed: list[tuple[str, str]] = []
        self.anomalies: list[tuple[str, str]] = []

    def gate_failed(self, definition_id: str, gate: str) -> None:
        """Keep it."""
        self.failed.append((definition_id, gate))

    def anomaly(self, kind: str, detail: str) -> None:
        """Keep it."""
        self.anomalies.append((kind, detail))

    def transitioned(self, event: TransitionEvent) -> None:
        """Nothing moves here."""

    def kill_switch_fired(self, definition_id: str) -> None:
        """Nothing is killed here."""

    def definitions_seen(self, version: str, waiting: Sequence[PendingPromotion], major: Sequence[MajorChange]) -> None:
        """Nothing is loaded here."""

    def known(self, definition_id: str) -> None:
        """Nothing is seen here."""

    def rolled_back(self, definition_id: str, seconds: float) -> None:
        """Nothing is rolled back here."""


def answer_to(question: GateQuestion, verdict: Verdict = Verdict.PASS, **changes: Any) -> GateAnswer:
    """Return a right answer, with changes."""
    answer = GateAnswer(
        verdict=verdict,
        gate=question.gate,
        digest=question.digest,
        commit=question.commit,
        from_ramp=question.from_ramp,
        to_ramp=question.to_ramp,
        policy_version=question.policy_version,
        expires_at=NOW + timedelta(minutes=1),
    )
    return msgspec.structs.replace(answer, **changes)


class Gate:
    """Does with each question what a test says."""

    def __init__(self, work: Callable[[GateQuestion], Any]) -> None:
        self.asked: list[GateQuestion] = []
        self._work = work

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Keep the question."""
        self.asked.append(question)
        answer: GateAnswer = self._work(question)
        return answer

    async def close(self) -> None:
        """Hold nothing."""


class Hanging(Gate):
    """Never answers."""

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Wait."""
        await asyncio.Event().wait()
        return await super().ask(question)


async def passed(
    client: GateClient | None,
    *gates: str,
    told: Told | None = None,
    about: DefinitionFacts | None = None,
    dry_run: bool = False,
) -> tuple[str, ...]:
    """Ask these gates, all of one client."""
    rules = GateRules(timedelta(milliseconds=20))
    keeper = GateEvaluator(rules, lambda vertical, gate: client, Clock(), told or Told())
    question = msgspec.structs.replace(QUESTION, dry_run=dry_run)
    results = await keeper.ask_all(question, gates or ("pre_ramp",), Vertical("shop"), about or facts("shop"))
    refuse_unless_passed(results)
    return tuple(result.words for result in results)


def raises(error: BaseException) -> Callable[[GateQuestion], Any]:
    """Return work that raises."""

    def work(_question: GateQuestion) -> Any:
        raise error

    return work


async def test_every_gate_of_a_step_is_asked_once_under_its_own_name() -> None:
    """Also if a policy asks for one that the platform asks for anyway."""
    gate = Gate(answer_to)

    assert await passed(gate, "pre_ramp", "pre_full", "pre_ramp") == ("pre_ramp: pass", "pre_full: pass")
    assert [each.gate for each in gate.asked] == ["pre_ramp", "pre_full"]
    assert {each.question_id for each in gate.asked} == {"r-1"}


@pytest.mark.parametrize("verdict", [Verdict.PENDING, Verdict.INCONCLUSIVE])
async def test_neither_yes_nor_no_holds_and_is_nothing_to_alarm_anybody_with(verdict: Verdict) -> None:
    """The gate works; it only has not said yes."""
    told = Told()

    with pytest.raises(GateHeld, match=f"pre_ramp: {verdict}: not yet"):
        await passed(Gate(lambda question: answer_to(question, verdict, summary="not  yet\n")), told=told)

    assert (told.failed, told.anomalies) == ([], [])


async def test_a_no_is_counted_and_the_other_gates_are_asked_even_so() -> None:
    """An operator sees at once all that is missing; a dry run counts nothing."""
    told = Told()
    gate = Gate(lambda question: answer_to(question, Verdict.FAIL if question.gate == "pre_ramp" else Verdict.PASS))

    with pytest.raises(GateFailed, match="pre_ramp: fail; pre_full: pass") as refused:
        await passed(gate, "pre_ramp", "pre_full", told=told)
    with pytest.raises(GateFailed):
        await passed(gate, told=told, dry_run=True)

    assert refused.value.metadata["gate"] == "pre_ramp"
    assert told.failed == [("shop", "pre_ramp")]


@requirement("PF1-T-20a", "PF1-T-20b")
@pytest.mark.parametrize(
    ("client", "said"),
    [
        (Gate(raises(GateUnavailable("it is\naway"))), "held: it is away"),
        (Gate(raises(KeyError("boom"))), "held: its client raised KeyError"),
        (Gate(raises(SystemExit(1))), "held: its client raised SystemExit"),
        (Gate(raises(KeyboardInterrupt())), "held: its client raised KeyboardInterrupt"),
        (Hanging(answer_to), "held: it did not answer within 0.02 s"),
    ],
)
async def test_an_outage_halts_the_step_tells_an_operator_and_is_no_failed_gate(client: Gate, said: str) -> None:
    """Away, broken, and silent; the anomaly is logged and counted for an alert. Source: TN-78."""
    told = Told()

    with pytest.raises(GateHeld, match=f"pre_ramp: {said}"):
        await passed(client, told=told)

    assert told.failed == []
    assert told.anomalies == [("gate_unavailable", f"pre_ramp of shop: {said.removeprefix('held: ')}")]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"digest": Digest("sha256:other")}, "it answered about another digest"),
        ({"commit": Commit("other")}, "it answered about another commit"),
        ({"gate": "pre_full"}, "it answered about another gate"),
        ({"from_ramp": 0, "to_ramp": 500}, "it answered about another from_ramp, to_ramp"),
        ({"policy_version": "0"}, "it answered about another policy_version"),
        ({"expires_at": NOW}, f"its verdict expired at {NOW.isoformat()}"),
        ({"expires_at": NOW.replace(tzinfo=None)}, "it does not say when its verdict expires"),
        ({"expires_at": "tomorrow"}, "it does not say when its verdict expires"),
        ({"verdict": "pass"}, "what it answered is no verdict"),
        ({"verdict": None}, "what it answered is no verdict"),
    ],
)
@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.FAIL])
async def test_an_answer_that_is_not_about_the_question_holds(
    wrong: dict[str, Any], said: str, verdict: Verdict
) -> None:
    """A pass lets nothing through, and a fail is not counted against what it is not about."""
    told = Told()

    with pytest.raises(GateHeld) as held:
        await passed(Gate(lambda question: answer_to(question, **{"verdict": verdict, **wrong})), told=told)

    assert held.value.message == f"pre_ramp: held: {said}"
    assert told.anomalies == [("gate_not_believed", f"pre_ramp of shop: {said}")]
    assert told.failed == []


async def test_what_is_no_answer_at_all_holds() -> None:
    """A client that returns nothing, or something else."""
    for nonsense in (None, True, {"verdict": "pass"}):
        with pytest.raises(GateHeld, match="what it answered is no verdict"):
            await passed(Gate(lambda _question, answer=nonsense: answer))  # type: ignore[misc]  # bound at once


async def test_a_gate_without_a_client_holds() -> None:
    """Nobody has to have configured it for it to be needed."""
    with pytest.raises(GateHeld, match="no gate client is configured for it"):
        await passed(None)


async def test_a_failed_gate_outweighs_a_held_one() -> None:
    """It is the one that somebody has to do something about."""
    gate = Gate(lambda question: answer_to(question, Verdict.FAIL if question.gate == "pre_full" else Verdict.PENDING))

    with pytest.raises(GateFailed, match="pre_ramp: pending; pre_full: fail"):
        await passed(gate, "pre_ramp", "pre_full")


def overridden(**changes: Any) -> DefinitionFacts:
    """Return facts with an override of `pre_ramp` for the step in question."""
    override = Override("pre_ramp", 500, 2500, "bob", "false alarm", NOW + timedelta(minutes=1))
    return facts("shop", overrides=(msgspec.structs.replace(override, **changes),))


async def test_an_override_passes_one_no_of_one_gate_for_one_step() -> None:
    """And says so; it is not counted as failed."""
    told = Told()
    gate = Gate(lambda question: answer_to(question, Verdict.FAIL))

    assert await passed(gate, about=overridden(), told=told) == ("pre_ramp: fail; passed by an operator's override",)
    assert told.failed == []


@pytest.mark.parametrize("changes", [{"gate": "pre_full"}, {"from_ramp": 0}, {"to_ramp": 5000}, {"expires_at": NOW}])
async def test_an_override_of_anything_else_passes_nothing(changes: dict[str, Any]) -> None:
    """Another gate, another step, or one that is over."""
    with pytest.raises(GateFailed):
        await passed(Gate(lambda question: answer_to(question, Verdict.FAIL)), about=overridden(**changes))


async def test_an_override_never_passes_an_outage() -> None:
    """Nobody knows what the gate would have said. Source: DESIGN section 8."""
    with pytest.raises(GateHeld):
        await passed(Gate(raises(GateUnavailable("away"))), about=overridden())
