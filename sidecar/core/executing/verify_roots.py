"""Verifies the running roots, and each child against the root that it was closed under."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from sidecar.core.executing.chain import NOTHING, closed_root
from sidecar.core.executing.findings import Finding, FindingKind
from sidecar.core.executing.stored_record import ClosedChild, ClosedState, RetentionMarker, StoredChild
from sidecar.core.executing.verify_child import closing_event
from sidecar.core.identifiers import ChildId, InstanceId


class RootWalk:
    """Goes through the links of one instance's running root, by number.

    Args:
        instance: whose.
        marker: the newest retention marker: the walk begins behind it.
        state: where the record says that the root stands; None if it does not.
        claims: roots that signed checkpoints state, by number.
    """

    def __init__(
        self,
        instance: InstanceId,
        marker: RetentionMarker | None,
        state: ClosedState | None,
        claims: Mapping[int, str],
    ) -> None:
        self._instance = instance
        self.first = self.number = marker.number if marker else 0
        self._root = marker.root if marker else NOTHING
        self._state = state
        self._claims = claims
        self._contradicted = False

    def begin(self) -> Iterator[Finding]:
        """Yield what is wrong with where the walk begins."""
        yield from self._against_claims(by="the retention marker")

    def take(self, link: ClosedChild) -> Iterator[Finding]:
        """Yield what is wrong with the next link."""
        if link.number != self.number + 1:
            which = (
                f"{self.number + 1}" if link.number <= self.number + 2 else f"{self.number + 1} to {link.number - 1}"
            )
            text = f"number {which} {self._of_root} missing, and no retention marker covers it"
            yield self._finding(FindingKind.ROOT_MISSING, text, self.number + 1)
        elif closed_root(self._root, link.child_id, link.last_link) != link.root:
            text = (
                f"number {link.number} {self._of_root} was altered: "
                f"the root before it, child {link.child_id} and its last link do not give it"
            )
            yield Finding(FindingKind.ROOT_ALTERED, text, self._instance, link.child_id, link.number)
        self.number, self._root = link.number, link.root
        yield from self._against_claims(by="the record")

    def end(self) -> Iterator[Finding]:
        """Yield what is missing at the end."""
        beyond = max((number for number in self._claims if number > self.number), default=0)
        if beyond:
            text = f"the end {self._of_root} was cut off: it ends at {self.number}, a checkpoint has {beyond}"
            yield self._finding(FindingKind.ROOT_CUT, text, self.number + 1)
        if self._state is not None and self._state.number > self.number:
            stands = self._state.number
            text = f"the end {self._of_root} was cut off: it ends at {self.number}, and stands at {stands}"
            yield self._finding(FindingKind.ROOT_CUT, text, self.number + 1)

    @property
    def unsigned(self) -> int:
        """How many links come after the newest checkpoint."""
        return self.number - max((number for number in self._claims if number <= self.number), default=self.first)

    @property
    def _of_root(self) -> str:
        return f"of the running root of instance {self._instance}"

    def _against_claims(self, by: str) -> Iterator[Finding]:
        """Yield the first contradiction; every later one follows from it."""
        if self._contradicted:
            return
        state = self._state
        if self._claims.get(self.number, self._root) != self._root:
            text = f"number {self.number} {self._of_root}: {by} and a signed checkpoint differ"
            yield self._finding(FindingKind.ROOT_CONTRADICTED, text, self.number)
            self._contradicted = True
        elif state is not None and state.number == self.number and state.root != self._root:
            text = f"number {self.number} {self._of_root} is not the root that the record says it stands at"
            yield self._finding(FindingKind.ROOT_ALTERED, text, self.number)
            self._contradicted = True

    def _finding(self, kind: FindingKind, text: str, number: int) -> Finding:
        return Finding(kind, text, self._instance, sequence=number)


class ClosedChildren:
    """What the running roots say of children, and which of them have been looked at.

    Holds one entry for each closed child: some 400 bytes.

    Attributes:
        open: children seen without a closing event that no running root names.
        late: closed children that no running root named when it was read, and their last link: closed since, or
            forged; whoever asks reads the roots again.
    """

    def __init__(self) -> None:
        self._of: dict[ChildId, ClosedChild] = {}
        self._seen: dict[ChildId, None] = {}
        self.open = 0
        self.late: dict[ChildId, str] = {}

    def take(self, link: ClosedChild) -> Iterator[Finding]:
        """Take in a link of a running root; yield a finding if its child was closed before."""
        other = self._of.setdefault(link.child_id, link)
        if other is not link:
            text = (
                f"child {link.child_id} is closed twice: as number {other.number} of instance {other.instance}, "
                f"and as number {link.number} of instance {link.instance}"
            )
            yield Finding(FindingKind.ROOT_ALTERED, text, link.instance, link.child_id, link.number)

    def check(self, child: StoredChild, kept_before: datetime | None) -> Iterator[Finding]:
        """Yield what is wrong with how a child ends.

        Args:
            child: as stored.
            kept_before: what was closed before then may have lost its link of the running root to retention.
        """
        child_id, closing = child.opened.child_id, closing_event(child)
        link = self._of.get(child_id)
        self._seen[child_id] = None
        if link is None and closing is None:
            self.open += 1
        elif link is None and closing is not None:
            if kept_before is None or closing.time >= kept_before:
                self.late[child_id] = closing.link
        elif link is not None and closing is None:
            last = child.events[-1].sequence if child.events else 0
            text = (
                f"the tail of child {child_id} was cut off after event {last}: "
                f"it was closed as number {link.number} of instance {link.instance}"
            )
            yield Finding(FindingKind.TAIL_CUT, text, link.instance, child_id, last + 1)
        elif link is not None and closing is not None and closing.link != link.last_link:
            text = f"child {child_id} was written anew: instance {link.instance} closed it with another last link"
            yield Finding(FindingKind.CHILD_REWRITTEN, text, link.instance, child_id, closing.sequence)

    def not_there(self, removed: Mapping[InstanceId, int]) -> Iterator[Finding]:
        """Yield a finding for each child that a running root names and that was not seen.

        Args:
            removed: up to which number retention has removed, by instance.
        """
        for child_id, link in self._of.items():
            if child_id not in self._seen and link.number > removed.get(link.instance, 0):
                text = (
                    f"child {child_id} was removed: it is number {link.number} of the running root of {link.instance}"
                )
                yield Finding(FindingKind.CHILD_REMOVED, text, link.instance, child_id, link.number)

    def still_late(self) -> Iterator[Finding]:
        """Yield a finding for each closed child that no running root names."""
        for child_id in self.late:
            text = f"child {child_id} is closed, and no running root names it: that was removed, or the child put in"
            yield Finding(FindingKind.CHILD_NOT_IN_ROOT, text, child_id=child_id)


def newest_markers(markers: Iterable[RetentionMarker]) -> dict[InstanceId, RetentionMarker]:
    """Return the marker of each instance that reaches furthest."""
    newest: dict[InstanceId, RetentionMarker] = {}
    for marker in markers:
        if marker.instance not in newest or newest[marker.instance].number < marker.number:
            newest[marker.instance] = marker
    return newest
