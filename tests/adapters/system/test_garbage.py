"""How often the interpreter looks for cyclic garbage."""

import gc
from collections.abc import Iterator

import pytest

from sidecar.adapters.system import reduce_gc_frequency


@pytest.fixture
def as_before() -> Iterator[tuple[int, int, int]]:
    """The collector's thresholds; whatever the test does to it is undone."""
    thresholds = gc.get_threshold()
    yield thresholds
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def test_what_the_start_made_is_left_alone_and_the_rest_is_looked_at_seldom(as_before: tuple[int, int, int]) -> None:
    """Objects that are there are frozen; each generation waits longer than before; it is still switched on."""
    gc.unfreeze()  # what the tests' own start has frozen
    reduce_gc_frequency()

    assert gc.get_freeze_count() > 1000
    assert all(now > before for now, before in zip(gc.get_threshold(), as_before, strict=True))
    assert gc.isenabled()
