"""Asks the gates of a rollout step. The step is taken only on a verdict that repeats the question and says `pass`.

A `pass` counts only if it names exactly this definition and step and the present policy version, and has not expired.
An outage, a timeout, a malformed answer or a verdict on another question is neither `pass` nor `fail`: the step is not
taken, no gate is counted as failed, and an anomaly tells an operator. Source: DESIGN section 8, PF1-D-61, TN-78.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol

import msgspec

from sidecar.core.errors import GateFailed, GateHeld
from sidecar.core.identifiers import Vertical
from sidecar.core.rollout.events import GateResult, GateVerdict
from sidecar.core.rollout.facts import DefinitionFacts, Override
from sidecar.operations.ports import Clock
from sidecar.policy.lifecycle import GateAnswer, GateClient, GateQuestion, GateUnavailable, Verdict

LONGEST_SUMMARY: Final = 300
"""The most characters of a gate's explanation that an operator is shown."""

ECHOED: Final = ("gate", "digest", "commit", "from_ramp", "to_ramp", "policy_version")
"""The fields of the question that an answer must repeat. A verdict on another question does not count."""

UNAVAILABLE: Final = "gate_unavailable"
"""Anomaly: a gate gave no answer."""
NOT_BELIEVED: Final = "gate_not_believed"
"""Anomaly: a gate gave an answer that does not count."""


class GateRules(msgspec.Struct, frozen=True):
    """How long a gate may take.

    Attributes:
        timeout: for one question, retries included. The gate client decides about retries, because it knows the
            failure.
    """

    timeout: timedelta = timedelta(seconds=10)


GateRouting = Callable[[Vertical, str], GateClient | None]
"""Returns the client for a gate of a vertical; None if none is configured: then the gate does not pass."""


class GateRecorder(Protocol):
    """Receives the results of gates, for metrics and logs. Never raises, never waits."""

    def gate_failed(self, definition_id: str, gate: str, /) -> None:
        """Count a `fail`. An outage does not count as one. Source: PF1-OBS-2, TN-78."""
        ...

    def anomaly(self, kind: str, detail: str, /) -> None:
        """Log and count an answer that is missing or does not count."""
        ...


