"""The promises that the suites are held to, with the requirement rows that they prove."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tests.support.simulation.generating import SUITES
from tests.support.simulation.invariants import INVARIANTS
from tests.support.simulation.record.checks_asking import QUESTION_INVARIANTS
from tests.support.simulation.record.generating import SUITE as RECORD
from tests.support.simulation.record.promises import READABLE, RECORD_INVARIANTS
from tests.support.simulation.record.questions import SUITE as QUESTIONS
from tests.support.simulation.rollout.generating import SUITE as ROLLOUT
from tests.support.simulation.rollout.promises import ROLLOUT_INVARIANTS

PROVES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "every_call_has_one_outcome": ("PC2-D-41", "PC2-T-29", "SX-48", "SX-50"),
        "refused_and_dropped_never_run": ("PC2-D-10", "PC2-T-7"),
        "dropped_is_the_surplus": ("PC2-D-17", "PC2-T-30"),
        "calls_are_given_their_own": ("PC1-D-20", "SX-5", "SX-6"),
        "outcomes_are_their_own": ("PC2-D-19", "PC2-D-38", "PC2-D-47", "PC2-T-26"),
        "outcomes_come_in_time": ("PC2-D-48",),
        "attempts_are_bounded": ("PC2-D-39", "SX-28"),
        "each_answer_is_its_own_attempts": ("SX-53",),
        "contracts_come_first": ("SX-1", "SX-3"),
        "child_logs_are_legal": ("SX-41", "SX-42", "SX-43", "SX-45"),
        "turns_end_after_their_calls": ("SX-25", "SX-26", "SX-32"),
        "idle_turns_have_their_time": ("SX-26",),
        "what_is_told_is_durable": ("SX-51",),
        "cancels_are_on_record": ("SX-51",),
        "everybody_is_told_the_same": ("SX-50",),
        "every_child_closes_once": ("SX-25", "SX-26", "SX-45"),
        "what_is_told_is_on_record": ("SX-51",),
        "verdicts_decide": ("SX-30", "SX-33", "SX-34", "SX-52"),
        "data_is_released_or_withheld": ("PC2-D-63", "SX-13"),
        "the_principal_is_the_users": ("PC2-D-30", "PC2-D-31"),
        "progress_follows_the_policy": ("PC2-D-21", "PC2-T-31"),
        "every_step_follows_the_rules": ("PF1-FR-1a", "PF1-FR-1b", "PF1-FR-1c", "PF1-D-13"),
        "nobody_overwrites_anybody": ("PF1-T-21",),
        "no_step_without_its_gates": ("PF1-FR-3d", "PF1-FR-4b", "PF1-D-12"),
        "lifecycles_move_for_a_reason": ("PF1-D-4", "PF1-T-19"),
        "every_step_is_audited": ("PF1-FR-10a", "PF1-D-49"),
        "everybody_is_served_by_the_rules": ("PF1-FR-9b", "PF1-FR-9c", "PF1-D-27", "PF1-AC-4a"),
        "no_user_leaves_as_the_ramp_rises": ("PF1-D-66",),
        "turns_keep_what_they_were_bound_to": ("PF1-FR-8a", "PF1-FR-8b"),
        "transitions_take_effect_once": ("PF1-D-48",),
        "nothing_is_taken_away_in_use": ("PF1-FR-11a",),
        "decommissions_are_audited": ("PF1-D-43",),
        "what_is_undone_is_as_it_was": ("PF1-D-44",),
        "configurations_move_nobody": ("PF1-D-40",),
        "what_is_overdue_is_said": ("PF1-NFR-5a", "PF1-D-67"),
    }
)
PROMISES: Final = tuple(
    dict.fromkeys((*INVARIANTS, *RECORD_INVARIANTS, READABLE, *QUESTION_INVARIANTS, *ROLLOUT_INVARIANTS))
)
_FAULTS: Final = tuple(
    """
client: cancel_call|client: cancel_unknown|client: close_child|client: deadline too short|client: disconnect
client: early|client: end rejecting|client: end twice|client: end unknown_child|client: lost|client: repeat
client: repeat_otherwise|client: resume|client: slow reader|data: cancelled and went on|data: error|data: hangs
data: hangs and clings|data: interrupts|data: malformed|data: no principal|data: ok
data: other nonce|data: other version|data: partial|data: raises|data: refused as mismatch|data: returns nonsense
data: schema|data: two principals|data: unavailable|data: wrong principal|refused: ADMISSION_REFUSED
refused: DEADLINE_TOO_SHORT|refused: DISPATCH_ID_REUSED|refused: DRAINING|refused: PRIOR_CONTEXT_MISSING
refused: STORE_UNAVAILABLE|refused: TOO_MANY_DISPATCHES|refused: TURN_ENDED|refused: TURN_ID_REUSED
refused: UNKNOWN_CALL|refused: UNKNOWN_CHILD|refused: UNKNOWN_DISPATCH|sidecar drains
idle turn ended: lifetime|idle turn ended: room
store commits and says it did not|store full|store hangs and does not keep|store hangs and keeps|store refuses
store slow|store slow to read
sub-agent: cancelled and went on|sub-agent: cancelled and went on with a tool call|sub-agent: cancels_itself
sub-agent: fatal|sub-agent: finish_without_data|sub-agent: flood|sub-agent: hang|sub-agent: ignore_cancel
sub-agent: inline_json|sub-agent: lying_component|sub-agent: no_end|sub-agent: no_event|sub-agent: oversize
sub-agent: recursion|sub-agent: system_exit|sub-agent: transient|sub-agent: unreachable|sub-agent: value_error
wall clock jumps
""".strip()
    .replace("\n", "|")
    .split("|")
)
_OF_OTHER_SUITES: Final = ("data: ", "store hangs", "sub-agent: cancelled and went on")
_FAULTS_ON_THE_WIRE: Final = tuple(fault for fault in _FAULTS if not fault.startswith(_OF_OTHER_SUITES))
_FAULTS_OF_LANES: Final = (*_FAULTS_ON_THE_WIRE, "lane cut", "lane drained", "lane opened", "operation over a lane")
_FAULTS_ON_RECORD: Final = tuple(
    """
