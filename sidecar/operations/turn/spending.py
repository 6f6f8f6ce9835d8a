"""Enforces the budgets in money: the cost of a turn, and of one user's turns of one day.

Costs are read from the recorded outcomes, so they survive a restart and are the same at every replica. The cost of a
day is read when a dispatch begins and includes every outcome that any replica has acknowledged by then. It excludes
running children: concurrent dispatches may together exceed the budget by the cost of their running children. If the
lists of turns lag behind the journal, the cost is unknown, and no dispatch begins.
"""

from collections import OrderedDict
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from sidecar.core.dispatching.cost_budget import CostBudgets
from sidecar.core.dispatching.plan import PlannedCall
from sidecar.core.errors import StoreUnavailable
from sidecar.core.executing.stored_record import StoredTurn, TurnQuery, TurnState
from sidecar.core.identifiers import Principal, TurnId
from sidecar.operations.record.timed_access import complete_turns, read_within
from sidecar.operations.rules import DispatchRules
from sidecar.operations.turn.child.dependencies import TurnDependencies
from sidecar.operations.turn.state.open_turns import Turn

USERS_KEPT: Final = 4096
"""The most pairs of a user and a day whose ended turns are cached; the least recently used pair is dropped."""
PAGE: Final = 200
"""The most turns in one read of the record."""


class Spending:
    """Reads costs, and decides whether the next child may start.

    Attributes:
        limits: whether any budget is configured; otherwise nothing is read or refused.
        reads_days: whether a budget for each user and day is configured; only this budget reads the record.
    """

    def __init__(self, rules: DispatchRules, dependencies: TurnDependencies) -> None:
        """Create with an empty cache of the costs of ended turns."""
        self._budgets: CostBudgets = rules.cost
        self.reads_days = self._budgets.principal_and_day is not None
        self.limits = self.reads_days or self._budgets.turn is not None
        self._seconds = rules.record_timeout.total_seconds()
        self._deps = dependencies
        self._ended: OrderedDict[tuple[Principal, date], dict[TurnId, int]] = OrderedDict()

    async def read(self, turn: Turn) -> None:
        """Set on `turn` the cost of its user's other turns of the day. Raises `StoreUnavailable`.

        Costs of ended turns do not change and are cached; open turns are read each time.
        """
        principal, day = turn.claims.principal, turn.claims.bound_at.astimezone(UTC).date()
        # Removed and inserted again, which moves the entry to the end: `popitem` then drops the least recently used
        # one.
        ended = self._ended.pop((principal, day), {})
        self._ended[principal, day] = ended
        if len(self._ended) > USERS_KEPT:
            self._ended.popitem(last=False)
        total, before = 0, None
        midnight = datetime.combine(day, time(), UTC)
        while True:
            query = TurnQuery(
                principal=principal, since=midnight, until=midnight + timedelta(days=1), before=before, limit=PAGE
            )
            rows = await read_within(complete_turns(self._deps.store, query), self._seconds)
            if isinstance(rows, StoreUnavailable):
                raise rows
            for row in rows:
                # The cost of this turn is read from memory (`cost_of_turn`), where it is newer.
                if row.turn_id == turn.turn_id:
                    continue
                # An ended turn is read once: no outcome follows its end.
                if row.turn_id not in ended:
                    cost = await self._cost_on_record(row.turn_id)
                    if row.state is TurnState.OPEN:
                        total += cost
                        continue
                    ended[row.turn_id] = cost
                total += ended[row.turn_id]
            if len(rows) < PAGE:
                break
            before = rows[-1].began_at, rows[-1].turn_id
        # Only after a complete read: a partial sum would allow a call that exceeds the budget.
        turn.note_spent(total)

    def refusal(self, turn: Turn, planned: PlannedCall) -> str:
        """Return the reason why a call's child may not start; an empty text if it may."""
        return self._budgets.refusal(planned.tool.card.model, cost_of_turn(turn), turn.spent_elsewhere)

    async def _cost_on_record(self, turn_id: TurnId) -> int:
        stored = await read_within(self._deps.store.turn(turn_id), self._seconds)
        if isinstance(stored, StoreUnavailable):
            raise stored
        return 0 if stored is None else _cost_of_stored(stored)


def cost_of_turn(turn: Turn) -> int:
    """Return the cost, in units, of a turn's settled calls and of the delegations of its running children."""
    settled = (each.usage for dispatch in turn.dispatches.values() for each in dispatch.calls.outcomes.values())
    # Of a running child, only the cost of its ended delegations is known. A settled call's usage includes them already.
    below = (child.ledger.usage_below for child in turn.children.values() if child.outcome is None)
    return sum(usage.cost for usage in (*settled, *below) if usage is not None and usage.cost is not None)


def _cost_of_stored(stored: StoredTurn) -> int:
    usages = (each.usage for dispatch in stored.dispatches for each in dispatch.outcomes)
    return sum(usage.cost for usage in usages if usage is not None and usage.cost is not None)
