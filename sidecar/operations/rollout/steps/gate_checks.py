"""Asks gates, and believes only answers that echo the question: anything else holds.

A `pass` counts only if it is about exactly this definition and step under today's rules, and has not expired. What is
no answer (an outage, a timeout, nonsense, somebody else's verdict) is no `fail` either: it changes nothing, is not
counted as a failed gate, and is reported as an anomaly, so that an operator learns of it. Source: DESIGN section 8,
PF1-D-61, TN-78.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from sidecar.core.errors import GateFailed, GateHeld
from sidecar.core.identifiers import Vertical
from sidecar.core.rollout.facts import DefinitionFacts, Override
from sidecar.operations.ports import Clock
from sidecar.operations.rollout.store.ports import RolloutRecorder
from sidecar.policy.lifecycle import GateAnswer, GateClient, GateQuestion, GateUnavailable, Verdict

LONGEST_SUMMARY: Final = 300
"""Characters of a gate's own words that an operator is shown."""

ECHOED: Final = ("gate", "digest", "commit", "from_ramp", "to_ramp", "policy_version")
"""What a verdict is bound to."""

UNAVAILABLE: Final = "gate_unavailable"
"""Anomaly: a gate gave no answer."""
NOT_BELIEVED: Final = "gate_not_believed"
"""Anomaly: a gate answered what cannot count."""


class GateRules(msgspec.Struct, frozen=True):
    """How long a gate may take.

    Attributes:
        timeout: of one question. Whether it is put again meanwhile is for the client, which knows what has failed.
    """

    timeout: timedelta = timedelta(seconds=10)


GateRouting = Callable[[Vertical, str], GateClient | None]
"""Returns the client of a vertical's gate; None: there is none, and the gate holds."""


class GateEvaluator(msgspec.Struct, frozen=True):
    """Asks the gates of a step.

    Attributes:
        rules: how long one may take.
        client_for: by vertical and gate.
        clock: by which verdicts expire.
        recorder: told what failed, and what gave no answer.
    """

    rules: GateRules
    client_for: GateRouting
    clock: Clock
    recorder: RolloutRecorder

    async def pass_all(
        self, question: GateQuestion, gates: Sequence[str], vertical: Vertical, facts: DefinitionFacts
    ) -> tuple[str, ...]:
        """Ask every gate once, in order; returns what each said, in words.

        Raises:
            GateFailed: one said no, and no override of that gate and step holds. The others are asked even so.
            GateHeld: none failed, and one has not said yes.
        """
        said: list[str] = []
        failed, held = "", ""
        for gate in dict.fromkeys(gates):
            verdict, words = await self._verdict(msgspec.structs.replace(question, gate=gate), vertical)
            if verdict is Verdict.FAIL and _overridden(facts, question, gate, self.clock.now()):
                verdict, words = Verdict.PASS, f"{words}; passed by an operator's override"
            said.append(f"{gate}: {words}")
            if verdict is Verdict.FAIL:
                failed = failed or gate
                if not question.dry_run:
                    self.recorder.gate_failed(question.definition_id, gate)
            elif verdict is not Verdict.PASS:
                held = held or gate
        if failed:
            raise GateFailed("; ".join(said), metadata={"gate": failed})
        if held:
            raise GateHeld("; ".join(said), metadata={"gate": held})
        return tuple(said)

    async def _verdict(self, question: GateQuestion, vertical: Vertical) -> tuple[Verdict | None, str]:
        """Return what a gate says, None if nothing that counts."""
        client = self.client_for(vertical, question.gate)
        if client is None:
            return None, "held: no gate client is configured for it; set policy.default.gates, see docs/gates.md"
        try:
            async with asyncio.timeout(self.rules.timeout.total_seconds()):
                answer: object = await client.ask(question)
        except TimeoutError:
            problem = f"it did not answer within {self.rules.timeout.total_seconds():g} s"
        except GateUnavailable as away:
            problem = _plain(away.detail)
        except Exception as error:  # noqa: BLE001  the border to a plugin: whatever it raises holds
            problem = f"its client raised {type(error).__name__}"
        except (SystemExit, GeneratorExit) as error:
            problem = f"its client raised {type(error).__name__}"
        else:
            return self._believed(question, answer)
        return self._hold(UNAVAILABLE, question, problem)

    def _believed(self, question: GateQuestion, answer: object) -> tuple[Verdict | None, str]:
        if not isinstance(answer, GateAnswer) or not isinstance(answer.verdict, Verdict):
            return self._hold(NOT_BELIEVED, question, "what it answered is no verdict")
        differs = [name for name in ECHOED if getattr(answer, name) != getattr(question, name)]
        if differs:
            return self._hold(NOT_BELIEVED, question, f"it answered about another {', '.join(differs)}")
        expires_at: object = answer.expires_at
        if not isinstance(expires_at, datetime) or expires_at.utcoffset() is None:
            return self._hold(NOT_BELIEVED, question, "it does not say when its verdict expires")
        if expires_at <= self.clock.now():
            return self._hold(NOT_BELIEVED, question, f"its verdict expired at {expires_at.isoformat()}")
        summary = _plain(answer.summary)
        return answer.verdict, f"{answer.verdict}: {summary}" if summary else str(answer.verdict)

    def _hold(self, anomaly: str, question: GateQuestion, problem: str) -> tuple[None, str]:
        self.recorder.anomaly(anomaly, f"{question.gate} of {question.definition_id}: {problem}")
        return None, f"held: {problem}"


def _plain(text: object) -> str:
    """Return a plugin's words on one line, bounded."""
    return " ".join(text.split())[:LONGEST_SUMMARY] if isinstance(text, str) else ""


def _overridden(facts: DefinitionFacts, question: GateQuestion, gate: str, now: datetime) -> bool:
    def fits(override: Override) -> bool:
        step = (override.gate, override.from_ramp, override.to_ramp)
        return step == (gate, question.from_ramp, question.to_ramp) and now < override.expires_at

    return any(fits(override) for override in facts.overrides)
