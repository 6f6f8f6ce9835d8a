"""Ed25519 keys in PEM, as RFC 8410 writes them: the 32 bytes of a key after a prefix that is always the same.

The cryptography package reads every kind of key in every format, but its import takes longer than the rest of a signer.
"""

import re
from base64 import b64encode
from typing import Final

from sidecar.core.decoding import DecodeError, from_base64url, from_hex

PRIVATE: Final = from_hex("302e020100300506032b657004220420")
PUBLIC: Final = from_hex("302a300506032b6570032100")
FOR_URLS: Final = {ord("+"): "-", ord("/"): "_", ord("="): None}
"""Translates Base64 to its alphabet for URLs, the only one that `core/decoding` decodes."""
KEY_BYTES: Final = 32
NAMES: Final = {PRIVATE: "PRIVATE KEY", PUBLIC: "PUBLIC KEY"}
BLOCK: Final = re.compile(r"\s*-----BEGIN ([A-Z ]+)-----\r?\n([A-Za-z0-9+/=\r\n]+)-----END \1-----\s*")


def pem_of(prefix: bytes, key: bytes) -> bytes:
    """Return a key in PEM.

    Args:
        prefix: `PRIVATE` or `PUBLIC`.
        key: its 32 bytes.
    """
    name = NAMES[prefix]
    return f"-----BEGIN {name}-----\n{b64encode(prefix + key).decode()}\n-----END {name}-----\n".encode()


def key_in(prefix: bytes, pem: bytes) -> bytes | None:
    """Return the 32 bytes of a key; None: the text is not a key in this form; it may be a key in another form."""
    # Latin-1 decodes any bytes. A file that is no PEM then simply does not match.
    match = BLOCK.fullmatch(pem.decode("latin-1"))
    if match is None or match[1] != NAMES[prefix]:
        return None
    try:
        content = from_base64url("".join(match[2].split()).translate(FOR_URLS))
    except DecodeError:
        return None
    is_key = content.startswith(prefix) and len(content) == len(prefix) + KEY_BYTES
    return content.removeprefix(prefix) if is_key else None
