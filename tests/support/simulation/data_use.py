"""What a sub-agent must have been answered by the gateway, and what that means for its outcome."""

import json
from dataclasses import dataclass, field

from tests.support.simulation.cards import DATA_TOOLS
from tests.support.simulation.connector import GOOD, WRONG, good_note
from tests.support.simulation.facts import INSTANT, CallFacts
from tests.support.simulation.runner import RunSeen, ToolSeen

ECHOES_NONCE = "offers"


@dataclass(slots=True)
class DataFacts:
    """What a call's tool calls come to."""

    calls: int = 0
    released: int = 0
    incident: bool = False
    barred: list[str] = field(default_factory=list)
    out_of_budget: bool = False
    perhaps_barred: list[str] = field(default_factory=list)

    @property
    def degrades(self) -> bool:
        """No data call succeeded, or one was withheld for its principal."""
        return self.incident or (self.calls > 0 and self.released == 0)


def is_good(tool: ToolSeen) -> bool:
    """Say whether the service's answer must get past the gateway."""
    return tool.reply in GOOD or (tool.reply == "other nonce" and tool.tool_id != ECHOES_NONCE)


def is_incident(tool: ToolSeen) -> bool:
    """Say whether the service's answer is somebody else's."""
    return tool.reply in WRONG and not is_good(tool)


def expected_answers(call: CallFacts) -> tuple[DataFacts, list[tuple[RunSeen, ToolSeen, tuple[str, ...]]]]:
    """Return what the tool calls come to, and for each the answers that are right."""
    limits = call.spec.card.definition.limits if call.spec.card else None
    budget = limits.tool_calls if limits else None
    facts, expected = DataFacts(), []
    pairs = [(run, tool) for run in call.runs for tool in run.tools]
    for run, tool in sorted(pairs, key=lambda pair: pair[1].began_at):
        expected.append((run, tool, _expected(call, run, tool, facts, budget)))
    return facts, expected


def _expected(call: CallFacts, run: RunSeen, tool: ToolSeen, facts: DataFacts, budget: int | None) -> tuple[str, ...]:
    if tool.began_at > run.over_at + INSTANT:
        return ("GRANT_SPENT",)
    if tool.tool_id not in DATA_TOOLS:
        return ("TOOL_NOT_ALLOWED", "GRANT_SPENT")
    if budget is not None and facts.calls >= budget:
        facts.out_of_budget = True
        return ("TOOL_BUDGET_EXHAUSTED", "GRANT_SPENT")
    facts.calls += 1
    barred, perhaps = tool.tool_id in facts.barred, tool.tool_id in facts.perhaps_barred
    if barred or (perhaps and not tool.asked):  # its service answered for somebody else before
        told = ("unavailable", "GRANT_SPENT") if tool.began_at >= run.over_at - INSTANT else ("unavailable",)
        return told if not tool.asked else ("not to be asked again",)
    return _answered(call, run, tool, facts)


def _answered(call: CallFacts, run: RunSeen, tool: ToolSeen, facts: DataFacts) -> tuple[str, ...]:
    """Return what a sub-agent must have got for a request that was let through."""
    ended = tool.began_at + tool.takes
    if tool.ended_at is None:
        return ("",)
    facts.incident |= is_incident(tool) and (call.decided_at is None or ended <= call.decided_at + INSTANT)
    if is_incident(tool):
        # Told "unavailable", it was judged; refused for its grant, it may have been, after its attempt was over.
        (facts.barred if tool.answer == "unavailable" else facts.perhaps_barred).append(tool.tool_id)
    if ended > run.over_at + INSTANT:
        return ("GRANT_SPENT",)
    good = is_good(tool)
    facts.released += good
    answer = json.dumps({"note": good_note(call.turn.principal)}) if good else "unavailable"
    return (answer, "GRANT_SPENT") if abs(ended - run.over_at) <= INSTANT else (answer,)
