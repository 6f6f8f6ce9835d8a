"""A token that proves who the user of a turn is. It stays in memory, and nothing shows it."""

from typing import Final


class UserToken:
    """The token as the consumer-agent sent it, verified.

    It is no struct, so nothing serialises it, and its text says nothing.

    Attributes:
        value: the token itself; sent to a token endpoint and nowhere else.
    """

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value: Final = value

    def __repr__(self) -> str:
        """Leave the token out."""
        return "UserToken(...)"

    def __reduce__(self) -> str:
        """Refuse to be pickled or copied. Raises `TypeError`."""
        raise TypeError("a user's token is not written anywhere")