a cancel was acknowledged|client: cancels a call
client: binds again|client: closes a child|client: goes elsewhere|client: lost|client: repeats|client: resumes
client told: LOST|client told: RECORD_CONFLICT|client told: RUNS_ELSEWHERE|client told: STORE_UNAVAILABLE
client told: SURFACE_TOKEN_EXPIRED|data: wrong principal|sidecar paused|sidecar starts again|sidecar: cut after
sidecar: cut before|sidecar: kill|store commits and says it did not|store full|store hangs and does not keep
store hangs and keeps|store refuses|store slow|store slow to read|sub-agent: hang|sub-agent: transient|wall clock jumps
sidecar: stop|turn left open by a stop|taken over from a dead sidecar|taken over from a paused sidecar
taken over to be closed
""".strip()
    .replace("\n", "|")
    .split("|")
)
_FAULTS_AROUND_QUESTIONS: Final = tuple(
    """
client: answers|client: goes elsewhere|client: lost|client: repeats|client told: LOST|definitions rolled back
question answered|sidecar paused|sidecar: cut after|sidecar: cut before|sidecar: kill|store slow|sub-agent: asks back
taken over from a dead sidecar|told: NEEDS_APPROVAL|told: RECEIPT_DEFINITION_CHANGED|told: RECEIPT_EXPIRED
told: RECEIPT_OTHER_ANSWERER|told: RECEIPT_OTHER_EPISODE|told: RECEIPT_OTHER_PRINCIPAL|told: RECEIPT_OTHER_SUB_AGENT
told: RECEIPT_USED|wall clock jumps
""".strip()
    .replace("\n", "|")
    .split("|")
)
_FAULTS_OF_ROLLOUTS: Final = tuple(
    """
asked again|asked: acknowledge|asked: activate|asked: kill|asked: override|asked: promote|asked: ramp_down
asked: retire_flags|asked: roll_back|asked: set_ramp|asked: to_test|audit sinks away|configuration changes
disk of tombstones away|edited by hand|flag flips off|flag flips on|flag switched and not said|flag writer away
flag writer hangs|flags away|flags hangs|flags late|gate: another commit|gate: another definition|gate: another gate
gate: another start|gate: another step|gate: exits|gate: expired|gate: fail|gate: inconclusive|gate: late
gate: nonsense|gate: other rules|gate: pass|gate: pending|gate: raises|gate: without expiry|gates away|gates hangs
policy broken|request id used again|sidecar starts again|sidecar: kill|sidecar: pause
sink takes and says it did not|store away|store commits and says it did not|store hangs|store refuses|store slow
told: GATE_FAILED|told: GATE_HELD|told: POLICY_DENIED|told: REQUEST_ID_REUSED|told: REVISION_CONFLICT
told: ROLE_REQUIRED|told: STORE_UNAVAILABLE|told: TRANSITION_REFUSED|told: UNKNOWN_DEFINITION|told: done|told: nothing
wall clock jumps|asked: begin|asked: configure|asked: decide|asked: take|asked: undo|done: begin|done: configure cohort
done: configure experiment|done: configure full|done: decide|done: take 1|done: take 2|done: take 3|done: take 4
done: take 5|done: undo|done: rolled back to another|done: rolled back to nobody
refused: the configuration needs it|refused: turns are pinned
""".strip()
    .replace("\n", "|")
    .split("|")
)
FAULTS_OF: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(SUITES, _FAULTS),
        "rpc": _FAULTS_ON_THE_WIRE,
        "lane": _FAULTS_OF_LANES,
        RECORD: _FAULTS_ON_RECORD,
        QUESTIONS: _FAULTS_AROUND_QUESTIONS,
        ROLLOUT: _FAULTS_OF_ROLLOUTS,
    }
)
"""Every kind of fault by suite; each has to occur."""
SCHEDULES: Final[Mapping[str, int]] = MappingProxyType(
    {"turns": 120, "faults": 120, "gateway": 120, "rpc": 60, "lane": 50, RECORD: 150, QUESTIONS: 120, ROLLOUT: 120}
)
"""How many of each suite are always played, from seed 0, beside those that find the planted defects and those in
`RARE`. `make torture` plays 10,000 of each."""
RARE: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "turns": (313, 364),
        "faults": (144, 156, 161, 265),
        "gateway": (304, 456, 565, 576),
        ROLLOUT: (129, 141, 145, 154, 158, 162, 178, 223, 230, 242, 247, 254, 267, 288, 308, 315, 320, 369, 393),
    }
)
"""Seeds in which faults occur that the others have less often than `LEAST`: `python -m tests.simulation.rare` finds
them again."""
LEAST: Final = 2
LEAST_OF: Final[Mapping[str, int]] = MappingProxyType(
    {"taken over from a dead sidecar": 10, "taken over from a paused sidecar": 3}
)
"""How often each fault occurs at least; where nothing is said, `LEAST`."""


def missing(suite: str, counted: Mapping[str, int]) -> Mapping[str, int]:
    """Return the faults of a suite that have occurred too seldom, and how often each is missing."""
    least = {fault: LEAST_OF.get(fault, LEAST) for fault in FAULTS_OF[suite]}
    return {fault: often - counted[fault] for fault, often in least.items() if counted[fault] < often}
