"""The state of a connection, which the transport writes and the session of the connection reads."""

from collections.abc import Callable
from dataclasses import dataclass, field


def _nothing() -> None:
    pass


@dataclass(slots=True)
class Wire:
    """The state of one connection.

    Attributes:
        most_bytes: maximum size of a message. The session with a server that sends more ends before the rest is read.
        heard: number of received pieces. If it does not change during a call, the server was silent.
        overflowed: the server sent too much.
        forgotten: the server does not know the session (HTTP 404), so it did not run the request.
        status: last HTTP status that was an error; 0: there was none.
        spoiled: called when the session can no longer be used; possibly more than once.
    """

    most_bytes: int
    heard: int = 0
    overflowed: bool = False
    forgotten: bool = False
    status: int = 0
    spoiled: Callable[[], None] = field(default=_nothing, repr=False)

    def overflow(self) -> None:
        """Note that the server sent too much, and end the session."""
        self.overflowed = True
        self.spoiled()

    def refused(self, status: int, *, in_session: bool) -> None:
        """Note an HTTP status from 400 on.

        Args:
            status: HTTP status of the response.
            in_session: whether the request named a session; if so, the session ends.
        """
        self.status = status
        if in_session:
            self.forgotten = status == 404  # noqa: PLR2004  the protocol's status for an unknown session
            self.spoiled()
