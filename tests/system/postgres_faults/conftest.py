import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder in which a socket's path fits into 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="net-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
