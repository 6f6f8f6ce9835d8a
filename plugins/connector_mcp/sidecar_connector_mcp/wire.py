"""What a transport has seen of its server; read by the session that uses the transport."""

from collections.abc import Callable
from dataclasses import dataclass, field


def _nothing() -> None:
    pass


@dataclass(slots=True)
class Wire:
    """The state of one connection.

    Attributes:
        most_bytes: largest message; a server that sends more loses the session, before the rest is read.
        heard: how many pieces have arrived. A call during which this does not change has met a silent server.
        overflowed: the server sent too much.
        forgotten: the server says that it does not know the session, so that it has not run what was asked (HTTP 404).
        status: the last HTTP status that said no; 0: there was none.
        spoiled: is called once when the session cannot be used any more.
    """

    most_bytes: int
    heard: int = 0
    overflowed: bool = False
    forgotten: bool = False
    status: int = 0
    spoiled: Callable[[], None] = field(default=_nothing, repr=False)

    def overflow(self) -> None:
        """Note that the server sent too much."""
        self.overflowed = True
        self.spoiled()

    def refused(self, status: int, *, in_session: bool) -> None:
        """Note an HTTP status from 400 on.

        Args:
            status: as the server sent it.
            in_session: whether the request named a session, which is then no longer trusted.
        """
        self.status = status
        if in_session:
            self.forgotten = status == 404  # noqa: PLR2004  what the protocol has for an unknown session
            self.spoiled()
