"""Headers that name the user of each request: always forwarded, and signed if a key is configured."""

import hmac
import time
from hashlib import sha256
from pathlib import Path
from typing import Final

from sidecar.core.decoding import base64url, from_ascii
from sidecar.core.json_schemas import canonical_text
from sidecar.policy.protocols import RunRequest
from sidecar_runner_a2a.settings import A2aSettings

IDENTITY: Final = "x-sidecar-identity"
"""The user and the run, as base64url of JSON: `principal`, ids, and `expires_at` in seconds since 1970."""
SIGNATURE: Final = "x-sidecar-identity-signature"
"""`v1:<key id>:<64 hexadecimal digits>`: HMAC-SHA256 over the value of the other header."""
TRACE_HEADERS: Final = ("traceparent", "tracestate")
LONGEST_SECRET: Final = 16 * 1024
SHORTEST_KEY: Final = 16


def headers_of(request: RunRequest, settings: A2aSettings) -> dict[str, str]:
    """Return the headers of an attempt; reads files, so not to be called on the event loop.

    Raises:
        ValueError: a file cannot be read or holds no secret; the text says nothing of what is in it.
    """
    context = request.context
    said = {
        "principal": context.principal,
        "episode_id": context.episode_id,
        "turn_id": context.turn_id,
        "sub_agent_id": request.card.definition.slot,
        "child_id": request.child_id,
        "attempt_id": request.attempt_id,
        "expires_at": int(time.time() + request.timeout.total_seconds()) + 1,
    }
    identity = base64url(canonical_text(said).encode())
    headers = {IDENTITY: identity}
    if settings.signing_key_file is not None:
        key = secret_in(settings.signing_key_file)
        if len(key) < SHORTEST_KEY:
            raise ValueError(f"signing_key_file must hold at least {SHORTEST_KEY} characters")
        digits = hmac.digest(key.encode(), identity.encode(), sha256).hex()
        headers[SIGNATURE] = f"v1:{settings.signing_key_id}:{digits}"
    if settings.token_file is not None:
        headers["authorization"] = f"Bearer {secret_in(settings.token_file)}"
    traced = {name: value for name in TRACE_HEADERS if (value := request.trace_headers.get(name))}
    return {**headers, **traced}


def secret_in(file: Path) -> str:
    """Return the secret in a file. Raises `ValueError`, which says nothing of what is in it."""
    try:
        with file.open("rb") as opened:
            secret = from_ascii(opened.read(LONGEST_SECRET)).strip()
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} cannot be read ({type(error).__name__})") from None
    if not secret or not secret.isprintable() or " " in secret:
        raise ValueError(f"{file} holds no secret")
    return secret
