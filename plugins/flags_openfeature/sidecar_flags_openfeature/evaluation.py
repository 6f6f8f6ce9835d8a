"""Evaluates flags without naming a user, so that the provider cannot bucket.

A flag is a boolean, or a number from 0 to 100: a percentage of users, whose buckets the sidecar computes.
"""

from collections.abc import Callable
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import (
    FlagNotFoundError,
    InvalidContextError,
    ParseError,
    TargetingKeyMissingError,
    TypeMismatchError,
)
from openfeature.flag_evaluation import FlagResolutionDetails, Reason
from openfeature.provider import FeatureProvider

from sidecar.policy.protocols import FlagReport

ALL_USERS: Final = 10_000
"""Basis points."""
NO_PERCENTAGE: Final = -1
"""Default value in the evaluation of a number; outside 0 to 100, so that a returned default is recognised."""
FINE: Final = 1e-6
"""Tolerance for rounding a percentage to basis points."""


class Unclear(Exception):
    """The users of one flag cannot be determined. The other flags are not affected."""


class NothingClear(Exception):
    """The provider has a clear value for no flag; perhaps it has not loaded any flags."""


OF_ONE_FLAG: Final = (Unclear, TypeMismatchError, ParseError, TargetingKeyMissingError, InvalidContextError)
"""Exceptions that affect one flag only. Every other exception of a provider fails the whole fetch."""


class Questions:
    """Evaluates flags with a provider.

    Args:
        context: the evaluation context, equal for all users.
        reasons: the reasons of evaluations whose value holds for all users; other values are unclear.
    """

    def __init__(self, context: EvaluationContext, reasons: frozenset[str]) -> None:
        self._context = context
        self._reasons = reasons

    def report(self, provider: FeatureProvider, names: frozenset[str]) -> FlagReport:
        """Evaluate all names and return a report.

        Raises:
            NothingClear: no flag is clearly on or off. A provider that has lost its flags reports none; treating all
                flags as off would kill every definition.
            Exception: the provider failed.
        """
        shares: dict[str, int] = {}
        unclear: set[str] = set()
        for name in sorted(names):
            try:
                shares[name] = self.share(provider, name)
            except FlagNotFoundError:
                continue
            except OF_ONE_FLAG:
                unclear.add(name)
        if names and not shares:
            raise NothingClear(f"of {len(names)} flags {len(unclear)} are unclear, and the provider has no other")
        on = frozenset(name for name, share in shares.items() if share)
        told = repr((sorted(shares.items()), sorted(unclear), sorted(names)))
        return FlagReport(
            on=on,
            revision=f"sha256:{sha256(told.encode()).hexdigest()}",
            off=frozenset(shares) - on,
            shares=MappingProxyType({name: share for name, share in shares.items() if 0 < share < ALL_USERS}),
            unclear=frozenset(unclear),
            asked=names,
        )

    def share(self, provider: FeatureProvider, name: str) -> int:
        """Return the share of users for whom a flag is on, in basis points.

        Raises:
            Unclear, FlagNotFoundError, Exception: see `report`.
        """
        try:
            return self._of_boolean(provider, name)
        except TypeMismatchError:
            return self._of_number(provider, name)

    def _of_boolean(self, provider: FeatureProvider, name: str) -> int:
        first = self._asked(provider.resolve_boolean_details, name, False)
        if first is True:
            return ALL_USERS
        if first is not None and self._asked(provider.resolve_boolean_details, name, True) is not False:
            raise Unclear(f"{name} has no value of its own")  # both evaluations returned the default
        return 0

    def _of_number(self, provider: FeatureProvider, name: str) -> int:
        try:
            percent = self._asked(provider.resolve_integer_details, name, NO_PERCENTAGE)
        except TypeMismatchError:
            percent = self._asked(provider.resolve_float_details, name, float(NO_PERCENTAGE))
        if percent is None:
            return 0
        share: int = round(percent * 100)
        if not 0 <= share <= ALL_USERS or abs(share - percent * 100) > FINE:
            raise Unclear(f"{name} is no percentage in steps of 0.01")
        return share

    def _asked(self, resolve: Callable[..., FlagResolutionDetails[Any]], name: str, default: bool | float) -> Any:
        """Return a value of the default's type; None: the flag is disabled."""
        details = resolve(name, default, self._context)
        details.raise_for_error()
        reason = str(details.reason)
        if reason not in self._reasons:
            raise Unclear(f"{name}: a value by {reason} does not hold for all users")
        if reason == Reason.DISABLED:
            return None
        if type(details.value) is not type(default):
            raise TypeMismatchError(f"{name} is a {type(details.value).__name__}")
        return details.value
