"""The web application of the console: sign-in, sign-out, and the routes of all pages; `serving.py` serves it."""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from sidecar.cli.console import board_page, now_page, step_page, turns_page
from sidecar.cli.console.sessions import Session
from sidecar.cli.console.visit import FOLDER, Console, Visit
from sidecar.cli.output.json_output import enum_word
from sidecar.cli.subagent.client import CannotOperate
from subagents.lifecycle.v1 import reading_pb2

TOKEN_PROBLEM: Final = "ROLE_TOKEN_INVALID"  # noqa: S105  the reason of an error, not a secret
SEE_OTHER: Final = 303
MOST_FIELDS: Final = 50
"""The most fields of a form; a request with more is refused. The largest form has 15."""
SAFE: Final = frozenset({"GET", "HEAD"})
"""HTTP methods that change nothing, and so need no proof that the form is the console's own."""
Page = Callable[[Visit], Awaitable[Response]]
"""Returns a page for a signed-in operator; may raise `CannotOperate`."""


def make_app(console: Console) -> Starlette:
    """Return the application."""
    # For each path the page that GET returns, and the one that handles POST.
    pages: Mapping[str, tuple[Page, Page | None]] = {
        "/now": (now_page.now, None),
        "/board": (board_page.board, None),
        "/board/{slot}": (board_page.slot, None),
        "/board/{slot}/step": (step_page.form, step_page.post),
        "/turns": (turns_page.turns, None),
        "/turns/{turn_id}": (turns_page.turn, None),
        "/turns/{turn_id}/changes": (turns_page.changes, None),
    }
    routes: list[BaseRoute] = [
        # Only this redirect, sign-in and static files have no `_guarded`: a browser needs them before it has a session.
        Route("/", lambda _: RedirectResponse("/now")),
        Route("/sign-in", _SignIn(console), methods=["GET", "POST"]),
        Route("/sign-out", _guarded(console, _sign_out), methods=["POST"]),
        Mount("/static", StaticFiles(directory=FOLDER / "static")),
    ]
    for path, (get_page, post_page) in pages.items():
        routes.append(Route(path, _guarded(console, get_page), methods=["GET"]))
        if post_page is not None:
            routes.append(Route(path, _guarded(console, post_page), methods=["POST"]))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            # Here and not in `serve_console`: the channels belong to the event loop of the server.
            await console.sidecars.close()

    return Starlette(routes=routes, lifespan=lifespan)


async def form_fields(request: Request) -> dict[str, str]:
    """Return the fields of a posted form. Raises `HTTPException` (400): it has too many."""
    text = (await request.body()).decode("utf-8", "replace")
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        raise HTTPException(400, f"a form has at most {MOST_FIELDS} fields") from None


class _SignIn:
    """Exchanges a role token for a session."""

    def __init__(self, console: Console) -> None:
        self._console = console

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        answer = await (self._form(request) if request.method in SAFE else self._enter(request))
        await answer(scope, receive, send)

    async def _form(self, request: Request, problem: str = "", status: int = 200) -> Response:
        # There is no session yet; a separate cookie ties this form to the browser that requested it.
        # Otherwise another site could sign a browser in with a token of that site's choice.
        form_token = secrets.token_urlsafe(32)
        answer = self._console.render("sign_in.html", status, form_token=form_token, problem=problem)
        self._console.set_cookie(answer, f"{self._console.cookie}-form", form_token)
        return answer

    async def _enter(self, request: Request) -> Response:
        fields = await form_fields(request)
        expected = request.cookies.get(f"{self._console.cookie}-form", "")
        # As bytes: `compare_digest` raises an error for text that is not ASCII.
        if not expected or not secrets.compare_digest(expected.encode(), fields.get("form_token", "").encode()):
            return await self._form(request, "The form had expired. Sign in again.", 403)
        # A token that was copied from a terminal may contain line breaks.
        token = "".join(fields.get("token", "").split())
        # The token is sent as gRPC metadata, which must be ASCII.
        if not token.isascii() or not token:
            return await self._form(request, "Paste a role token.", 400)
        try:
            key, _ = await begin_session(self._console, token)
        except CannotOperate as problem:
            return await self._form(request, str(problem), 403)
        # 303: the browser gets the next page with GET, so that a reload does not post the token again.
        answer = RedirectResponse("/now", SEE_OTHER)
        self._console.set_cookie(answer, self._console.cookie, key)
        answer.delete_cookie(f"{self._console.cookie}-form", secure=self._console.secure, httponly=True)
        return answer


async def begin_session(console: Console, token: str) -> tuple[str, Session]:
    """Return a new session for a role token, after a sidecar has accepted it. Raises `CannotOperate`."""
    # Name and role come from the sidecar's answer: the console itself verifies no token.
    status = await console.sidecars.caller(token)
    role = enum_word(reading_pb2.ActorRole, status.caller_role)
    return console.sessions.begin(token, status.caller, role)


async def _sign_out(visit: Visit) -> Response:
    # Not only in the browser: a copy of the cookie must not work any more.
    visit.console.sessions.end(visit.request.cookies.get(visit.console.cookie, ""))
    answer = RedirectResponse("/sign-in", SEE_OTHER)
    answer.delete_cookie(visit.console.cookie, secure=visit.console.secure, httponly=True)
    return answer


def _guarded(console: Console, page: Page) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler that serves a page to signed-in operators, and sends all others to the sign-in page."""

    async def handle(request: Request) -> Response:
        key, session = await _session_of(console, request)
        if session is None:
            return _to_sign_in(request)
        # After the session is found: only a signed-in operator's body is read.
        fields = {} if request.method in SAFE else await form_fields(request)
        # Before the page sees the form: another site can make a browser post, but cannot know the form's token.
        if request.method not in SAFE and not session.is_own_form(fields.get("form_token", "")):
            return console.render("refused.html", 403, session=session)
        visit = Visit(console, request, session, fields)
        try:
            answer = await page(visit)
        except CannotOperate as problem:
            # The token has expired or its key was removed, so the session can do nothing more.
            if problem.reason == TOKEN_PROBLEM:
                console.sessions.end(key)
                return _to_sign_in(request)
            # htmx replaces a part of a page only if the status is 200.
            answer = visit.render("problem.html", 200 if visit.is_part else 502, problem=problem)
        # The session began with this request, from a bearer token.
        if key and request.cookies.get(console.cookie) != key:
            console.set_cookie(answer, console.cookie, key)
        return answer

    return handle


async def _session_of(console: Console, request: Request) -> tuple[str, Session | None]:
    """Return the value of the session's cookie, and the session; empty and None: the caller is not signed in.

    A proxy in front of the console may authenticate operators; it then sends their token as a bearer token with each
    request.
    """
    key = request.cookies.get(console.cookie, "")
    session = console.sessions.of(key)
    kind, _, bearer = request.headers.get("authorization", "").partition(" ")
    # The same bearer token keeps its session: a new one at each request would ask the sidecars at each request.
    if kind.lower() != "bearer" or not bearer or (session is not None and session.token == bearer):
        return key, session
    # The proxy has renewed the token, or another operator uses the browser: the old session must not be used again.
    console.sessions.end(key)
    try:
        return await begin_session(console, bearer)
    except CannotOperate:
        return "", None


def _to_sign_in(request: Request) -> Response:
    """Return the answer that makes the browser show the sign-in page."""
    if request.headers.get("hx-request") == "true":
        # A redirect would be followed by htmx, and the sign-in page would appear inside the open page.
        return Response(status_code=204, headers={"HX-Redirect": "/sign-in"})
    return RedirectResponse("/sign-in", SEE_OTHER)
