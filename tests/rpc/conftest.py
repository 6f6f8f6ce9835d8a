"""Drives the tests of dispatching twice: over the plain RPCs, and over a session lane."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.support.harness import DRIVEN_OVER_LANES

BOTH_WAYS: Final = frozenset(
    """
    test_attempts_and_budgets test_binding test_breakers test_cancel test_cap test_child_events test_contracts
    test_daily_limits test_delegation test_delegation_ends test_empty_answers test_failure_axes test_failures
    test_fan_out
    test_inherited_context test_intents test_join_and_close test_ownership test_refused_calls test_reports
    test_routing_record test_status_events test_statuses_and_outcomes test_store_away test_surface_tokens
    test_turn_end test_two_sidecars
    """.split()
)
"""Those that are about what is asked of the dispatch service, and quick."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test of those modules over both."""
    if metafunc.module.__name__.rpartition(".")[2] in BOTH_WAYS:
        metafunc.parametrize("way", ["rpc", "lane"], indirect=True)


@pytest.fixture(autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Say how the sidecars of a test are driven."""
    chosen: str = getattr(request, "param", "rpc")
    token = DRIVEN_OVER_LANES.set(chosen == "lane")
    yield chosen
    DRIVEN_OVER_LANES.reset(token)
