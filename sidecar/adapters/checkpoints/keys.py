"""Reads and creates Ed25519 keys in files, and signs and verifies with them: checkpoints, role tokens, receipts.

The first start creates a private key that only its owner can read, and its public key beside it. Both are PEM, so that
other tools can read them, e.g. `openssl pkey -in KEY -text`.
"""

import errno
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from sidecar.adapters.checkpoints.pem import PRIVATE, PUBLIC, key_in, pem_of
from sidecar.core.decoding import from_hex
from sidecar.core.signatures import Verification

KEY_ID_LENGTH: Final = 16
LARGEST: Final = 64 * 1024
"""Maximum number of bytes that are read of a key file."""
READ_ONLY: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
"""Errors of a place where the public half cannot be written, e.g. a mounted secret."""
PUBLIC_KEYS: Final = re.compile(rb"-----BEGIN PUBLIC KEY-----[^-]+-----END PUBLIC KEY-----")

CREATE: Final = "create a key with `sidecar token key --key FILE`, which writes its public half to FILE.pub"


class KeyFileProblem(Exception):
    """A key cannot be used. The message names the file and the cause, but nothing of the content."""


class Ed25519Signer:
    """Signs with one private key. The key's id is the beginning of the SHA-256 of its public half, in hex."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self._key_id = key_id_of(key.public_key())

    @property
    def key_id(self) -> str:
        """Return the id of the key."""
        return self._key_id

    def sign(self, payload: bytes) -> str:
        """Return the signature in hex."""
        return self._key.sign(payload).hex()

    def adopt(self, other: "Ed25519Signer") -> None:
        """Use the key of another signer from the next call on. A copy of this signer keeps the former key."""
        self._key, self._key_id = other._key, other._key_id  # noqa: SLF001  of the same class

    def public_key(self) -> Ed25519PublicKey:
        """Return the public half."""
        return self._key.public_key()

    def public_pem(self) -> bytes:
        """Return the public half in PEM."""
        return pem_of(PUBLIC, self._key.public_key().public_bytes_raw())


class Ed25519Judge:
    """Verifies signatures with several public keys, each of which is found by its id."""

    def __init__(self, keys: Iterable[Ed25519PublicKey]) -> None:
        self._keys: Mapping[str, Ed25519PublicKey] = {key_id_of(key): key for key in keys}

    def judge(self, key_id: str, payload: bytes, signature: str) -> Verification:
        """Return whether the key with this id has signed the payload. `signature` is hexadecimal."""
        key = self._keys.get(key_id)
        if key is None:
            return Verification.UNKNOWN_KEY
        try:
            key.verify(from_hex(signature), payload)
        except (InvalidSignature, ValueError):  # `ValueError`: the text is not hexadecimal
            return Verification.DOES_NOT_FIT
        return Verification.FITS


def key_id_of(key: Ed25519PublicKey) -> str:
    """Return the id of a key: the first 16 hex digits of the SHA-256 of its 32 bytes."""
    return sha256(key.public_bytes_raw()).hexdigest()[:KEY_ID_LENGTH]


def public_key_file(key_file: Path) -> Path:
    """Return the path of the file with the public half of a key."""
    return key_file.with_name(f"{key_file.name}.pub")


def read_or_make_signer(key_file: Path) -> Ed25519Signer:
    """Return a signer with the key in `key_file`, and create the file if it does not exist.

    Two processes that start at the same time use the same key: the file is created completely or not at all, and the
    second process reads the file of the first.

    Raises:
        KeyFileProblem: the file cannot be read or created, other users may read it, or it contains no Ed25519 key.
    """
    try:
        if not key_file.exists():
            fresh = Ed25519PrivateKey.generate()
            _create_whole(key_file, pem_of(PRIVATE, fresh.private_bytes_raw()), 0o600)
        # Read from the file even if it was just created: another process may have created it first, with its own key.
        return read_signer(key_file)
    except OSError as error:
        raise KeyFileProblem(f"{error.filename or key_file} cannot be used: {error.strerror}") from None


def read_signer(key_file: Path) -> Ed25519Signer:
    """Return a signer with the key in `key_file`, and add its public half to the file beside it.

    The file beside it keeps the public halves of former keys, too. If it cannot be written, e.g. in a mounted secret,
    the public half is not added: the operator who created the key has it.

    Raises:
        KeyFileProblem: the file cannot be read, other users may read it, or it contains no Ed25519 key.
    """
    try:
        signer = Ed25519Signer(_private_key(key_file))
        _add_public_half(public_key_file(key_file), signer.public_pem())
    except OSError as error:
        raise KeyFileProblem(f"{error.filename or key_file} cannot be used: {error.strerror}") from None
    return signer


def _add_public_half(file: Path, pem: bytes) -> None:
    try:
        content = file.read_bytes() if file.exists() else b""
        # Added and not replaced, because checkpoints that a former key signed must stay verifiable. The file itself is
        # exchanged as a whole, so that no verifier reads a part of it.
        if content and pem.strip() not in content:
            _write_beside(file, content.rstrip() + b"\n" + pem, 0o644).replace(file)
        elif not content:
            _create_whole(file, pem, 0o644)
    except OSError as error:
        # The public half is for verifiers; signing works without it.
        if error.errno not in READ_ONLY:
            raise


def read_public_keys(files: Iterable[Path]) -> Ed25519Judge:
    """Return a verifier with the public keys of some files. Raises `KeyFileProblem`."""
    return Ed25519Judge([key for file in files for key in read_public_keys_in(file)])


def read_public_keys_in(file: Path) -> Sequence[Ed25519PublicKey]:
    """Return the public keys in a file, one or more. Raises `KeyFileProblem`."""
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST)
    except OSError as error:
        how = f"; {CREATE}, and name FILE.pub here" if isinstance(error, FileNotFoundError) else ""
        raise KeyFileProblem(f"{file} cannot be read: {error.strerror}{how}") from None
    # A file in a rarer form has no block of the usual form. It is then tried as a whole.
    keys = [_public_key(block) for block in PUBLIC_KEYS.findall(content) or [content]]
    valid = [key for key in keys if key is not None]
    if len(valid) < len(keys):
        raise KeyFileProblem(f"{file} holds no Ed25519 public key in PEM; {CREATE}, and name FILE.pub here")
    return valid


def _public_key(content: bytes) -> Ed25519PublicKey | None:
    raw = key_in(PUBLIC, content)
    return _public_key_in(content) if raw is None else Ed25519PublicKey.from_public_bytes(raw)


def _private_key(file: Path) -> Ed25519PrivateKey:
    # NONBLOCK, because opening a named pipe would wait for a writer and block the start.
    handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as opened:
        # The open file is checked and not the path, which could be exchanged between the check and the read.
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise KeyFileProblem(f"{file} is not a regular file")
        if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise KeyFileProblem(f"{file} may be read by others (mode {status.st_mode & 0o777:04o}): chmod 0600 it")
        content = opened.read(LARGEST)
    # The usual form is parsed here; the library for all other forms takes long to load.
    raw = key_in(PRIVATE, content)
    key = _private_key_in(content) if raw is None else Ed25519PrivateKey.from_private_bytes(raw)
    if key is None:
        raise KeyFileProblem(f"{file} holds no unencrypted Ed25519 private key in PEM; {CREATE}")
    return key


def _public_key_in(content: bytes) -> Ed25519PublicKey | None:
    """Return a public key in a rarer form of PEM; None: there is no Ed25519 key."""
    from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415  see `pem.py`

    try:
        key = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, Ed25519PublicKey) else None


def _private_key_in(content: bytes) -> Ed25519PrivateKey | None:
    """Return a private key in a rarer form of PEM; None: there is no unencrypted Ed25519 key."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415  see `pem.py`

    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, Ed25519PrivateKey) else None


def _create_whole(path: Path, content: bytes, mode: int) -> None:
    """Create a file completely or not at all. A file that another process has created stays unchanged."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = _write_beside(path, content, mode)
    try:
        os.link(fresh, path)  # unlike a rename, never replaces a file that another process has just created
    except FileExistsError:
        return
    finally:
        fresh.unlink()


def _write_beside(path: Path, content: bytes, mode: int) -> Path:
    """Write a new file beside `path`, durably, and return it."""
    # A random name, so that two processes that start at the same time do not write the same file.
    fresh = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(handle)
    except BaseException:
        # An incomplete file must not stay behind, e.g. on a full disk.
        fresh.unlink()
        raise
    return fresh
