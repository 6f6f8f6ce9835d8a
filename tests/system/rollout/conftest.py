from collections.abc import Iterator

import pytest

from tests.support.postgres import PostgresServer, running_postgres


@pytest.fixture(scope="package")
def server() -> Iterator[PostgresServer]:
    """A server of our own: what happens to it would disturb others."""
    with running_postgres() as server:
        yield server
