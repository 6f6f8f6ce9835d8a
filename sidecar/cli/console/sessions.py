"""Keeps the sessions of signed-in operators: a random cookie identifies a role token in this process's memory.

The browser never stores the token itself.
"""

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

LONGEST: Final = 3600.0
"""The longest session in seconds. No role token is valid for longer."""
MOST: Final = 200
"""The most sessions at a time. A further one ends the oldest, so that sign-ins cannot exhaust the memory."""


@dataclass(slots=True)
class Session:
    """One operator's browser.

    Attributes:
        token: the role token. It never appears in a page, a URL or the log.
        subject, role: the operator and the role in the token, which a sidecar has verified.
        form_token: a random text in every form of this session, so that no other site can post a form.
        until: the end of the session, in seconds of the monotonic clock.
    """

    token: str = field(repr=False)
    subject: str
    role: str
    until: float
    form_token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    def is_own_form(self, given: str) -> bool:
        """Return whether a form was made for this session."""
        # In constant time, so that the duration of the comparison tells nothing about the text.
        return hmac.compare_digest(self.form_token.encode(), given.encode())


class Sessions:
    """All sessions. They are lost when the process ends, and operators then sign in again."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._kept: OrderedDict[str, Session] = OrderedDict()

    def begin(self, token: str, subject: str, role: str) -> tuple[str, Session]:
        """Return a new session and the value of its cookie."""
        # The cookie is the only proof that a browser has, so its value must not be guessable: 32 random bytes.
        key = secrets.token_urlsafe(32)
        session = self._kept[key] = Session(token, subject, role, self._monotonic() + LONGEST)
        # The order is that of the sign-ins, because no session is prolonged; the first one is therefore the oldest.
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
        # Without an error if there is no such session: another request of the same page may have ended it already.
        self._kept.pop(key, None)
