"""Limits of an operator's key: the roles that its tokens may have, and the subjects that they may name.

The minter of a token writes its subject. The holder of a key without limits can therefore act as any subject in any
role.
"""

import re
from typing import Final

import msgspec

from sidecar.core.roles import Role

ANY_SUBJECT: Final = "*"
# The character ranges are visible ASCII without the star; 126 and the two characters `*@` are the 128 of a subject.
PATTERN: Final = re.compile(r"\*|\*@[!-)+-~]{1,126}|[!-)+-~]{1,128}")
"""Any subject, any subject of a domain, or one subject; the star is allowed in no other position."""


class KeyLimits(msgspec.Struct, frozen=True):
    """The limits of one key.

    Attributes:
        name: in the settings.
        roles: that its tokens may have.
        subjects: that its tokens may name, in the form of `PATTERN`.
    """

    name: str
    roles: frozenset[Role]
    subjects: tuple[str, ...]

    @property
    def is_unrestricted(self) -> bool:
        """Whether its holder can act as any subject in any role."""
        return self.roles == frozenset(Role) and ANY_SUBJECT in self.subjects

    def allow(self, role: Role, subject: str) -> bool:
        """Return whether the key may mint a token of this role for this subject."""
        return role in self.roles and any(_fits(each, subject) for each in self.subjects)

    def described(self) -> str:
        """Describe what the key may be used for."""
        subjects = "any subject" if ANY_SUBJECT in self.subjects else ", ".join(self.subjects)
        return f"the key {self.name} is for {', '.join(sorted(self.roles))} as {subjects}"


def _fits(pattern: str, subject: str) -> bool:
    """Return whether a pattern matches a subject; the name before a domain must not contain `@`."""
    if pattern == ANY_SUBJECT:
        return True
    if not pattern.startswith("*@"):
        return pattern == subject
    # The first `@` divides: `a@evil@good.example` must not count as a subject of `good.example`.
    name, _, domain = subject.partition("@")
    return bool(name) and domain == pattern[2:]
