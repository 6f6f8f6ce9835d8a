"""What the contracts of one tool share is made once: each contract, and its text, is as if it were made alone."""

from datetime import timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.binding.surface import SurfaceTool
from sidecar.core.definitions.cards.card import Card, Limits
from sidecar.core.executing.contract import (
    DEFAULT_OUTPUTS,
    GOAL_SUMMARY_LIMIT,
    Budgets,
    Contract,
    Execution,
    Parent,
    Permissions,
    TurnText,
    WorkflowStep,
    contract_template,
)
from sidecar.core.identifiers import ToolId, TurnId
from tests.support.builders import a_card, a_surface
from tests.support.requirement import requirement

PITFALLS = (
    '"description":',
    '"time_left_ms":null',
    '"description":""',
    '{"parent":',
    "\\",
    '"',
    "\0",
    "é\u2028",
    "null}",
)
"""What stands around the parts that are a call's own."""
WORDS = st.lists(st.sampled_from(PITFALLS) | st.text(max_size=8), max_size=4).map("".join)
COUNTS = st.none() | st.integers(1, 10**6)
TIMES = st.timedeltas(timedelta(microseconds=1), timedelta(days=2))
LIMITS = st.builds(
    Limits,
    attempt_timeout=TIMES,
    max_retries=st.integers(0, 3),
    idle_timeout=st.none() | TIMES,
    wall_clock=st.none() | TIMES,
    tool_calls=COUNTS,
    tokens=COUNTS,
    close_on_completion=st.booleans(),
    max_delegation_depth=st.integers(0, 3),
)
CARDS = st.builds(
    a_card,
    st.sampled_from(["shop", "rewards"]),
    limits=LIMITS,
    tools=st.lists(st.sampled_from(["x", '"y":']), unique=True).map(lambda names: tuple(map(ToolId, names))),
    ownership=st.lists(WORDS, max_size=2).map(tuple),
    success_criteria=st.lists(WORDS, max_size=2).map(tuple),
)
TEXTS = st.builds(TurnText, WORDS, WORDS)
CALLS = st.tuples(st.integers(0, 1), WORDS.map(TurnId), st.integers(0, 99), TEXTS, WORDS, st.floats(-1, 99))


def made_alone(
    tool: SurfaceTool, turn_id: TurnId, step_idx: int, text: TurnText, request: str, seconds: float
) -> Contract:
    """Return the contract, each field from where it comes from."""
    definition, limits = tool.card.definition, tool.card.definition.limits

    def ms(time: timedelta) -> int:
        return max(1, round(time.total_seconds() * 1000))

    return Contract(
        parent=Parent(
            run_id=turn_id,
            step_idx=step_idx,
            task_prompt=text.task_prompt,
            goal_summary=text.prior_context[:GOAL_SUMMARY_LIMIT],
        ),
        step=WorkflowStep(title=f"ask_{tool.slot}", description=request, success_criteria=definition.success_criteria),
        permissions=Permissions(
            allowed_tools=definition.tools,
            can_spawn_children=limits.max_delegation_depth > 0,
            max_delegation_depth=limits.max_delegation_depth,
        ),
        execution=Execution(
            attempt_timeout_ms=ms(limits.attempt_timeout),
            max_retries=limits.max_retries,
            close_on_completion=limits.close_on_completion,
        ),
        outputs=DEFAULT_OUTPUTS,
        budgets=Budgets(
            wall_clock_ms=None if limits.wall_clock is None else ms(limits.wall_clock),
            tool_calls=limits.tool_calls,
            tokens=limits.tokens,
            idle_timeout_ms=None if limits.idle_timeout is None else ms(limits.idle_timeout),
            time_left_ms=max(0, int(seconds * 1000)),
        ),
        sub_agent_id=tool.slot,
        definition_id=definition.id,
        definition_digest=tool.card.digest,
        definition_commit=tool.card.commit,
        ownership=(f"slot:{tool.slot}", *definition.ownership),
    )


@requirement("SX-3", "SX-5", "SX-6", "SX-12")
@given(st.tuples(CARDS, CARDS), st.lists(CALLS, max_size=6))
def test_each_contract_and_its_text_are_as_if_made_alone(
    cards: tuple[Card, Card], calls: list[tuple[int, TurnId, int, TurnText, str, float]]
) -> None:
    """Calls of two tools by turn, whatever was called before; the text is byte for byte what the contract says."""
    tools = [a_surface(cards=[card]).tools[0] for card in cards]
    for place, turn_id, step_idx, said, request, seconds in calls:
        template = tools[place].made_once(contract_template)
        written = template.filled(turn_id, step_idx, said, request, seconds)

        assert written.contract == (alone := made_alone(tools[place], turn_id, step_idx, said, request, seconds))
        assert written.json == written.contract.to_json() == msgspec.json.encode(alone).decode()


def test_what_calls_share_is_made_at_the_first_one_and_not_again() -> None:
    """The parts that no call has for itself are the same objects; what one call says is in no other."""
    tool = a_surface("shop").tools[0]
    first = tool.made_once(contract_template).filled(TurnId("t1"), 0, TurnText("mine", "mine"), "mine", 1.0).contract
    second = tool.made_once(contract_template).filled(TurnId("t2"), 1, TurnText("", ""), "yours", 2.0)

    assert first.permissions is second.contract.permissions
    assert first.execution is second.contract.execution
    assert "mine" not in second.json
    assert (second.contract.parent.run_id, second.contract.budgets.time_left_ms) == ("t2", 2000)
