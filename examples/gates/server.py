"""The service over HTTP.

    POST   /v1/evaluations   one question in, one verdict out; see plugins/gates_http/openapi.yaml
    POST   /admin/switches   set one switch (`switches.Switch` as JSON)
    DELETE /admin/switches   clear all switches
    GET    /admin/questions  the questions so far, oldest first, with their idempotency keys
    GET    /healthz          200 as soon as it serves

A question that comes again under its idempotency key gets the same answer, and is not counted as another one.
"""

from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from examples.gates.switches import Behaviour, Switch, Switches

KEPT: Final = 1000
HOLDS_FOR: Final = timedelta(minutes=15)
JSON: Final = "application/json"
VERDICTS: Final = frozenset({Behaviour.PASS, Behaviour.FAIL, Behaviour.PENDING, Behaviour.INCONCLUSIVE})


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question as the service reads it."""

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


@dataclass(slots=True)
class ReferenceGates:
    """State of one service. Without a token it accepts every request."""

    token: str = field(default="", repr=False)
    switches: Switches = field(default_factory=Switches)
    questions: deque[tuple[str, Question]] = field(default_factory=lambda: deque(maxlen=KEPT))
    answers: OrderedDict[str, tuple[Question, bytes]] = field(default_factory=OrderedDict)

    async def evaluate(self, http: Request) -> Response:
        """Answer one question."""
        if self.token and http.headers.get("authorization") != f"Bearer {self.token}":
            return refusal(401, "the token is not accepted")
        key = http.headers.get("idempotency-key", "")
        try:
            question = msgspec.json.decode(await http.body(), type=Question)
        except msgspec.MsgspecError:
            return refusal(400, "the body is no question")
        if not key:
            return refusal(400, "there is no Idempotency-Key")
        self.questions.append((key, question))
        earlier = self.answers.get(key)
        if earlier is not None:
            same = earlier[0] == question
            return Response(earlier[1], media_type=JSON) if same else refusal(409, "the key was used before")
        return await self._answered(key, question)

    async def _answered(self, key: str, question: Question) -> Response:
        switch = self.switches.take(question.gate, question.definition_id)
        behaviour = switch.behaviour
        if behaviour in {Behaviour.HANG, Behaviour.SLOW}:
            await self.switches.wait(None if behaviour is Behaviour.HANG else switch.delay_seconds)
        if behaviour is Behaviour.ERROR:
            return refusal(500, "the evaluation broke")
        if behaviour is Behaviour.DROP:
            return StreamingResponse(_half(), media_type=JSON, headers={"content-length": "400"})
        if behaviour is Behaviour.GARBAGE:
            return Response(b"<html>pass</html>", media_type=JSON)
        if behaviour is Behaviour.HUGE:
            return Response(b" " * 1024 * 1024, media_type=JSON)
        body = msgspec.json.encode(answer_to(question, behaviour, switch.summary))
        if behaviour in VERDICTS:
            self.answers[key] = (question, body)
            if len(self.answers) > KEPT:
                self.answers.popitem(last=False)
        return Response(body, media_type=JSON)

    async def set_switch(self, http: Request) -> Response:
        """Set a switch."""
        try:
            self.switches.set(msgspec.json.decode(await http.body(), type=Switch))
        except msgspec.MsgspecError as error:
            return refusal(400, str(error))
        return Response(status_code=204)

    async def clear_switches(self, _http: Request) -> Response:
        """Clear them, and what was answered."""
        self.switches.clear()
        self.answers.clear()
        return Response(status_code=204)

    async def show_questions(self, _http: Request) -> Response:
        """Show what was asked."""
        shown = [{"idempotency_key": key, **msgspec.to_builtins(question)} for key, question in self.questions]
        return JSONResponse(shown)

    async def health(self, _http: Request) -> Response:
        """Say that it serves."""
        return JSONResponse({"status": "serving"})

    def app(self) -> Starlette:
        """Return the application."""
        return Starlette(
            routes=[
                Route("/v1/evaluations", self.evaluate, methods=["POST"]),
                Route("/admin/switches", self.set_switch, methods=["POST"]),
                Route("/admin/switches", self.clear_switches, methods=["DELETE"]),
                Route("/admin/questions", self.show_questions, methods=["GET"]),
                Route("/healthz", self.health, methods=["GET"]),
            ]
        )


def answer_to(question: Question, behaviour: Behaviour, summary: str = "") -> dict[str, Any]:
    """Return the answer, right or with the mistake that was switched on."""
    lasts = -timedelta(minutes=1) if behaviour is Behaviour.EXPIRED else HOLDS_FOR
    right = {
        "verdict": behaviour if behaviour in VERDICTS else "pass",
        "gate": question.gate,
        "digest": question.digest,
        "commit": question.commit,
        "from_ramp": question.from_ramp,
        "to_ramp": question.to_ramp,
        "policy_version": question.policy_version,
        "expires_at": datetime.now(UTC) + lasts,
        "summary": summary or (f"{behaviour}, as switched on" if behaviour in VERDICTS else ""),
        "evidence": {"report": f"https://evaluations.example.com/{question.definition_id}/{question.gate}"},
    }
    mistakes: dict[Behaviour, dict[str, Any]] = {
        Behaviour.UNKNOWN_VERDICT: {"verdict": "maybe"},
        Behaviour.WRONG_DIGEST: {"digest": "sha256:" + "0" * 64},
        Behaviour.WRONG_STEP: {"to_ramp": max(0, question.to_ramp - 1)},
    }
    return {**right, **mistakes.get(behaviour, {})}


def refusal(status: int, message: str) -> Response:
    """Return a refusal."""
    return JSONResponse({"message": message}, status_code=status)


async def _half() -> AsyncIterator[bytes]:
    yield b'{"verdict": "pa'
    raise ConnectionResetError("as switched on")
