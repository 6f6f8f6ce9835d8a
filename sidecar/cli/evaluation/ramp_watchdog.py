"""Implements `sidecar ramp-watchdog`: judges the ramps of a sidecar; ramps down after a breach, or proposes a step.

A breach means that the ramping definition is worse than the one before it. The watchdog never raises a ramp, because
only an operator may (PF1-D-64). Missing or untrusted evidence is reported, and never leads to a proposal.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from math import isinf
from typing import Any, Final

from sidecar.cli.evaluation.watchdog_metrics import WatchdogMetrics
from sidecar.cli.output.drawing import Part, TextLine, clean, timestamp, utc
from sidecar.cli.subagent.client import CannotOperate, OperatorClient, OperatorExit
from sidecar.cli.subagent.output.parsing import percent
from sidecar.cli.subagent.views import OperatorCommands, with_errors
from sidecar.core.evaluation.arm_evidence import LATENCY_BOUNDS, TOKEN_BOUNDS, ArmBlock, ScoreSum
from sidecar.core.evaluation.ramp_verdict import Block, RampVerdict, Rules, Verdict, judge
from subagents.lifecycle.v1 import evidence_pb2, lifecycle_pb2

STYLES: Final = {Verdict.BREACH: "red", Verdict.PROPOSE: "green", Verdict.WAIT: "dim", Verdict.UNSURE: "yellow"}
SECONDS: Final = 30.0
"""Seconds for one request: the sidecar may count for up to 5 s per ramp."""
LONGEST_REASON: Final = 1000
"""The most characters of a reason that the sidecar accepts."""


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """The options of the watchdog.

    Attributes:
        slot: the slot to watch; empty: all slots.
        every: seconds between two rounds; 0: one round.
        dry_run: only report what would be done.
        metrics_address: IP address and port of `/metrics`; empty: none.
        rules: when evidence is a breach, and when it is enough to propose a step.
    """

    slot: str = ""
    every: float = 0.0
    dry_run: bool = False
    metrics_address: str = ""
    rules: Rules = field(default_factory=Rules)


@dataclass(frozen=True, slots=True)
class RampReport:
    """One ramp, its verdict, and what was done.

    Attributes:
        ramp: the counts of both arms, as the sidecar sent them.
        done: what the watchdog did: `ramped_down`, `would_ramp_down`, `refused`, or empty for nothing.
        problem: why the sidecar did not ramp down.
    """

    ramp: evidence_pb2.RampEvidence
    verdict: RampVerdict
    done: str = ""
    problem: CannotOperate | None = None


def watch_ramps(opened: Callable[[], OperatorCommands], options: WatchOptions) -> int:
    """Judge the ramps, once or until interrupted. Returns the exit code.

    Each round calls `opened`, because the token file is renewed.
    """
    metrics = WatchdogMetrics(options.every)
    if not options.metrics_address:
        return _watch(opened, options, metrics)
    from sidecar.cli.evaluation.metrics_server import serving_metrics  # noqa: PLC0415  few watchdogs serve

    try:
        with serving_metrics(options.metrics_address, metrics.text):
            return _watch(opened, options, metrics)
    except CannotOperate as problem:
        return opened().refused(problem)


def _watch(opened: Callable[[], OperatorCommands], options: WatchOptions, metrics: WatchdogMetrics) -> int:
    while True:
        commands = opened()
        code = look(commands, options, metrics)
        # 0: one round, e.g. for cron, which reads the exit code. With an interval, a failed round is repeated like any
        # other.
        if not options.every:
            return code
        # A log collector must see each round at once, not when the buffer is full after many of them.
        commands.out.flush()
        commands.pause(options.every)


def look(commands: OperatorCommands, options: WatchOptions, metrics: WatchdogMetrics | None = None) -> int:
    """Judge every ramp once, and count the round. Returns the exit code."""
    round_metrics = metrics or WatchdogMetrics()

    def work() -> OperatorExit:
        try:
            reports = _judge_all(commands, options)
        except CannotOperate:
            # Counted before the error ends the round: an alert must notice a watchdog that judges nothing.
            round_metrics.failed()
            raise
        verdicts = {each.ramp.slot: each.verdict.verdict for each in reports}
        round_metrics.judged(verdicts, [each.done for each in reports if each.done])
        return _print(commands, reports)

    return with_errors(commands, work)


def _judge_all(commands: OperatorCommands, options: WatchOptions) -> Sequence[RampReport]:
    # A new connection in each round: the rounds are a minute apart, and a sidecar may have been restarted.
    with OperatorClient(commands.where, commands.where.targets[0]) as client:
        request = evidence_pb2.GetRampEvidenceRequest(slot=options.slot)
        answer = client.ask("GetRampEvidence", request, options.slot, SECONDS)
        _check_bounds(answer)
        return [_judge_ramp(client, ramp, options) for ramp in answer.ramps]


def _print(commands: OperatorCommands, reports: Sequence[RampReport]) -> OperatorExit:
    """Print the verdicts; return the exit code that they mean."""
    if commands.as_json:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        commands.write_json({"at": now, "ramps": [as_object(each) for each in reports]})
    else:
        shown = [line for each in reports for line in lines_of(each)]
        commands.screen.show(shown or [[Part("no ramp between 0 % and 100 %", "dim")]])
    for each in reports:
        if each.problem is not None:
            commands.errors.write(f"{clean(each.ramp.slot)} is NOT ramped down: {each.problem}\n")
    verdicts = {each.verdict.verdict for each in reports}
    # A breach takes precedence: it is more urgent than missing evidence for a job that reads the exit code.
    if Verdict.BREACH in verdicts:
        return OperatorExit.REFUSED
    return OperatorExit.PARTIAL if Verdict.UNSURE in verdicts else OperatorExit.DONE


def _check_bounds(answer: evidence_pb2.GetRampEvidenceResponse) -> None:
    """Refuse buckets of another version: counts would be compared with wrong limits. Raises `CannotOperate`."""
    if tuple(answer.latency_bounds) != LATENCY_BOUNDS or tuple(answer.token_bounds) != TOKEN_BOUNDS:
        why = "the sidecar counts in other buckets than this watchdog"
        raise CannotOperate(why, OperatorExit.NOT_ASKED, advice="run both in one version")


def _judge_ramp(client: OperatorClient, ramp: evidence_pb2.RampEvidence, options: WatchOptions) -> RampReport:
    verdict = verdict_on(ramp, options.rules)
    if verdict.verdict is not Verdict.BREACH:
        return RampReport(ramp, verdict)
    if options.dry_run:
        return RampReport(ramp, verdict, "would_ramp_down")
    try:
        client.ask("RampDown", ramp_down(ramp, verdict), ramp.active_definition_id, SECONDS)
    except CannotOperate as problem:  # returned and not raised: the other ramps must still be judged
        return RampReport(ramp, verdict, "refused", problem)
    return RampReport(ramp, verdict, "ramped_down")


def verdict_on(ramp: evidence_pb2.RampEvidence, rules: Rules) -> RampVerdict:
    """Return the verdict on a ramp. If evidence is missing, a breach still counts, but no next step is proposed."""
    blocks = [_block(each) for each in ramp.blocks]
    verdict = judge(blocks, ramp.ramp_basis_points, ramp.curve_basis_points, rules)
    why = tuple(_gaps(ramp))
    # Missing facts can hide harm but not invent it. A breach in part of the evidence therefore counts.
    if not why or verdict.verdict is Verdict.BREACH:
        return verdict
    return RampVerdict(Verdict.UNSURE, why, verdict.measures, verdict.users, 0, verdict.detectable, verdict.ratio_e)


def _gaps(ramp: evidence_pb2.RampEvidence) -> Iterator[str]:
    """Yield what is missing from the evidence."""
    if ramp.facts_behind:
        yield f"the evidence is not complete: {ramp.facts_behind} facts are not counted yet; the next round continues"
    if ramp.unreadable_turns:
        yield f"{ramp.unreadable_turns} turns cannot be read; see the log of the sidecar"
    if ramp.is_full:
        yield "a limit of users or scores is reached, so the newest are not counted; decide the next step by hand"


def ramp_down(ramp: evidence_pb2.RampEvidence, verdict: RampVerdict) -> lifecycle_pb2.RampDownRequest:
    """Return the request that sets a ramp to 0.

    Its id is derived from the definition, its ramp and the time since when it has this ramp. The next round makes the
    same request, e.g. if the answer was lost, and so takes no second step.
    """
    step = f"{ramp.active_digest} {ramp.ramp_basis_points} {ramp.since.ToJsonString()}"
    # 24 hexadecimal digits are 96 bits, so that no two steps get the same id.
    breach = f"ramp-watchdog-{sha256(step.encode()).hexdigest()[:24]}"
    reason = f"the watchdog at {percent(ramp.ramp_basis_points)}: {'; '.join(verdict.why)}"
    header = lifecycle_pb2.StepHeader(
        definition_id=ramp.active_definition_id,
        slot=ramp.slot,
        digest=ramp.active_digest,
        reason=reason if len(reason) <= LONGEST_REASON else f"{reason[: LONGEST_REASON - 1]}…",
        request_id=breach,
    )
    return lifecycle_pb2.RampDownRequest(header=header, breach_id=breach)


def lines_of(judged: RampReport) -> Iterator[TextLine]:
    """Yield the lines about a ramp."""
    ramp, verdict = judged.ramp, judged.verdict
    arms = f"{clean(ramp.active_definition_id)} against {clean(ramp.target_definition_id)}"
    yield [
        Part(f"{clean(ramp.slot)}: ", "bold"),
        Part(f"{arms} at {percent(ramp.ramp_basis_points)} since {timestamp(utc(ramp.since))} UTC; "),
        Part(f"users who called: {verdict.users[0]} inside, {verdict.users[1]} outside", "dim"),
    ]
    what = {
        "ramped_down": "breach, ramped down to 0 %",
        "would_ramp_down": "breach, would ramp down to 0 % (--dry-run)",
        "refused": "breach, NOT ramped down",
    }.get(judged.done, str(verdict.verdict))
    if verdict.next_ramp:
        command = f"sidecar subagent ramp {clean(ramp.active_definition_id)} {verdict.next_ramp / 100:g} --reason …"
        what = f"an operator may raise it to {percent(verdict.next_ramp)}: {command}"
    yield [Part(f"  {what}", STYLES[verdict.verdict])]
    yield from ([Part(f"    {clean(each)}")] for each in verdict.why)
    noticeable = "no increase" if isinf(verdict.detectable) else f"an increase by {verdict.detectable:.1%}"
    yield [Part(f"    at this traffic {noticeable} of failures would have been noticed by now", "dim")]


def as_object(judged: RampReport) -> Mapping[str, Any]:
    """Return a ramp and its verdict for `--json`."""
    ramp, verdict = judged.ramp, judged.verdict
    return {
        "slot": ramp.slot,
        "active_definition_id": ramp.active_definition_id,
        "active_digest": ramp.active_digest,
        "target_definition_id": ramp.target_definition_id,
        "ramp_basis_points": ramp.ramp_basis_points,
        "since": ramp.since.ToJsonString(),
        "verdict": str(verdict.verdict),
        "done": judged.done,
        "next_ramp_basis_points": verdict.next_ramp,
        "why": list(verdict.why),
        "users": {"active": verdict.users[0], "target": verdict.users[1]},
        # JSON has no infinity.
        "detectable_increase": None if isinf(verdict.detectable) else verdict.detectable,
        "sample_ratio_e_value": verdict.ratio_e,
        "measures": [
            {
                "name": each.name,
                "active": {"count": each.seen.active.count, "mean": each.seen.active.mean},
                "target": {"count": each.seen.target.count, "mean": each.seen.target.mean},
                "log_e_value": each.seen.log_e,
                "alpha": each.alpha,
                "breached": each.breached,
            }
            for each in verdict.measures
        ],
    }


def _block(message: evidence_pb2.EvidenceBlock) -> Block:
    return {"active": _arm(message.active), "target": _arm(message.target)}


def _arm(message: evidence_pb2.ArmCounts) -> ArmBlock:
    return ArmBlock(
        users=message.user_count,
        calls=message.call_count,
        failures={each.reason: each.count for each in message.failures},
        # An arm without calls has no counts at all in the message.
        latency=list(message.latency) or [0] * (len(LATENCY_BOUNDS) + 1),
        tokens=list(message.tokens) or [0] * (len(TOKEN_BOUNDS) + 1),
        scores={each.name: ScoreSum(each.count, each.total) for each in message.scores},
    )
