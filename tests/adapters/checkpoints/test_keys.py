"""Key files: made once, for the owner only, and refused with a sentence that says what is wrong."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from sidecar.adapters.checkpoints import KeyFileProblem, public_key_file, read_or_make_signer, read_public_keys
from sidecar.adapters.checkpoints.pem import PRIVATE, PUBLIC, key_in, pem_of
from sidecar.core.signatures import Verification

NOBODY: Final = 65534


def test_a_key_is_made_once_and_its_public_half_beside_it(tmp_path: Path) -> None:
    """The next start reads the same one; only the public half may be read by others."""
    file = tmp_path / "keys" / "checkpoint.key"
    first, second = read_or_make_signer(file), read_or_make_signer(file)

    assert first.key_id == second.key_id
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert sorted(path.name for path in file.parent.iterdir()) == ["checkpoint.key", "checkpoint.key.pub"]
    judge = read_public_keys([public_key_file(file)])
    assert judge.judge(first.key_id, b"a", second.sign(b"a")) is Verification.FITS


def test_a_signature_is_judged(tmp_path: Path) -> None:
    """Other contents, another key's signature, something that is no signature, and a key nobody gave."""
    ours, theirs = (read_or_make_signer(tmp_path / name) for name in ("ours", "theirs"))
    judge = read_public_keys([tmp_path / "ours.pub"])

    assert judge.judge(ours.key_id, b"b", ours.sign(b"a")) is Verification.DOES_NOT_FIT
    assert judge.judge(ours.key_id, b"a", theirs.sign(b"a")) is Verification.DOES_NOT_FIT
    assert judge.judge(ours.key_id, b"a", "no signature") is Verification.DOES_NOT_FIT
    assert judge.judge(theirs.key_id, b"a", theirs.sign(b"a")) is Verification.UNKNOWN_KEY


def test_a_public_half_that_got_lost_is_written_again(tmp_path: Path) -> None:
    """It follows from the private one."""
    read_or_make_signer(tmp_path / "key")
    before = (tmp_path / "key.pub").read_bytes()
    (tmp_path / "key.pub").unlink()
    read_or_make_signer(tmp_path / "key")
    assert (tmp_path / "key.pub").read_bytes() == before


def test_a_key_in_a_place_that_cannot_be_written_signs_all_the_same() -> None:
    """As a mounted secret: its operator has made the public half, and it is in no file beside the key."""
    with tempfile.TemporaryDirectory() as name:
        folder, key = Path(name), Path(name) / "key"
        key.write_bytes(pem_of(PRIVATE, Ed25519PrivateKey.generate().private_bytes_raw()))
        key.chmod(0o600)
        folder.chmod(0o555)
        with as_nobody(key):
            signed = read_or_make_signer(key).sign(b"a")
        folder.chmod(0o700)
        assert (len(signed), public_key_file(key).exists()) == (128, False)


@contextmanager
def as_nobody(key: Path) -> Iterator[None]:
    """Go on as a user who may not write everywhere, as root may, and who owns the key."""
    if os.geteuid() != 0:
        yield
        return
    shutil.chown(key, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    """Mode 0640, and what to do."""
    read_or_make_signer(tmp_path / "key")
    (tmp_path / "key").chmod(0o640)
    with pytest.raises(KeyFileProblem, match=r"may be read by others \(mode 0640\): chmod 0600 it"):
        read_or_make_signer(tmp_path / "key")


@pytest.mark.parametrize("content", [b"", b"nothing of the kind", b"x25519"])
def test_what_is_no_key_of_ours_is_refused(tmp_path: Path, content: bytes) -> None:
    """Empty, text, and a key for something else; as the private and as the public one."""
    other = X25519PrivateKey.generate()
    private, public = content, content
    if content == b"x25519":
        private = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        public = other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    file = tmp_path / "key"
    file.touch(0o600)
    file.write_bytes(private)
    with pytest.raises(KeyFileProblem, match="holds no unencrypted Ed25519 private key"):
        read_or_make_signer(file)
    file.write_bytes(public)
    with pytest.raises(KeyFileProblem, match="holds no Ed25519 public key"):
        read_public_keys([file])


def test_a_file_that_is_not_there_or_cannot_be_made_is_said(tmp_path: Path) -> None:
    """A public key that is absent; a private one below a file."""
    with pytest.raises(KeyFileProblem, match="absent cannot be read"):
        read_public_keys([tmp_path / "absent"])
    (tmp_path / "file").touch()
    with pytest.raises(KeyFileProblem, match="cannot be used"):
        read_or_make_signer(tmp_path / "file" / "key")


def test_keys_are_written_as_other_tools_write_them_and_read_in_rarer_forms_too(tmp_path: Path) -> None:
    """Byte by byte what the cryptography package writes; a key with text before it is read by that package."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    assert (pem_of(PRIVATE, key.private_bytes_raw()), pem_of(PUBLIC, key.public_key().public_bytes_raw())) == (
        private,
        public,
    )
    for content, usual in ((private, True), (b"Bag Attributes\n" + private, False)):
        assert (key_in(PRIVATE, content) is not None) is usual
        file = tmp_path / f"{usual}.key"
        file.write_bytes(content)
        file.chmod(0o600)
        assert read_or_make_signer(file).public_pem() == public
    assert key_in(PUBLIC, private) is None
    assert key_in(PRIVATE, private.replace(b"MC4", b"MC5")) is None
