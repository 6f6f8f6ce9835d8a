"""An OIDC issuer: keys of its own, tokens by them, and an HTTP server for its JWKS."""

import base64
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa

URL: Final = "https://issuer.example"
AUDIENCE: Final = "sidecar-tests"


class Issuer:
    """Signs tokens.

    Attributes:
        keys: private keys by kid, with the algorithm of each.
    """

    def __init__(self, *kids: str) -> None:
        self.keys: dict[str, tuple[str, Any]] = {}
        for kid in kids:
            self.add(kid)

    def add(self, kid: str) -> None:
        """Make a key; how its id begins says for which algorithm."""
        if kid.startswith("rsa"):
            self.keys[kid] = ("RS256", generate_rsa(65537, 2048))
        elif kid.startswith("ec"):
            self.keys[kid] = ("ES256", generate_private_key(SECP256R1()))
        else:
            self.keys[kid] = ("EdDSA", Ed25519PrivateKey.generate())

    def jwk(self, kid: str) -> dict[str, Any]:
        """Return one public key."""
        algorithm, key = self.keys[kid]
        made: dict[str, Any] = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
        made.pop("key_ops", None)
        return {**made, "kid": kid, "use": "sig", "alg": algorithm}

    def jwks(self) -> bytes:
        """Return all public keys."""
        return json.dumps({"keys": [self.jwk(kid) for kid in self.keys]}).encode()

    def token(self, kid: str, now: int, head: Mapping[str, Any] | None = None, **claims: Any) -> str:
        """Return a token of an operator that lives for ten minutes, with other claims; None takes one away."""
        algorithm, key = self.keys[kid]
        usual = {"iss": URL, "aud": AUDIENCE, "sub": "ada@example", "iat": now, "exp": now + 600, "jti": "t-1"}
        said = {name: value for name, value in {**usual, "groups": ["ops"], **claims}.items() if value is not None}
        return jwt.encode(said, key, algorithm, {"kid": kid, **(head or {})})


def by_hand(head: Mapping[str, Any], claims: Mapping[str, Any], signature: bytes = b"") -> str:
    """Return a token as no library would make it."""
    parts = (json.dumps(head).encode(), json.dumps(claims).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


class Served:
    """A web server with one page; what it answers can be changed at any time.

    Attributes:
        asked: how often.
    """

    def __init__(self, body: bytes) -> None:
        self.body, self.status, self.location, self.asked = body, 200, "", 0
        self.url = ""


@contextmanager
def serving(body: bytes) -> Iterator[Served]:
    """Serve on a free port of the loopback."""
    served = Served(body)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked += 1
            self.send_response(served.status)
            if served.location:
                self.send_header("location", served.location)
            self.send_header("content-length", str(len(served.body)))
            self.end_headers()
            self.wfile.write(served.body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{server.server_port}/jwks.json"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
