"""The stage of a dispatch, and the process that executes it.

Several sidecars share a record, so a process may hold a dispatch in memory that another one executes. `takeover` and
the end of a turn decide by these values whether this process may act.
"""

from enum import Enum, auto

from sidecar.core.errors import RecordConflict
from sidecar.core.identifiers import InstanceId
from sidecar.operations.turn.state.transitions import IllegalTransition


class DispatchStage(Enum):
    """The stage of a dispatch.

    Attributes:
        OPENING: accepted; the children that start immediately are being recorded.
        OPEN: recorded; each call waits, runs, or has its outcome.
        WITHDRAWN: it could not be recorded, and none of its calls was started.
        FINISHED: every call has its outcome.
    """

    OPENING = auto()
    OPEN = auto()
    WITHDRAWN = auto()
    FINISHED = auto()


class Custody(Enum):
    """Which process executes the calls of a dispatch, and what this process does about it.

    Attributes:
        HERE: this process executes it.
        ELSEWHERE: another process executes it, or none does any more; this process knows it from the record.
        FOLLOWED: as ELSEWHERE, but this process ensures that the dispatch gets its result.
        LOST: this process executed it until another sidecar took it over; calls that still run here are being stopped.
        GIVEN_UP: as ELSEWHERE, but the state in memory is outdated; it must be read from the record again.
    """

    HERE = auto()
    ELSEWHERE = auto()
    FOLLOWED = auto()
    LOST = auto()
    GIVEN_UP = auto()


class Ownership:
    """The owner of one dispatch in the record, and the process that executes it.

    Attributes:
        custody: changed only by the methods.
        owner, epoch: the owner in the record, as last read; empty as long as this process was the only owner.
        alive_elsewhere: the owner is another process, and it was alive at the last read.
        conflict: the error that listeners get once the dispatch is lost or given up; they get no events after it.
    """

    __slots__ = ("alive_elsewhere", "conflict", "custody", "epoch", "owner")

    def __init__(self, custody: Custody) -> None:
        self.custody = custody
        self.owner, self.epoch, self.alive_elsewhere = InstanceId(""), 0, False
        self.conflict: RecordConflict | None = None

    @property
    def here(self) -> bool:
        """Whether this process executes the dispatch, or did so until it lost it: its calls still end here."""
        # A lost dispatch still has tasks here. The end of its turn must wait for them, and no second task may follow
        # it.
        return self.custody is Custody.HERE or self.custody is Custody.LOST

    def note(self, owner: InstanceId, epoch: int, *, alive_elsewhere: bool) -> None:
        """Set the owner that the record has."""
        self.owner, self.epoch, self.alive_elsewhere = owner, epoch, alive_elsewhere

    def taken(self, instance: InstanceId) -> None:
        """Note that this process, `instance`, took the dispatch over in the record, as part of another append."""
        if not self.owner:
            raise IllegalTransition("taken", self.custody)
        # The append contained `DispatchTaken`, which raises the epoch, only if another process was the owner.
        self.note(instance, self.epoch + (self.owner != instance), alive_elsewhere=False)

    def follow(self) -> None:
        """Note that a task of this process ensures that the dispatch gets its result."""
        self._move("follow", Custody.ELSEWHERE, Custody.FOLLOWED)

    def unfollow(self) -> None:
        """Note that a followed dispatch has its result."""
        self._move("unfollow", Custody.FOLLOWED, Custody.ELSEWHERE)

    def take_over(self) -> None:
        """Note that this process executes the dispatch from now on."""
        self._move("take_over", Custody.FOLLOWED, Custody.HERE)

    def lose(self) -> None:
        """Note that another sidecar has taken the dispatch over, or may have. Several children may call this."""
        if self.custody is Custody.LOST:
            return
        if self.custody is Custody.HERE:
            self.custody = Custody.LOST
        else:
            # A followed dispatch runs nothing here, so there is nothing to stop; only its state in memory is outdated.
            self._move("lose", Custody.FOLLOWED, Custody.GIVEN_UP)
        # Kept and not raised: listeners are other tasks, and each of them ends with this error when it wakes.
        self.conflict = RecordConflict("another sidecar has taken over the dispatch; resume it")

    def _move(self, transition: str, source: Custody, target: Custody) -> None:
        if self.custody is not source:
            raise IllegalTransition(transition, self.custody)
        self.custody = target
