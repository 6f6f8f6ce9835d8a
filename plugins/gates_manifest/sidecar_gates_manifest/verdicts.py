"""What a manifest says of a question; pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from sidecar.policy.lifecycle import GateAnswer, GateQuestion, Verdict
from sidecar_gates_manifest.manifest import Manifest, Result, Threshold

ASK_AGAIN_AFTER: Final = timedelta(minutes=5)
"""How long it is said that nothing is known."""


def answer_to(manifest: Manifest, question: GateQuestion, now: datetime, *, accept_offline: bool = False) -> GateAnswer:
    """Return the verdict.

    `pass` or `fail` only if there are thresholds and a fresh result of exactly this content for exactly this step;
    `pending` if there is none; `inconclusive` if there is one from which nothing follows. A result that is labelled
    offline is as good as none, unless `accept_offline`.
    """
    soon = now + ASK_AGAIN_AFTER
    thresholds, fresh_for = manifest.rule_of(question.definition_id, question.gate)
    if not thresholds:
        return _answer(question, Verdict.INCONCLUSIVE, soon, "the manifest has no thresholds for this gate")
    result, missing = _result_for(manifest, question, accept_offline=accept_offline)
    if result is None:
        return _answer(question, Verdict.PENDING, soon, missing)
    unknown = sorted(name for name in thresholds if name not in result.metrics)
    summary = ""
    if result.recorded_at > now:
        summary = f"the result is from the future: {result.recorded_at.isoformat()}"
    elif result.recorded_at + fresh_for <= now:
        summary = f"the result is stale: recorded {result.recorded_at.isoformat()}, and counts for {fresh_for}"
    elif unknown:
        summary = f"the result lacks {', '.join(unknown)}"
    if summary:
        return _answer(question, Verdict.INCONCLUSIVE, soon, summary, result.evidence)
    return _judged(question, result, thresholds, result.recorded_at + fresh_for)


def _result_for(manifest: Manifest, question: GateQuestion, *, accept_offline: bool) -> tuple[Result | None, str]:
    """Return the newest result of exactly this content and step; without one, what there is instead."""
    of_gate = [
        result
        for result in manifest.results
        if (result.sub_agent, result.gate) == (question.definition_id, question.gate)
    ]
    if not of_gate:
        return None, "no result is recorded"
    of_content = [each for each in of_gate if (each.digest, each.commit) == (question.digest, question.commit)]
    if not of_content:
        newest = max(of_gate, key=lambda result: result.recorded_at)
        return None, f"results are recorded for another content only, the newest for {newest.digest}"
    of_step = [each for each in of_content if each.step == (question.from_ramp, question.to_ramp)]
    if not of_step:
        return None, "results of this content are recorded for another step only"
    counting = [each for each in of_step if accept_offline or not each.offline]
    if not counting:
        return None, "results of this content and step are offline only; evaluate with the model that production uses"
    return max(counting, key=lambda result: result.recorded_at), ""


def _judged(
    question: GateQuestion, result: Result, thresholds: Mapping[str, Threshold], expires_at: datetime
) -> GateAnswer:
    missed = [
        f"{name} is {result.metrics[name]:g}, {_wanted(threshold)}"
        for name, threshold in thresholds.items()
        if not threshold.met_by(result.metrics[name])
    ]
    met = ", ".join(f"{name} {result.metrics[name]:g}" for name in thresholds)
    verdict = Verdict.FAIL if missed else Verdict.PASS
    return _answer(question, verdict, expires_at, "; ".join(missed) or f"all thresholds met: {met}", result.evidence)


def _wanted(threshold: Threshold) -> str:
    ends = {"at least": threshold.at_least, "at most": threshold.at_most}
    return " and ".join(f"{name} {end:g}" for name, end in ends.items() if end is not None)


def _answer(
    question: GateQuestion, verdict: Verdict, until: datetime, summary: str, evidence: Mapping[str, str] | None = None
) -> GateAnswer:
    return GateAnswer(
        verdict=verdict,
        gate=question.gate,
        digest=question.digest,
        commit=question.commit,
        from_ramp=question.from_ramp,
        to_ramp=question.to_ramp,
        policy_version=question.policy_version,
        expires_at=until,
        summary=summary,
        evidence=evidence or {},
    )
