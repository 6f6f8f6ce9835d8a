"""What a page is made for: one request of a signed-in operator, and what all requests share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from sidecar.cli.console.rates import AuditTail, Samples
from sidecar.cli.console.sessions import LONGEST, Session, Sessions
from sidecar.cli.console.sidecars import Sidecars
from sidecar.cli.console.words import FILTERS

FOLDER: Final = Path(__file__).parent


@dataclass(slots=True)
class Console:
    """What all visits share.

    Attributes:
        samples, tail: what was read before, to compare with.
    """

    sidecars: Sidecars
    secure: bool
    samples: Samples
    sessions: Sessions = field(default_factory=Sessions)
    tail: AuditTail = field(default_factory=AuditTail)

    def __post_init__(self) -> None:
        """Prepare the templates."""
        loader = FileSystemLoader(FOLDER / "templates")
        self._templates = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
        self._templates.filters.update(FILTERS)

    _templates: Environment = field(init=False)

    @property
    def cookie(self) -> str:
        """Name of the cookie; over HTTPS one that only this host can set."""
        return "__Host-console" if self.secure else "console"

    def render(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """Return a page."""
        given = {"session": None, "here": "", "whole": True} | values
        return HTMLResponse(self._templates.get_template(template).render(given), status)

    def set_cookie(self, answer: Response, name: str, value: str) -> None:
        """Set a cookie that no script sees and no other site sends."""
        age = int(LONGEST)
        answer.set_cookie(name, value, max_age=age, httponly=True, samesite="strict", secure=self.secure)


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of a signed-in operator. `fields`: of the form that was posted."""

    console: Console
    request: Request
    session: Session
    fields: Mapping[str, str]

    @property
    def sidecars(self) -> Sidecars:
        """Whom to ask."""
        return self.console.sidecars

    @property
    def token(self) -> str:
        """The role token that calls are made with."""
        return self.session.token

    @property
    def now(self) -> datetime:
        """The time."""
        return datetime.now(UTC)

    @property
    def is_part(self) -> bool:
        """Whether a page that is open asks for a piece of it anew."""
        return self.request.headers.get("hx-request") == "true"

    def query(self, name: str) -> str:
        """Return a parameter of the address; empty if it is missing."""
        return self.request.query_params.get(name, "").strip()

    def render(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """Return a page for this session."""
        given = {"session": self.session, "at": self.now, "whole": not self.is_part, "here": self.section}
        return self.console.render(template, status, **(given | values))

    @property
    def section(self) -> str:
        """The first part of the address."""
        return self.request.url.path.split("/")[1]
