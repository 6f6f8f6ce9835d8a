"""Secrets in files."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from sidecar.adapters.system import SecretFileProblem, read_or_make_secret, read_secret

SECRET = "0123456789abcdef0123456789abcdef"


def secret_file(folder: Path, content: bytes = SECRET.encode(), mode: int = 0o400) -> Path:
    """Write a secret file."""
    file = folder / "secret"
    file.write_bytes(content)
    file.chmod(mode)
    return file


def test_a_secret_is_made_once_and_kept(tmp_path: Path) -> None:
    """256 bits, for the owner only, in a directory for the owner only; nothing else is left there."""
    file = tmp_path / "run" / "boot-secret"
    made = read_or_make_secret(file)
    assert (len(made), read_or_make_secret(file)) == (43, made)
    assert stat.S_IMODE(file.stat().st_mode) == 0o400
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert list(file.parent.iterdir()) == [file]
    assert read_or_make_secret(tmp_path / "other" / "boot-secret") != made


def test_the_spaces_around_a_secret_do_not_count(tmp_path: Path) -> None:
    """Editors end files with a line break."""
    assert read_secret(secret_file(tmp_path, f"{SECRET}\n".encode())) == SECRET


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (SECRET.encode(), 0o440, "may be read by others (mode 0440): chmod 0400 it"),
        (SECRET.encode(), 0o404, "may be read by others (mode 0404): chmod 0400 it"),
        (b"short", 0o400, "must hold one line of 32 characters or more"),
        (b"", 0o400, "must hold one line"),
        (f"{SECRET}\n{SECRET}".encode(), 0o400, "must hold one line"),
        (b"\xff" * 40, 0o400, "holds more than ASCII text"),
    ],
)
def test_a_secret_that_cannot_be_trusted_is_refused(content: bytes, mode: int, said: str, tmp_path: Path) -> None:
    """The message names the file and repeats nothing of what is in it."""
    file = secret_file(tmp_path, content, mode)
    with pytest.raises(SecretFileProblem) as refused:
        read_or_make_secret(file)
    assert said in str(refused.value)
    assert str(file) in str(refused.value)
    assert SECRET not in str(refused.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A pipe that nobody writes into, a directory, a file that is not there, a place where none can be made."""
    os.mkfifo(tmp_path / "pipe", 0o400)
    with pytest.raises(SecretFileProblem, match="is not a regular file"):
        read_secret(tmp_path / "pipe")
    with pytest.raises(SecretFileProblem, match="cannot be read: Is a directory"):
        read_secret(tmp_path)
    with pytest.raises(SecretFileProblem, match=r"cannot be read: No such file.*; create it with"):
        read_secret(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(SecretFileProblem, match="Not a directory"):
        read_or_make_secret(tmp_path / "file" / "secret")


def test_the_command_of_the_message_creates_a_file_that_is_accepted(tmp_path: Path) -> None:
    """A missing key file: the message holds a command for the shell, here with a space in the path."""
    file = tmp_path / "my keys"
    with pytest.raises(SecretFileProblem) as refused:
        read_secret(file)

    subprocess.run(["bash", "-c", str(refused.value).split("`")[1]], check=True)
    assert len(read_secret(file)) == 64


def test_the_message_of_a_secret_with_a_form_proposes_no_random_text(tmp_path: Path) -> None:
    """A DSN, whose shortest length is its own."""
    with pytest.raises(SecretFileProblem) as refused:
        read_secret(tmp_path / "dsn", 8)
    assert "openssl" not in str(refused.value)
