"""The stage of a dispatch, and the process that executes it."""

from enum import Enum, auto

from sidecar.core.errors import RecordConflict
from sidecar.core.identifiers import InstanceId
from sidecar.operations.turn.state.transitions import IllegalTransition


class DispatchStage(Enum):
    """The stage of a dispatch.

    Attributes:
        OPENING: accepted; the children that start at once are being put on record.
        OPEN: on record; its calls wait, run, or have their outcome.
        WITHDRAWN: it could not be put on record, and nothing of it was started.
        FINISHED: every call has its outcome.
    """

    OPENING = auto()
    OPEN = auto()
    WITHDRAWN = auto()
    FINISHED = auto()


class Custody(Enum):
    """Which process carries out the calls of a dispatch, and what this one does about it.

    Attributes:
        HERE: this one.
        ELSEWHERE: another one, or none any more; it is known here from the record.
        FOLLOWED: the same, but this process ensures that the dispatch gets its result.
        LOST: this one did, until another one went on with it; what still runs here is being stopped.
        GIVEN_UP: as ELSEWHERE, but what is known of it here is out of date; it has to be read again.
    """

    HERE = auto()
    ELSEWHERE = auto()
    FOLLOWED = auto()
    LOST = auto()
    GIVEN_UP = auto()


class Ownership:
    """The ownership of one dispatch: on record, and in fact.

    Attributes:
        custody: changed by the methods only.
        owner, epoch: whose it is on record, as last read there; empty while it has always been ours.
        alive_elsewhere: that is another process, and it lives, as last read there.
        conflict: what listeners are told once it is lost or given up: nothing of it is told here any more.
    """

    __slots__ = ("alive_elsewhere", "conflict", "custody", "epoch", "owner")

    def __init__(self, custody: Custody) -> None:
        self.custody = custody
        self.owner, self.epoch, self.alive_elsewhere = InstanceId(""), 0, False
        self.conflict: RecordConflict | None = None

    @property
    def here(self) -> bool:
        """Whether this process carries it out, or did until it lost it: then it still comes to an end here."""
        return self.custody is Custody.HERE or self.custody is Custody.LOST

    def note(self, owner: InstanceId, epoch: int, *, alive_elsewhere: bool) -> None:
        """Set the owner that the record shows."""
        self.owner, self.epoch, self.alive_elsewhere = owner, epoch, alive_elsewhere

    def taken(self, instance: InstanceId) -> None:
        """This process, `instance`, has taken it on record to close its children; not if it was always ours."""
        if not self.owner:
            raise IllegalTransition("taken", self.custody)
        self.note(instance, self.epoch + (self.owner != instance), alive_elsewhere=False)

    def follow(self) -> None:
        """Ensure that the dispatch gets its result."""
        self._move("follow", Custody.ELSEWHERE, Custody.FOLLOWED)

    def unfollow(self) -> None:
        """The dispatch has its result."""
        self._move("unfollow", Custody.FOLLOWED, Custody.ELSEWHERE)

    def take_over(self) -> None:
        """Carry it out here from now on."""
        self._move("take_over", Custody.FOLLOWED, Custody.HERE)

    def lose(self) -> None:
        """Another sidecar has taken the dispatch over, or may have; several children may call this."""
        if self.custody is Custody.LOST:
            return
        if self.custody is Custody.HERE:
            self.custody = Custody.LOST
        else:
            self._move("lose", Custody.FOLLOWED, Custody.GIVEN_UP)
        self.conflict = RecordConflict("another sidecar has taken over the dispatch; resume it")

    def _move(self, transition: str, source: Custody, target: Custody) -> None:
        if self.custody is not source:
            raise IllegalTransition(transition, self.custody)
        self.custody = target
