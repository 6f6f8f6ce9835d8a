"""What the facts so far say of one dispatch: its record, its request, and the outcomes of its calls."""

from collections.abc import Iterator

import msgspec

from sidecar.core.dispatching.outcomes import Answer, CallOutcome, Component, Usage
from sidecar.core.executing.records import ChildOpened, DispatchOpened
from sidecar.core.journal.child_events import MICROSECOND
from sidecar.core.journal.facts import Settlement
from sidecar.core.journal.requests import Request
from sidecar.core.journal.texts import OutcomeTexts


class Standing(msgspec.Struct, frozen=True):
    """The outcome of one call that stands, and how it came to it."""

    place: int
    outcome: CallOutcome


class DispatchReading:
    """One dispatch, read fact by fact.

    Attributes:
        opened: its record.
        request: as it was sent, without its token.
    """

    def __init__(self, opened: DispatchOpened, request: Request) -> None:
        """Begin without outcomes."""
        self.opened, self.request = opened, request
        self._outcomes: dict[int, dict[int, CallOutcome]] = {}

    def outcome(self, settled: Settlement, texts: OutcomeTexts, row: ChildOpened | None) -> CallOutcome:
        """Return the outcome that a settlement says.

        Args:
            settled: one of the dispatch's calls.
            texts: of the outcome.
            row: of the call's child; None if it has none.
        """
        call = self.request.calls[settled.place]
        return CallOutcome(
            call_id=call.call_id,
            tool_name=call.tool_name if texts.tool_name is None else texts.tool_name,
            sub_agent_id=settled.slot if row is None else row.slot,
            child_id=None if row is None else row.child_id,
            emission_index=self.opened.first_step + settled.place,
            outcome=settled.outcome,
            reason=settled.reason,
            answer=Answer(
                texts.narration, tuple(Component(*each) for each in texts.components), texts.data_unavailable
            ),
            attempts=settled.attempts,
            duration=None if settled.took is None else settled.took * MICROSECOND,
            usage=None if settled.tokens is None else Usage(*settled.tokens),
            hint=texts.hint,
        )

    def keep(self, settled: Settlement, outcome: CallOutcome) -> None:
        """Take in an outcome."""
        self._outcomes.setdefault(settled.place, {})[settled.revision] = outcome

    def standing(self) -> Iterator[Standing]:
        """Yield the outcome of each settled call, of the revision that stands, by place."""
        for place, revisions in sorted(self._outcomes.items()):
            yield Standing(place, revisions[max(revisions)])
