"""A gate service that answers the questions of the gate client `http` from a manifest.

It lets sidecars without access to the file use the manifest. It applies the rules of the gate client `manifest`.
"""

import hmac
import threading
from collections import OrderedDict
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import msgspec
from typing_extensions import override

from sidecar.policy.lifecycle import GateAnswer, GateQuestion, GateUnavailable
from sidecar_gates_manifest.client import ManifestGates

PATH: Final = "/v1/evaluations"
MOST_BYTES: Final = 64 * 1024
KEPT: Final = 1000
"""Number of answers that are remembered, to answer repeated questions equally."""
SECONDS: Final = 10.0
"""The connection of a silent client is closed after this time."""


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question as `plugins/gates_http/openapi.yaml` describes it."""

    gate: str
    slot: str
    definition_id: str
    digest: str
    commit: str
    vertical: str
    from_ramp: int
    to_ramp: int
    policy_version: str
    requested_by: str
    question_id: str
    dry_run: bool


class GateService(ThreadingHTTPServer):
    """Serves the manifest on a loopback address. For TLS and access control beyond a token, put a proxy before it.

    Args:
        host: a loopback address.
        port: the port; 0: a free port.
        gates: decides about questions.
        token: bearer token that every request must have; empty: none.
        decided: called with each new question and its answer; not called for repeated questions.

    Raises:
        ValueError: the host is not a loopback address.
    """

    daemon_threads = True

    def __init__(
        self,
        host: str,
        port: int,
        gates: ManifestGates,
        token: str = "",
        decided: Callable[[Question, GateAnswer], None] = lambda *_: None,
    ) -> None:
        if host not in {"127.0.0.1", "localhost"}:
            raise ValueError("serve on 127.0.0.1, and put a proxy with TLS before it: a changed answer can promote")
        super().__init__((host, port), _Handler)
        self.token = token
        self._gates = gates
        self._decided = decided
        self._answers: OrderedDict[str, tuple[Question, GateAnswer]] = OrderedDict()
        self._lock = threading.Lock()

    def answer(self, key: str, question: Question) -> GateAnswer | None:
        """Return the answer to a question; a repeated question gets its earlier answer.

        Returns None if the idempotency key belongs to another question.

        Raises:
            GateUnavailable: the manifest cannot be used now.
        """
        with self._lock:
            earlier = self._answers.get(key)
            if earlier is not None:
                return earlier[1] if earlier[0] == question else None
            answer = self._gates.answer(msgspec.convert(msgspec.structs.asdict(question), GateQuestion))
            self._decided(question, answer)
            self._answers[key] = (question, answer)
            while len(self._answers) > KEPT:
                self._answers.popitem(last=False)
            return answer


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: GateService
    timeout = SECONDS
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer one question."""
        length = self.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            return self._say(
                400, {"message": f"send a body of at most {MOST_BYTES} bytes, with its length"}, close=True
            )
        body = self.rfile.read(int(length))
        if self.path != PATH:
            return self._say(404, {"message": f"only {PATH} is here"})
        said = self.headers.get("authorization", "").encode("utf-8", "replace")
        if self.server.token and not hmac.compare_digest(said, f"Bearer {self.server.token}".encode()):
            return self._say(401, {"message": "the token is missing or not accepted"})
        key = self.headers.get("idempotency-key", "")
        try:
            question = msgspec.json.decode(body, type=Question)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return self._say(400, {"message": "the body is no question"})
        if not key:
            return self._say(400, {"message": "there is no Idempotency-Key"})
        return self._answer(key, question)

    def _answer(self, key: str, question: Question) -> None:
        try:
            answer = self.server.answer(key, question)
        except GateUnavailable as problem:
            return self._say(503, {"message": str(problem)})
        if answer is None:
            return self._say(409, {"message": "the key was used for another question"})
        return self._say(200, answer)

    def _say(self, status: int, content: Any, *, close: bool = False) -> None:
        body = msgspec.json.encode(content)
        self.close_connection = close
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: any client can send requests, and they would fill standard error."""
