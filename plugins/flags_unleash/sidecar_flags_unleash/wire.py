"""Reads flags from Unleash's responses: on for all users, for a share, for none, or unclear.

A flag with a strategy that depends on the user's properties is not evaluated here: strategies with constraints or
segments and custom strategies admit no user, and a flag with parent flags is unclear.
"""

import re
from collections.abc import Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sidecar.policy.protocols import FlagReport

MOST_BYTES: Final = 8 * 1024 * 1024
"""Maximum size of a response, which has room for some 20,000 flags."""
ALL_USERS: Final = 10_000
"""All users, in basis points."""
PERCENT: Final = re.compile(r"\d{1,3}")
PERCENTAGES: Final = MappingProxyType(
    {
        "flexibleRollout": "rollout",
        "gradualRolloutUserId": "percentage",
        "gradualRolloutSessionId": "percentage",
        "gradualRolloutRandom": "percentage",
    }
)
"""Strategy for a share of users to the parameter that has the share, in percent."""


class NotUnderstood(Exception):
    """A response is no valid list of flags. The list that was read before remains in use until it is too old."""


class Strategy(msgspec.Struct, frozen=True):
    """A rule that admits users to a flag. A flag is on for a user if one of its strategies admits the user."""

    name: str
    parameters: dict[str, Any] = {}
    constraints: list[Any] = []
    segments: list[Any] = []


class Feature(msgspec.Struct, frozen=True):
    """A flag of the client API.

    Attributes:
        enabled: whether the flag is enabled in the environment of the token.
        strategies: the flag's strategies; empty: the flag is on for all users.
        dependencies: parent flags.
    """

    name: str
    enabled: bool
    strategies: list[Strategy] = []
    dependencies: list[Any] = []
    project: str = "default"


class Query(msgspec.Struct, frozen=True):
    """The request as Unleash understood it."""

    environment: str


class Features(msgspec.Struct, frozen=True):
    """The response of `/api/client/features`."""

    features: list[Feature]
    query: Query


def features_in(body: bytes, environment: str) -> Sequence[Feature]:
    """Return the flags of an environment.

    Raises:
        NotUnderstood: the body is no response of this API, belongs to another environment, has a flag twice, or has no
            flags. A token that may see no project gets a list without flags; if that meant "all flags are off", it
            would withdraw every sub-agent.
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
    """Return the report of the flags. Its revision depends on the shares alone, e.g. not on descriptions."""
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
    """Return the share of users for whom a flag is on, in basis points; None: it depends on the users' properties."""
    if not feature.enabled:
        return 0
    if feature.dependencies:
        return None
    if not feature.strategies:
        return ALL_USERS  # Unleash's own clients do the same
    admitted = [_admitted_by(strategy) for strategy in feature.strategies]
    clear = max((share for share in admitted if share is not None), default=0)
    return None if not clear and None in admitted else clear


def _admitted_by(strategy: Strategy) -> int | None:
    if strategy.constraints or strategy.segments:
        return None
    if strategy.name == "default":
        return ALL_USERS
    said = str(strategy.parameters.get(PERCENTAGES.get(strategy.name, ""), ""))
    if not PERCENT.fullmatch(said) or int(said) > ALL_USERS // 100:
        return None
    return int(said) * 100
