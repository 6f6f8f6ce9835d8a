"""One turn to which facts are appended one after another, and short ways to make them."""

from typing import Any

from sidecar.core.identifiers import DispatchId
from sidecar.core.journal import rules
from sidecar.core.journal.entries import Fact
from sidecar.core.journal.facts import (
    Body,
    CallsSettled,
    ChildNoted,
    ChildrenOpened,
    DispatchOpened,
    TurnEnded,
)
from sidecar.core.journal.heads import TurnHead, links_of
from sidecar.core.journal.marks import What
from sidecar.core.journal.refusals import Reason
from sidecar.core.journal.texts import Texts
from tests.support.journal_drafts import (
    a_draft,
    a_request,
    a_settlement,
    a_start,
    an_end,
    an_opening,
    progress,
    salted_fact,
    some_claims,
)

D1, D2 = DispatchId("dispatch-1"), DispatchId("dispatch-2")


class Turn:
    """Appends to one turn; remembers the verdict."""

    def __init__(self) -> None:
        """Begin with a dispatch of three calls by `one`; the first two have children, and start."""
        self.head = TurnHead()
        self.count = 0
        self.verdict: Any = None
        self.facts: list[Fact] = []
        body, texts = an_opening(a_request(D1, ("shop", "rewards", "shop")), some_claims(), places=(0, 1))
        self.takes(body, texts)

    def takes(self, body: Body, texts: Texts | None = None, by: str = "one", links: Any = None) -> None:
        """Append a fact that has to be accepted."""
        self.tries(body, texts, by, links)
        assert isinstance(self.verdict, rules.Accepted), self.verdict.text
        self.head = self.verdict.head

    def tries(self, body: Body, texts: Texts | None = None, by: str = "one", links: Any = None) -> None:
        """Append a fact, whatever becomes of it."""
        self.count += 1
        draft = a_draft("turn-1", by, self.count, body, texts or Texts())
        follows = links_of(self.head, body) if links is None else links
        fact = salted_fact(draft, self.count.to_bytes(16, "big"), follows)
        self.verdict = rules.decide(self.head, [fact], ())
        self.facts.append(fact)

    def refuses(self, body: Body, reason: Reason, links: Any = None) -> None:
        """Append a fact that has to be refused."""
        self.tries(body, links=links)
        assert self.verdict.reason is reason

    def waits(self, step: int) -> None:
        """Settle the call of a child."""
        self.takes(settled(step))


def settled(step: int, *, revision: int = 0, dispatch: DispatchId = D1) -> CallsSettled:
    """Return that the call of a child settles."""
    told = (progress(step, What.WAITING, attempts=1),)
    return CallsSettled(dispatch, (a_settlement(step, revision=revision),), told)


def opened(dispatch: DispatchId, first: int, places: tuple[int, ...] = (), **fields: Any) -> DispatchOpened:
    """Return that a dispatch of two calls opens."""
    return an_opening(a_request(dispatch, ("shop",) * 2), fields.get("claims"), first, places)[0]


def later(step: int, dispatch: DispatchId = D1, parent: int | None = None, name: str = "new") -> ChildrenOpened:
    """Return that a child opens later, for a call or for a child that delegates."""
    told = () if parent is None else (progress(parent, What.DELEGATED),)
    return ChildrenOpened(dispatch, (a_start(name, "shop", step, parent)[0],), told)


def ended(*steps: int) -> TurnEnded:
    """Return that the turn ends, and running children at `steps` with it."""
    return an_end(None, (What.FAILED, What.CLOSED), steps)[0]


def noted(step: int = 0, *whats: What, dispatch: DispatchId = D1, attempts: int = 0) -> ChildNoted:
    """Return that something is noted of a child."""
    return ChildNoted(dispatch, (progress(step, *(whats or (What.TOOL_REFUSED,)), attempts=attempts),))


CHILD_0, CHILD_1 = "dispatch-1-child-0", "dispatch-1-child-1"
