"""What an operator's key may be used for: the roles of its tokens, and whom they may name.

Without limits whoever holds a key is everybody in every role: the subject of a token is what its minter wrote.
"""

import re
from typing import Final

import msgspec

from sidecar.core.roles import Role

ANYBODY: Final = "*"
PATTERN: Final = re.compile(r"\*|\*@[!-)+-~]{1,126}|[!-)+-~]{1,128}")
"""Anybody, anybody of a domain, or one subject; the star stands nowhere else."""


class KeyLimits(msgspec.Struct, frozen=True):
    """The limits of one key.

    Attributes:
        name: what the settings call it.
        roles: that its tokens may have.
        subjects: whom they may name, each as `PATTERN` says.
    """

    name: str
    roles: frozenset[Role]
    subjects: tuple[str, ...]

    @property
    def is_unrestricted(self) -> bool:
        """Whether its holder can be anybody in any role."""
        return self.roles == frozenset(Role) and ANYBODY in self.subjects

    def allow(self, role: Role, subject: str) -> bool:
        """Say whether the key may mint a token of this role for this subject."""
        return role in self.roles and any(_fits(each, subject) for each in self.subjects)

    def described(self) -> str:
        """Say what the key may be used for."""
        subjects = "anybody" if ANYBODY in self.subjects else ", ".join(self.subjects)
        return f"the key {self.name} is for {', '.join(sorted(self.roles))} as {subjects}"


def _fits(pattern: str, subject: str) -> bool:
    """Say whether a pattern names a subject; the name before a domain has no `@` of its own."""
    if pattern == ANYBODY:
        return True
    if not pattern.startswith("*@"):
        return pattern == subject
    name, _, domain = subject.partition("@")
    return bool(name) and domain == pattern[2:]
