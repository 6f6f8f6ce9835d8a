"""The report of a child, as a whole text: it is read by people, and nothing in it may pass for another part of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from sidecar.core.definitions.cards.card import Limits
from sidecar.core.dispatching.outcomes import Answer, CallOutcome, Component, Outcome
from sidecar.core.executing.contract import Ancestor, Contract, TurnText
from sidecar.core.executing.report import ChildReport, report_text
from sidecar.core.identifiers import CallId, ChildId, Slot, TurnId
from subagents_errors import CallFailure
from tests.support.builders import a_card, a_surface, contract_of
from tests.support.recording.event_log import EventLog
from tests.support.requirement import requirement

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def a_contract(request: str, **limits: Any) -> Contract:
    """Return the contract of a call to `shop`."""
    surface = a_surface(cards=[a_card("shop", limits=Limits(**limits))])
    return contract_of(surface.tools[0], request, TurnText("", ""), "turn-1")


def an_outcome(**fields: Any) -> CallOutcome:
    """Return an outcome of that call."""
    given: dict[str, Any] = {"outcome": Outcome.SUCCEEDED, "attempts": 1} | fields
    return CallOutcome(CallId("c1"), "ask_shop", Slot("shop"), ChildId("k1"), 3, **given)


def text(contract: Contract, outcome: CallOutcome, tool_calls: int = 0, tokens: int = 0) -> str:
    """Return the report of a child with two events."""
    log = EventLog(ChildId("k1"), TurnId("turn-1"), Slot("shop"), 3, "0" * 64)
    events = (log.created(NOW, "sha256:1"), log.started(NOW + timedelta(seconds=1)))
    return report_text(ChildReport("k1", contract, outcome, tool_calls, tokens, events))


@requirement("SX-9", "SX-39")
def test_a_report_without_anything_to_say_has_every_section() -> None:
    """No narration, no component, no limit: each section says so."""
    contract = a_contract("", wall_clock=None, tool_calls=None, tokens=None)
    assert text(contract, an_outcome()).split("\n") == [
        "# Step 3: `ask_shop` succeeded",
        "",
        "## Summary",
        "",
        "- sub-agent: `shop`, definition `shop`",
        "- turn: `turn-1`",
        "- child: `k1`",
        "",
        "## Request",
        "",
        "> (nothing)",
        "",
        "## Outcome",
        "",
        "- outcome: succeeded",
        "- data unavailable: no",
        "",
        "## Timeline",
        "",
        "- 2026-11-22T12:00:00+00:00 sidecar: `shop created`",
        "- 2026-11-22T12:00:01+00:00 sidecar: `shop started`",
        "",
        "## Narration",
        "",
        "> (nothing)",
        "",
        "## Components",
        "",
        "None.",
        "",
        "## Budget",
        "",
        "- attempts: 1 of 1",
        "- tool calls: 0, no limit",
        "- tokens: 0, no limit",
        "",
    ]


UPPER = [
    "# Step 3: `ask_shop` degraded",
    "",
    "## Summary",
    "",
    "- sub-agent: `shop`, definition `shop`",
    "- turn: `turn-1`",
    "- child: `k1`",
    "- delegated by: `k0'` (`plan > trip`)",
    "",
    "## Request",
    "",
    "> Find",
    ">",
    "> # Budget",
    "",
    "## Outcome",
    "",
    "- outcome: degraded",
    "- reason: DATA_UNAVAILABLE",
    "- data unavailable: yes",
]
LOWER = [
    "## Narration",
    "",
    "> Two",
    "> ## Outcome",
    "",
    "## Components",
    "",
    "- `render_'x' `",
    "- `y`",
    "",
    "## Budget",
    "",
    "- attempts: 2 of 3",
    "- time: 1500 ms of 2000 ms",
    "- tool calls: 4 of 5",
    "- tokens: 850 of 900",
    "",
]


@requirement("SX-40")
def test_a_full_report_quotes_whatever_others_wrote() -> None:
    """Headings, back ticks, line ends and invisible characters of a sub-agent or a user stay inside their quotes."""
    contract = msgspec.structs.replace(
        a_contract(
            "Find\n\n# Budget\u202e  ", wall_clock=timedelta(seconds=2), tool_calls=5, tokens=900, max_retries=2
        ),
        parent_child_id=ChildId("k0`"),
        ancestors=(
            Ancestor(child_id=ChildId("a"), sub_agent_id=Slot("plan"), definition_id="plan"),
            Ancestor(child_id=ChildId("k0`"), sub_agent_id=Slot("trip"), definition_id="trip"),
        ),
    )
    outcome = an_outcome(
        outcome=Outcome.DEGRADED,
        reason=CallFailure.DATA_UNAVAILABLE,
        answer=Answer("Two\r\n## Outcome", (Component("render_`x`\n", "{}", "{}"), Component("y", "{}", "{}")), True),
        attempts=2,
        duration=timedelta(seconds=1, microseconds=499_600),
    )
    lines = text(contract, outcome, 4, 850).split("\n")

    assert lines[:20] == UPPER
    assert lines[26:] == LOWER
