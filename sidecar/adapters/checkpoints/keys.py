"""Ed25519 keys in files. The first start creates a private key that only its owner can read, and its public key.

Both are PEM, so that other tools can read them, e.g. `openssl pkey -in KEY -text`.
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
"""The most bytes that are read of a key file; a larger file is none."""
READ_ONLY: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
"""Errors of a place where the public half cannot be written, e.g. a mounted secret."""
PUBLIC_KEYS: Final = re.compile(rb"-----BEGIN PUBLIC KEY-----[^-]+-----END PUBLIC KEY-----")

CREATE: Final = "create a key with `sidecar token key --key FILE`, which writes its public half to FILE.pub"


class KeyFileProblem(Exception):
    """A key cannot be used; the message names the file and the cause, and nothing of its content."""


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
        """Sign with the key of another signer from the next call on. A copy of this signer keeps its key."""
        self._key, self._key_id = other._key, other._key_id  # noqa: SLF001  of the same class

    def public_key(self) -> Ed25519PublicKey:
        """Return the public half."""
        return self._key.public_key()

    def public_pem(self) -> bytes:
        """Return the public half in PEM."""
        return pem_of(PUBLIC, self._key.public_key().public_bytes_raw())


class Ed25519Judge:
    """Verifies signatures with public keys, found by their ids."""

    def __init__(self, keys: Iterable[Ed25519PublicKey]) -> None:
        self._keys: Mapping[str, Ed25519PublicKey] = {key_id_of(key): key for key in keys}

    def judge(self, key_id: str, payload: bytes, signature: str) -> Verification:
        """Verify a signature."""
        key = self._keys.get(key_id)
        if key is None:
            return Verification.UNKNOWN_KEY
        try:
            key.verify(from_hex(signature), payload)
        except (InvalidSignature, ValueError):
            return Verification.DOES_NOT_FIT
        return Verification.FITS


def key_id_of(key: Ed25519PublicKey) -> str:
    """Return the id of a key: the first 16 hex digits of the SHA-256 of its 32 bytes."""
    return sha256(key.public_bytes_raw()).hexdigest()[:KEY_ID_LENGTH]


def public_key_file(key_file: Path) -> Path:
    """Return where the public half of a key is written."""
    return key_file.with_name(f"{key_file.name}.pub")


def read_or_make_signer(key_file: Path) -> Ed25519Signer:
    """Return the key in `key_file`; if the file does not exist, create it. The public half is written beside it.

    Two processes that start at once end up with the same key: the file appears whole or not at all.

    Raises:
        KeyFileProblem: it cannot be read or created, others may read it, or it contains no Ed25519 key.
    """
    try:
        if not key_file.exists():
            fresh = Ed25519PrivateKey.generate()
            _appear(key_file, pem_of(PRIVATE, fresh.private_bytes_raw()), 0o600)
        return read_signer(key_file)
    except OSError as error:
        raise KeyFileProblem(f"{error.filename or key_file} cannot be used: {error.strerror}") from None


def read_signer(key_file: Path) -> Ed25519Signer:
    """Return the key in `key_file`. Its public half is added to the file beside it, which keeps those of former keys.

    A read-only mount may lack that file: the operator who created the key has the public half.

    Raises:
        KeyFileProblem: it cannot be read, others may read it, or it holds no Ed25519 key.
    """
    try:
        signer = Ed25519Signer(_private_key(key_file))
        _keep_public(public_key_file(key_file), signer.public_pem())
    except OSError as error:
        raise KeyFileProblem(f"{error.filename or key_file} cannot be used: {error.strerror}") from None
    return signer


def _keep_public(file: Path, pem: bytes) -> None:
    try:
        content = file.read_bytes() if file.exists() else b""
        # Added and not replaced: lines that a former key signed must stay verifiable.
        if content and pem.strip() not in content:
            _written(file, content.rstrip() + b"\n" + pem, 0o644).replace(file)
        elif not content:
            _appear(file, pem, 0o644)
    except OSError as error:
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
    keys = [_public_key(block) for block in PUBLIC_KEYS.findall(content) or [content]]
    found = [key for key in keys if key is not None]
    if len(found) < len(keys):
        raise KeyFileProblem(f"{file} holds no Ed25519 public key in PEM; {CREATE}, and name FILE.pub here")
    return found


def _public_key(content: bytes) -> Ed25519PublicKey | None:
    usual = key_in(PUBLIC, content)
    return _public_key_in(content) if usual is None else Ed25519PublicKey.from_public_bytes(usual)


def _private_key(file: Path) -> Ed25519PrivateKey:
    # Without `O_NONBLOCK`, a named pipe at this path would block the start.
    handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as opened:
        # Of the open file and not of the path: the path could be exchanged between check and read.
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise KeyFileProblem(f"{file} is not a regular file")
        if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise KeyFileProblem(f"{file} may be read by others (mode {found.st_mode & 0o777:04o}): chmod 0600 it")
        content = opened.read(LARGEST)
    # The usual form is parsed here; the library for all other forms takes long to load.
    usual = key_in(PRIVATE, content)
    key = _private_key_in(content) if usual is None else Ed25519PrivateKey.from_private_bytes(usual)
    if key is None:
        raise KeyFileProblem(f"{file} holds no unencrypted Ed25519 private key in PEM; {CREATE}")
    return key


def _public_key_in(content: bytes) -> Ed25519PublicKey | None:
    """Return a key that is written in a rarer form of PEM."""
    from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415  see `pem.py`

    try:
        key = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, Ed25519PublicKey) else None


def _private_key_in(content: bytes) -> Ed25519PrivateKey | None:
    """Return a key that is written in a rarer form of PEM."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415  see `pem.py`

    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, Ed25519PrivateKey) else None


def _appear(path: Path, content: bytes, mode: int) -> None:
    """Create a file completely or not at all; a file that another process has created stays."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = _written(path, content, mode)
    try:
        os.link(fresh, path)  # unlike a rename, never replaces what another process made meanwhile
    except FileExistsError:
        return
    finally:
        fresh.unlink()


def _written(path: Path, content: bytes, mode: int) -> Path:
    """Write a new file beside `path`, durably, and return it."""
    # Random, so that two processes that start together do not write the same file.
    fresh = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(handle)
    except BaseException:
        # A file without its content must not stay behind, e.g. on a full disk.
        fresh.unlink()
        raise
    return fresh
