"""What predicts must not share code with what is predicted."""

import sys

import pytest

from tests.architecture.reading import imported_names, modules

LOGIC = ("sidecar.core.dispatching.plan", "sidecar.core.dispatching.cap", "sidecar.core.dispatching.slot_queues")
DATA_ONLY = ("sidecar.operations.requests", "sidecar.operations.rules", "sidecar.operations.turn.bind_turn.Bound")
MODEL_OF_ROLLOUTS = ("wishes", "model", "model_values", "model_leaving", "model_serving")


@pytest.mark.parametrize("module", ["predicting", "data_use", "scripts"])
def test_the_model_imports_nothing_of_the_operations(module: str) -> None:
    """Nor what decides in the core."""
    [found] = [each for each in modules("tests/support/simulation") if each.path.stem == module]
    names = [name for name, _ in imported_names(found)]
    assert names
    assert not [name for name in names if name.startswith(("sidecar.operations", *LOGIC))]


def test_the_checks_read_requests_and_nothing_else_of_the_operations() -> None:
    """Requests are what clients said; the rest of the operations is on trial."""
    for found in modules("tests/support/simulation"):
        if found.path.stem.startswith("checks_") or found.path.stem in ("stops", "invariants"):
            names = [name for name, _ in imported_names(found)]
            bad = [name for name in names if name.startswith(("sidecar.operations", *LOGIC))]
            assert [name for name in bad if not name.startswith(DATA_ONLY)] == []


@pytest.mark.parametrize("module", MODEL_OF_ROLLOUTS)
def test_the_model_of_rollouts_imports_nothing_of_the_sidecar(module: str) -> None:
    """Only its own words and the standard library."""
    [found] = [each for each in modules("tests/support/simulation/rollout") if each.path.stem == module]
    names = [name for name, _ in imported_names(found)]
    own = tuple(f"tests.support.simulation.rollout.{each}" for each in MODEL_OF_ROLLOUTS)
    assert names
    assert [
        name for name in names if name.split(".")[0] not in sys.stdlib_module_names and not name.startswith(own)
    ] == []
