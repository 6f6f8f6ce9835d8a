"""A socket that only we serve."""

import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.rpc.socket_files import AddressInUse, CannotListen, exclusive_socket


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a name short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="sidecar-") as name:
        yield Path(name) / "run"


def left_behind(path: Path) -> None:
    """Leave a socket file as a killed process does."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


def test_a_socket_is_held_by_one_and_free_afterwards(folder: Path) -> None:
    """The second is refused while the first holds it, and gets it then; the directory is for the owner only."""
    path = folder / "sidecar.sock"
    with exclusive_socket(path):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        with pytest.raises(AddressInUse, match="is served by another process"), exclusive_socket(path):
            pass
    with exclusive_socket(path):
        pass


def test_a_socket_left_behind_is_removed_only_under_the_lock(folder: Path) -> None:
    """A holder's socket stays where it is, whoever tries."""
    path = folder / "sidecar.sock"
    with exclusive_socket(path):
        left_behind(path)
        with pytest.raises(AddressInUse), exclusive_socket(path):
            pass
        assert path.is_socket()
    left_behind(path)
    with exclusive_socket(path):
        assert not path.exists()


@pytest.mark.parametrize("mode", [0o750, 0o701, 0o777])
def test_a_directory_that_lets_others_in_is_refused_and_left_as_it_is(mode: int, folder: Path) -> None:
    """It may be one that others need, such as /run."""
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(CannotListen, match="lets others in"), exclusive_socket(folder / "sidecar.sock"):
        pass
    assert stat.S_IMODE(folder.stat().st_mode) == mode


def test_a_file_that_is_no_socket_is_not_removed(folder: Path) -> None:
    """A mistyped path must not cost anybody a file."""
    folder.mkdir(mode=0o700)
    path = folder / "sidecar.sock"
    path.write_text("precious")
    with pytest.raises(CannotListen, match="is no socket"), exclusive_socket(path):
        pass
    assert path.read_text() == "precious"


def test_a_lock_that_is_a_link_is_refused(folder: Path) -> None:
    """It could make us create a file elsewhere."""
    folder.mkdir(mode=0o700)
    (folder / "sidecar.sock.lock").symlink_to(folder / "elsewhere")
    with pytest.raises(CannotListen, match="cannot be opened"), exclusive_socket(folder / "sidecar.sock"):
        pass
    assert not (folder / "elsewhere").exists()
