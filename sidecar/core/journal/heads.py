"""Heads: the state of a turn after its facts, with everything that the rules need to decide about the next fact.

A head is immutable. It is derived from the bodies of facts and not from their texts, so an erasure of texts does not
change it. A sidecar keeps the heads of the turns to which it appends in memory. A database compares only the versions.
"""

from collections.abc import Mapping

import msgspec

from sidecar.core.executing.states import ExecutionState
from sidecar.core.identifiers import ChildId, DispatchId, InstanceId
from sidecar.core.journal.chain import NOTHING
from sidecar.core.journal.facts import Body, CallsSettled, Progress, TurnEnded


class ChildHead(msgspec.Struct, frozen=True, array_like=True):
    """The state of a child after its facts.

    Attributes:
        attempts: the number of the newest recorded attempt.
        delegated: whether another child delegated to this one.
        link: the link of the newest fact that concerns the child.
    """

    child_id: ChildId
    dispatch_id: DispatchId
    state: ExecutionState
    attempts: int
    delegated: bool
    link: bytes

    @property
    def is_open(self) -> bool:
        """Return whether it must still be closed."""
        return self.state is not ExecutionState.CLOSED


class DispatchHead(msgspec.Struct, frozen=True, array_like=True):
    """The state of a dispatch. Sets of places are integers: bit `n` represents place `n`.

    Attributes:
        owner, epoch: the sidecar that may append to it, and the number of ownership changes.
        first_step, calls: the dispatch owns `calls` steps, beginning with `first_step`.
        settled: places with an outcome, by revision.
        cancelled: places of cancelled calls.
        link: link of the fact that gave the dispatch to its owner: `DispatchOpened` or `DispatchTaken`.
    """

    owner: InstanceId
    epoch: int
    first_step: int
    calls: int
    link: bytes
    # One set of places for each revision of an outcome.
    settled: tuple[int, ...] = (0, 0)
    cancelled: int = 0

    @property
    def unsettled(self) -> int:
        """Calls without an outcome of any revision."""
        return self.calls - (self.settled[0] | self.settled[1]).bit_count()

    def place_of(self, step: int) -> int | None:
        """Return the place of the call with an emission index; None if it is not one of its calls."""
        return step - self.first_step if 0 <= step - self.first_step < self.calls else None


class TurnHead(msgspec.Struct, frozen=True, array_like=True):
    """The state of a turn after its facts.

    Attributes:
        version: number of accepted facts.
        chain: running hash over the links of all facts; empty before the first.
        bound: the claims are recorded.
        steps: used or reserved emission indexes, as a set of bits.
        children: by step.
        asked: steps of children whose question can be answered, as a set of bits.
        answered: steps of children whose question was answered, as a set of bits.
        scored: ids of its scores.
    """

    version: int = 0
    chain: bytes = NOTHING
    bound: bool = False
    ended: bool = False
    steps: int = 0
    dispatches: dict[DispatchId, DispatchHead] = msgspec.field(default_factory=dict)
    children: dict[int, ChildHead] = msgspec.field(default_factory=dict)
    asked: int = 0
    answered: int = 0
    scored: tuple[str, ...] = ()

    @property
    def next_step(self) -> int:
        """The first emission index above all recorded ones."""
        return self.steps.bit_length()

    @property
    def open_children(self) -> Mapping[int, ChildHead]:
        """Children that must still be closed, by step."""
        return {step: child for step, child in self.children.items() if child.is_open}

    @property
    def unsettled(self) -> tuple[DispatchId, ...]:
        """Dispatches with calls that have no outcome."""
        return tuple(each for each, dispatch in self.dispatches.items() if dispatch.unsettled)


def progress_of(body: Body) -> tuple[Progress, ...]:
    """Return the progress of existing children in a fact."""
    progress: tuple[Progress, ...] = getattr(body, "progress", ())
    return progress


def named_steps(head: TurnHead, body: CallsSettled) -> list[int]:
    """Return the steps of children that a fact concerns without having events of them: their calls settle."""
    named: list[int] = []
    # The rule that refuses the fact names the reason; here, an unknown dispatch has no children to link to.
    if body.dispatch_id not in head.dispatches:
        return named
    first, seen = head.dispatches[body.dispatch_id].first_step, set[int]()
    for told in body.progress:
        # A child whose events are in the fact is linked by them; only the other calls need a link of their own.
        seen.add(told.step)
    for each in body.calls:
        step = first + each.place
        if each.ran and step not in seen:
            # Two revisions of one call may be in one fact; the child needs one link.
            seen.add(step)
            named.append(step)
    return named


def links_of(head: TurnHead, body: Body) -> tuple[bytes, ...]:
    """Return the links of a fact's predecessors. Unknown children and dispatches have no link."""
    # The order of the links is part of the link. `refuse_outdated` relies on the children with progress coming last.
    steps = named_steps(head, body) if isinstance(body, CallsSettled) else []
    progress: tuple[Progress, ...] = getattr(body, "progress", ())
    for each in progress:
        steps.append(each.step)
    # The end of a turn links to the chain over all facts, so that no other fact can be recorded between the read of the
    # turn and its end.
    links = [head.chain] if isinstance(body, TurnEnded) else []
    for step in steps:
        child = head.children.get(step)
        # An unknown child gives no link instead of an error: the rules refuse the fact, and with a better reason.
        if child is not None:
            links.append(child.link)
    # A fact without children, e.g. a cancellation, links to the fact that made its sidecar the owner. After a takeover
    # it no longer fits.
    if not links and not isinstance(body, TurnEnded) and body.dispatch_id in head.dispatches:
        links.append(head.dispatches[body.dispatch_id].link)
    return tuple(links)
