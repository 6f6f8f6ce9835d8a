"""Who is signed in: a random cookie is exchanged for a role token, which stays in this process's memory."""

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

LONGEST: Final = 3600.0
"""Seconds. A role token is not valid for longer, so a session ends by then."""
MOST: Final = 200
"""Sessions at a time; the oldest gives way."""


@dataclass(slots=True)
class Session:
    """One operator's browser.

    Attributes:
        token: the role token; never in a page, an address or the log.
        subject, role: of the token, as a sidecar verified it.
        form_token: what every form of this session carries, so that no other site can post one.
        until: of the monotonic clock.
    """

    token: str = field(repr=False)
    subject: str
    role: str
    until: float
    form_token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    def is_own_form(self, given: str) -> bool:
        """Return whether a form was made for this session."""
        return hmac.compare_digest(self.form_token.encode(), given.encode())


class Sessions:
    """All that are signed in; forgotten when the process ends."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._kept: OrderedDict[str, Session] = OrderedDict()

    def begin(self, token: str, subject: str, role: str) -> tuple[str, Session]:
        """Return a new session and the value of its cookie."""
        key = secrets.token_urlsafe(32)
        session = self._kept[key] = Session(token, subject, role, self._monotonic() + LONGEST)
        while len(self._kept) > MOST:
            self._kept.popitem(last=False)
        return key, session

    def of(self, key: str) -> Session | None:
        """Return the session of a cookie; None if there is none, or it has ended."""
        session = self._kept.get(key)
        if session is not None and self._monotonic() >= session.until:
            self.end(key)
            return None
        return session

    def end(self, key: str) -> None:
        """Forget a session, and its token."""
        self._kept.pop(key, None)
