"""The report of one child, in Markdown, for people.

`child_reports` writes it to a file when a child settles, if the operator wants such files. Nothing reads it back.

Source: SX-9, SX-39, SX-40.
"""

from collections.abc import Iterator, Sequence

import msgspec

from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.executing.contract import Contract
from sidecar.core.executing.events import ChildEvent


class ChildReport(msgspec.Struct, frozen=True):
    """The contents of a report.

    Attributes:
        tool_calls, tokens: used by the child and by the children that it delegated to.
        events: of the child's log, as far as they are on record.
    """

    child_id: str
    contract: Contract
    outcome: CallOutcome
    tool_calls: int
    tokens: int
    events: Sequence[ChildEvent]


def report_text(report: ChildReport) -> str:
    """Return the whole text; what sub-agents and users wrote is quoted, so that it cannot pass for a part of it."""
    return "\n".join(_lines(report))


def _lines(report: ChildReport) -> Iterator[str]:
    contract, outcome = report.contract, report.outcome
    yield f"# Step {contract.parent.step_idx}: {_inline(contract.step.title)} {outcome.outcome}"
    yield from ("", "## Summary", "")
    yield f"- sub-agent: {_inline(contract.sub_agent_id)}, definition {_inline(contract.definition_id)}"
    yield f"- turn: {_inline(contract.parent.run_id)}"
    yield f"- child: {_inline(report.child_id)}"
    if contract.parent_child_id is not None:
        path = " > ".join(each.sub_agent_id for each in contract.ancestors)
        yield f"- delegated by: {_inline(contract.parent_child_id)} ({_inline(path)})"
    yield from ("", "## Request", "", *_quoted(contract.step.description))
    yield from ("", "## Outcome", "")
    yield f"- outcome: {outcome.outcome}"
    if outcome.reason is not None:
        yield f"- reason: {outcome.reason.name}"
    yield f"- data unavailable: {'yes' if outcome.answer.data_unavailable else 'no'}"
    yield from ("", "## Timeline", "")
    yield from (f"- {each.time.isoformat()} {each.actor}: {_inline(each.summary)}" for each in report.events)
    yield from ("", "## Narration", "", *_quoted(outcome.answer.narration))
    yield from ("", "## Components", "")
    yield from ([f"- {_inline(each.name)}" for each in outcome.answer.components] or ["None."])
    yield from ("", "## Budget", "", *_budget(report), "")


def _budget(report: ChildReport) -> Iterator[str]:
    contract, outcome = report.contract, report.outcome
    yield f"- attempts: {outcome.attempts} of {1 + contract.execution.max_retries}"
    if outcome.duration is not None:
        took = round(outcome.duration.total_seconds() * 1000)
        yield f"- time: {took} ms{_of(contract.budgets.wall_clock_ms, ' ms')}"
    yield f"- tool calls: {report.tool_calls}{_of(contract.budgets.tool_calls)}"
    yield f"- tokens: {report.tokens}{_of(contract.budgets.tokens)}"


def _of(limit: int | None, unit: str = "") -> str:
    return ", no limit" if limit is None else f" of {limit}{unit}"


def _quoted(text: str) -> Iterator[str]:
    # Every line is marked, also an empty one: without the mark, the rest of the text would be outside the quote.
    yield from ([f"> {_visible(line)}".rstrip() for line in text.splitlines()] or ["> (nothing)"])


def _inline(text: str) -> str:
    """Return text of others as a code span, on one line."""
    # A backtick would end the code span, and the rest of the text would be read as Markdown of the report.
    return f"`{_visible(text).replace('`', chr(39))}`"


def _visible(text: str) -> str:
    # Line breaks would end the quote, and control characters could hide text in the terminal of an operator.
    return "".join(each if each.isprintable() else " " for each in text)