class GateEvaluator(msgspec.Struct, frozen=True):
    """Calls the gates of a step.

    Attributes:
        rules: how long one gate may take.
        client_for: returns the client for a vertical and a gate.
        clock: decides whether a verdict or an override has expired.
        recorder: counts failed gates, and receives answers that are missing or do not count.
    """

    rules: GateRules
    client_for: GateRouting
    clock: Clock
    recorder: GateRecorder

    async def ask_all(
        self, question: GateQuestion, gates: Sequence[str], vertical: Vertical, facts: DefinitionFacts
    ) -> tuple[GateResult, ...]:
        """Call every gate once, in order, even after one has failed; `refuse_unless_passed` evaluates the answers.

        All answers together tell the operator everything that is missing, in one attempt.
        """
        results: list[GateResult] = []
        # `dict.fromkeys` removes duplicates and keeps the order: the platform and a policy may require the same gate.
        for gate in dict.fromkeys(gates):
            result = await self._ask(msgspec.structs.replace(question, gate=gate), vertical)
            if result.verdict is GateVerdict.FAIL:
                if _is_overridden(facts, question, gate, self.clock.now()):
                    result = msgspec.structs.replace(result, overridden=True)
                # A dry run changes nothing, and metrics of failed gates count steps that were tried.
                elif not question.dry_run:
                    self.recorder.gate_failed(question.definition_id, gate)
            results.append(result)
        return tuple(results)

    async def _ask(self, question: GateQuestion, vertical: Vertical) -> GateResult:
        """Call one gate. Without an answer that counts, the verdict is `UNAVAILABLE`."""
        client = self.client_for(vertical, question.gate)
        if client is None:
            missing = "no gate client is configured for it; set policy.default.gates, see docs/gates.md"
            return GateResult(question.gate, GateVerdict.UNAVAILABLE, missing)
        try:
            async with asyncio.timeout(self.rules.timeout.total_seconds()):
                answer: object = await client.ask(question)
        except TimeoutError:
            problem = f"it did not answer within {self.rules.timeout.total_seconds():g} s"
        # The client knows why it has no answer; every other exception is a defect of the plugin.
        except GateUnavailable as unavailable:
            problem = _plain(unavailable.detail)
        except Exception as error:  # noqa: BLE001  a plugin may raise anything; the gate does not pass
            problem = f"its client raised {type(error).__name__}"
        # Named, because `except BaseException` would also swallow `CancelledError`, with which the caller is cancelled.
        except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
            problem = f"its client raised {type(error).__name__}"
        else:
            return self._check_answer(question, answer)
        return self._unavailable(UNAVAILABLE, question, problem)

    def _check_answer(self, question: GateQuestion, answer: object) -> GateResult:
        """Return the result of an answer; the verdict is `UNAVAILABLE` if the answer does not count."""
        if not isinstance(answer, GateAnswer) or not isinstance(answer.verdict, Verdict):
            return self._unavailable(NOT_BELIEVED, question, "what it answered is no verdict")
        # A gate that answers from a cache, or about an earlier content of the definition, must not let this step pass.
        differs = [name for name in ECHOED if getattr(answer, name) != getattr(question, name)]
        if differs:
            return self._unavailable(NOT_BELIEVED, question, f"it answered about another {', '.join(differs)}")
        # Checked at run time, because plugins are not type-checked. A naive time cannot be compared with the clock.
        expires_at: object = answer.expires_at
        if not isinstance(expires_at, datetime) or expires_at.utcoffset() is None:
            return self._unavailable(NOT_BELIEVED, question, "it does not say when its verdict expires")
        if expires_at <= self.clock.now():
            return self._unavailable(NOT_BELIEVED, question, f"its verdict expired at {expires_at.isoformat()}")
        return GateResult(question.gate, GateVerdict(answer.verdict.value), _plain(answer.summary))

    def _unavailable(self, anomaly: str, question: GateQuestion, problem: str) -> GateResult:
        """Report an anomaly, and return the result that holds the step."""
        self.recorder.anomaly(anomaly, f"{question.gate} of {question.definition_id}: {problem}")
        return GateResult(question.gate, GateVerdict.UNAVAILABLE, problem)


def words_of(results: Sequence[GateResult]) -> str:
    """Return the answers of all gates as one line."""
    return "; ".join(result.words for result in results)


def refuse_unless_passed(results: Sequence[GateResult]) -> None:
    """Raise unless every gate lets the step pass.

    Raises:
        GateFailed: a gate failed, and there is no valid override of that gate for that step.
        GateHeld: no gate failed, and at least one has not passed.
    """
    # Unavailable gates are among them: an outage of a gate must hold a step, never let it pass.
    open_gates = [result for result in results if not result.passed]
    failed = [result for result in open_gates if result.verdict is GateVerdict.FAIL]
    if failed:
        raise GateFailed(words_of(results), metadata={"gate": failed[0].gate})
    if open_gates:
        first = open_gates[0]
        raise GateHeld(words_of(results), metadata={"gate": first.gate, "verdict": first.verdict.value})


def _plain(text: object) -> str:
    """Return a plugin's text on one line, cut to `LONGEST_SUMMARY`."""
    return " ".join(text.split())[:LONGEST_SUMMARY] if isinstance(text, str) else ""


def _is_overridden(facts: DefinitionFacts, question: GateQuestion, gate: str, now: datetime) -> bool:
    def fits(override: Override) -> bool:
        # One gate and one step: an override for 5 % must not let a later raise to 50 % pass.
        step = (override.gate, override.from_ramp, override.to_ramp)
        return step == (gate, question.from_ramp, question.to_ramp) and now < override.expires_at

    return any(fits(override) for override in facts.overrides)
