"""Reads flags from Unleash's responses: on for all users, for a share, for none, or unclear.

Only what holds for every user is read. Strategies with constraints or segments, custom strategies and parent flags
decide by user, which is the sidecar's task: they admit no user here.
"""

import re
from collections.abc import Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sidecar.policy.protocols import FlagReport

MOST_BYTES: Final = 8 * 1024 * 1024
"""Of an answer; some 20,000 flags."""
ALL_USERS: Final = 10_000
"""Basis points."""
PERCENT: Final = re.compile(r"\d{1,3}")
PERCENTAGES: Final = MappingProxyType(
    {
        "flexibleRollout": "rollout",
        "gradualRolloutUserId": "percentage",
        "gradualRolloutSessionId": "percentage",
        "gradualRolloutRandom": "percentage",
    }
)
"""Strategies that name a share of users, with the parameter that has it."""


class NotUnderstood(Exception):
    """An answer is none: what was read before still holds until it is too old."""


class Strategy(msgspec.Struct, frozen=True):
    """The users of a flag. A flag is on for a user if one of its strategies admits the user."""

    name: str
    parameters: dict[str, Any] = {}
    constraints: list[Any] = []
    segments: list[Any] = []


class Feature(msgspec.Struct, frozen=True):
    """A flag as the client API shows it.

    Attributes:
        enabled: in the environment of the token.
        dependencies: parent flags.
    """

    name: str
    enabled: bool
    strategies: list[Strategy] = []
    dependencies: list[Any] = []
    project: str = "default"


class Query(msgspec.Struct, frozen=True):
    """What Unleash was asked for, as it understood it."""

    environment: str


class Features(msgspec.Struct, frozen=True):
    """The answer of `/api/client/features`."""

    features: list[Feature]
    query: Query


def features_in(body: bytes, environment: str) -> Sequence[Feature]:
    """Return the flags of an environment.

    Raises:
        NotUnderstood: it is no such answer, is about another environment, names a flag twice, or has no flag at all:
            so answers a token that may see no project, and "all are off" would kill.
    """
    try:
        answer = msgspec.json.decode(body, type=Features)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise NotUnderstood("Unleash sent what is no list of flags") from None
    if answer.query.environment != environment:
        raise NotUnderstood(f"the token in token_file is of another environment than {environment}")
    names = [feature.name for feature in answer.features]
    if not names:
        raise NotUnderstood("Unleash shows no flag: the token in token_file sees no project, or there is no flag yet")
    if len(set(names)) != len(names):
        raise NotUnderstood("Unleash named a flag twice")
    return answer.features


def report_of(features: Sequence[Feature]) -> FlagReport:
    """Return what flags come to; the revision changes with that only, not with what is only described."""
    shares = {feature.name: share_of(feature) for feature in features}
    on = frozenset(name for name, share in shares.items() if share)
    unclear = frozenset(name for name, share in shares.items() if share is None)
    return FlagReport(
        on=on,
        revision=f"sha256:{sha256(repr(sorted(shares.items())).encode()).hexdigest()}",
        off=frozenset(shares) - on - unclear,
        shares=MappingProxyType({name: share for name, share in shares.items() if share and share < ALL_USERS}),
        unclear=unclear,
    )


def share_of(feature: Feature) -> int | None:
    """Return for how many users a flag is on, in basis points; None: that depends on who they are."""
    if not feature.enabled:
        return 0
    if feature.dependencies:
        return None
    if not feature.strategies:
        return ALL_USERS  # as Unleash's own clients read it
    found = [_admitted_by(strategy) for strategy in feature.strategies]
    clear = max((share for share in found if share is not None), default=0)
    return None if not clear and None in found else clear


def _admitted_by(strategy: Strategy) -> int | None:
    if strategy.constraints or strategy.segments:
        return None
    if strategy.name == "default":
        return ALL_USERS
    said = str(strategy.parameters.get(PERCENTAGES.get(strategy.name, ""), ""))
    if not PERCENT.fullmatch(said) or int(said) > ALL_USERS // 100:
        return None
    return int(said) * 100
