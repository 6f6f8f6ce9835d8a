"""Asks gates, and believes only answers that echo the question: anything else holds.

Source: DESIGN section 8, TN-78.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from sidecar.core.errors import GateFailed, GateHeld
from sidecar.core.identifiers import Vertical
from sidecar.core.rollout.facts import DefinitionFacts, Override
from sidecar.operations.ports import Clock
from sidecar.operations.rollout.ports import RolloutRecorder
from sidecar.policy.lifecycle import GateAnswer, GateClient, GateQuestion, GateUnavailable, Verdict


@dataclass(frozen=True, slots=True)
class GateRules:
    """How long a gate may take.

    Attributes:
        timeout: of one question.
        attempts: how often one is asked that does not answer; an answer is never asked again.
    """

    timeout: timedelta = timedelta(seconds=10)
    attempts: int = 2


class Gatekeeper:
    """Asks the gates of a step.

    Args:
        clients: by vertical and gate; a gate without a client holds.
    """

    def __init__(self, rules: GateRules, clients: "GateClients", clock: Clock, recorder: RolloutRecorder) -> None:
        """Join the parts."""
        self._rules = rules
        self._clients = clients
        self._clock = clock
        self._recorder = recorder

    async def pass_all(
        self, question: GateQuestion, gates: Sequence[str], vertical: Vertical, facts: DefinitionFacts
    ) -> tuple[str, ...]:
        """Ask every gate, in order; returns what each said, in words.

        Raises:
            GateFailed: one said no, and no override of that gate and step holds. The others are asked even so.
            GateHeld: none failed, and one has not said yes.
        """
        said: list[str] = []
        failed, held = "", ""
        for gate in gates:
            verdict, words = await self._verdict(msgspec.structs.replace(question, gate=gate), vertical)
            if verdict is Verdict.FAIL and _overridden(facts, question, gate, self._clock.now()):
                verdict, words = Verdict.PASS, f"{words}; passed by an operator's override"
            said.append(f"{gate}: {words}")
            if verdict is Verdict.FAIL:
                failed = failed or gate
                self._recorder.gate_failed(question.definition_id, gate)
            elif verdict is not Verdict.PASS:
                held = held or gate
        if failed:
            raise GateFailed("; ".join(said), metadata={"gate": failed})
        if held:
            raise GateHeld("; ".join(said), metadata={"gate": held})
        return tuple(said)

    async def _verdict(self, question: GateQuestion, vertical: Vertical) -> tuple[Verdict | None, str]:
        """Return what a gate says, None if nothing that counts."""
        client = self._clients.client_for(vertical, question.gate)
        if client is None:
            return None, "held: no gate client is configured for it"
        problem = ""
        for _ in range(max(1, self._rules.attempts)):
            try:
                async with asyncio.timeout(self._rules.timeout.total_seconds()):
                    answer = await client.ask(question)
            except TimeoutError:
                problem = "held: it did not answer in time"
            except GateUnavailable as away:
                problem = f"held: {away.detail}"
            except BaseException as error:
                if isinstance(error, asyncio.CancelledError):
                    raise
                problem = f"held: its client raised {type(error).__name__}"
            else:
                return self._believed(question, answer)
        self._recorder.anomaly("gate_unavailable", f"{question.gate} of {question.definition_id}: {problem}")
        return None, problem

    def _believed(self, question: GateQuestion, answer: object) -> tuple[Verdict | None, str]:
        if not isinstance(answer, GateAnswer) or not isinstance(answer.verdict, Verdict):
            return None, "held: what it answered is no verdict"
        echoed = all(getattr(answer, name) == getattr(question, name) for name in ECHOED)
        if not echoed:
            return None, "held: it answered about another definition or step"
        if answer.expires_at <= self._clock.now():
            return None, f"held: its verdict expired at {answer.expires_at.isoformat()}"
        words = f"{answer.verdict}: {answer.summary}" if answer.summary else str(answer.verdict)
        return answer.verdict, words


ECHOED = ("gate", "digest", "commit", "from_ramp", "to_ramp", "policy_version")
"""What a verdict is bound to."""


@dataclass(frozen=True, slots=True)
class GateClients:
    """Which client asks which gate of which vertical.

    Attributes:
        default: by gate.
        by_vertical: what differs, by vertical and gate.
    """

    default: Mapping[str, GateClient]
    by_vertical: Mapping[Vertical, Mapping[str, GateClient]]

    def client_for(self, vertical: Vertical, gate: str) -> GateClient | None:
        """Return the client; None: the gate holds."""
        return self.by_vertical.get(vertical, {}).get(gate) or self.default.get(gate)


def _overridden(facts: DefinitionFacts, question: GateQuestion, gate: str, now: datetime) -> bool:
    def fits(override: Override) -> bool:
        step = (override.gate, override.from_ramp, override.to_ramp)
        return step == (gate, question.from_ramp, question.to_ramp) and now < override.expires_at

    return any(fits(override) for override in facts.overrides)
