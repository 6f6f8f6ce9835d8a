"""Parts of conformance suites, for tests of the suites."""

from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

from sidecar_conformance.suite import Suite, case_names
from tests.unit.flags.virtual_time import VirtualLoop

SuiteT = TypeVar("SuiteT", bound=Suite)


def only(suite: type[SuiteT], names: AbstractSet[str], *, jumping: bool = True) -> type[SuiteT]:
    """Return a suite with these cases only.

    Args:
        suite: the whole one.
        names: of cases; each must exist.
        jumping: whether time jumps to the next timer instead of passing.
    """
    assert names <= case_names(suite)
    changes: dict[str, Any] = dict.fromkeys(case_names(suite) - names)
    return type("Only", (suite,), {**changes, "event_loop": VirtualLoop if jumping else None})
