"""The usage of a child and its descendants, and its running delegations.

Each use counts at the same moment for the child and for every child above it, whose delegation it is part of. Two
concurrent children therefore cannot both spend the rest of a budget. Source: DESIGN section 5.
"""

from collections.abc import Callable, Mapping, Sequence

from sidecar.core.dispatching.outcomes import Usage
from sidecar.core.executing.contract import Budgets
from sidecar.core.identifiers import ChildId
from sidecar.operations.first_result import FirstResult
from subagents_errors import CallFailure


class Delegation:
    """A running delegation: `stop` settles when it is stopped, `over` when its child is closed."""

    __slots__ = ("over", "stop")

    def __init__(self) -> None:
        """Begin with both unsettled."""
        # Two results, because a stopped child still takes time until its end is recorded.
        self.stop: FirstResult[CallFailure] = FirstResult()
        self.over: FirstResult[None] = FirstResult()

    def cancel(self, reason: CallFailure) -> None:
        """Stop the delegation, unless it is stopped already."""
        self.stop.settle(reason)

    def end(self) -> None:
        """Note that the delegation has ended."""
        self.over.settle(None)


class BudgetLedger:
    """The ledger of one child.

    Attributes:
        tokens, tool_calls: used by the child and its descendants, over all attempts.
        usage_below: tokens of its descendants.
        made: number of delegations, over all attempts.
        running: delegations by the delegated child, in the order in which they began.
    """

    __slots__ = ("_above", "_budgets", "_running", "made", "running", "tokens", "tool_calls", "usage_below")

    def __init__(self, budgets: Budgets, above: "BudgetLedger | None" = None) -> None:
        """Begin with nothing used; `above` is the ledger of the delegating child."""
        self._budgets = budgets
        self._above = above
        self.tokens = self.tool_calls = self.made = 0
        self.usage_below = Usage()
        self._running: dict[ChildId, Delegation] = {}
        self.running: Mapping[ChildId, Delegation] = self._running

    def delegate(self, child_id: ChildId, delegation: Delegation) -> None:
        """Note that a delegation of this child begins; `child_id` is the delegated child."""
        self.made += 1
        self._running[child_id] = delegation

    def delegated(self, child_id: ChildId) -> None:
        """Note that a delegation has ended."""
        # `made` is not lowered: it limits the number of children of one child, which are stored however they ended.
        self._running.pop(child_id, None)

    def use_tokens(self, more: int) -> None:
        """Count tokens."""
        self.tokens += more
        # The whole chain in one call, without an await: two children that report at the same time cannot both pass a
        # budget above them.
        if self._above is not None:
            self._above.use_tokens(more)

    def use_tool_call(self) -> None:
        """Count a call through the gateway."""
        self.tool_calls += 1
        if self._above is not None:
            self._above.use_tool_call()

    def add_below(self, usage: Usage) -> None:
        """Add the usage of an ended delegation and its descendants.

        Budgets have counted it already, as it was reported.
        """
        self.usage_below += usage

    @property
    def tokens_left(self) -> int | None:
        """The smallest rest of this ledger and those above it, below 0 if exceeded; None: no limit."""
        own = None if self._budgets.tokens is None else self._budgets.tokens - self.tokens
        return _smaller(own, None if self._above is None else self._above.tokens_left)

    @property
    def tool_calls_left(self) -> int | None:
        """The smallest rest of this ledger and those above it; None: no limit."""
        own = None if self._budgets.tool_calls is None else self._budgets.tool_calls - self.tool_calls
        return _smaller(own, None if self._above is None else self._above.tool_calls_left)

    def end_delegations(self, reason: CallFailure, then: Callable[[], object]) -> None:
        """Stop every running delegation; call `then` once all have ended, or their time to be recorded is over."""
        # A copy: a delegation that ends removes itself from `running`.
        running = list(self.running.values())
        for delegation in running:  # stop all before waiting for any, so that they end concurrently
            delegation.cancel(reason)
        _call_when_ended(running, then)


def _call_when_ended(delegations: Sequence[Delegation], then: Callable[[], object]) -> None:
    """Call `then` once all delegations have ended; at once if they have."""
    for each in delegations:
        if not each.over.settled:
            # One callback at a time, on the first delegation that still runs. Each settled one is passed over next
            # time, so `then` is called once.
            each.over.on_settled(lambda _: _call_when_ended(delegations, then))
            return
    then()


def _smaller(one: int | None, other: int | None) -> int | None:
    """Return the smaller limit; None means that there is no limit."""
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)
