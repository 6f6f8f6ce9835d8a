"""Builds everything once for the tests of this folder."""

from collections.abc import Sequence

import pytest

from tests.packages.built import BuiltPackage, build_all


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Sequence[BuiltPackage]:
    """Every package of the repository, built from the tree: two seconds."""
    return build_all(tmp_path_factory.mktemp("dist"))
