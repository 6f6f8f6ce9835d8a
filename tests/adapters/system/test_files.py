"""How many connections a listener may have where the process may open few files."""

import os
import socket

import pytest

from sidecar.adapters.system.files import KEPT_FREE, LEAST, connections_within, files_limit, files_open


@pytest.mark.parametrize(
    ("limit", "listeners", "connections"),
    [
        (20_000, 2, 1024),
        (2 * 1024 + KEPT_FREE, 2, 1024),
        (2 * 1024 + KEPT_FREE - 2, 2, 1023),
        (256, 2, 32),
        (256, 4, 16),
        (KEPT_FREE, 2, LEAST),
    ],
)
def test_a_listener_takes_what_is_left_after_the_reserve(limit: int, listeners: int, connections: int) -> None:
    """The listeners share it equally; none goes below the least."""
    assert connections_within(limit, 1024, listeners) == connections


def test_open_files_are_counted() -> None:
    """Each one that is opened is one more."""
    before = files_open()
    with socket.socket():
        assert files_open() == before + 1
    assert before == files_open() < files_limit()
    assert os.path.exists("/dev/fd")
