"""The input of a page: one request of a signed-in operator, and the objects that all requests share."""

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
    """The objects that all visits share.

    Attributes:
        secure: whether the console is served over HTTPS.
        samples: readings of the sidecars' counters, from which rates are computed.
        tail: the newest rows of the audit.
    """

    sidecars: Sidecars
    secure: bool
    samples: Samples
    sessions: Sessions = field(default_factory=Sessions)
    tail: AuditTail = field(default_factory=AuditTail)

    def __post_init__(self) -> None:
        """Prepare the templates."""
        loader = FileSystemLoader(FOLDER / "templates")
        # Escaping is on for every template, because pages show texts of users and of sub-agents. A missing value is an
        # error and not an empty text: on these pages, operators decide about rollouts.
        self._templates = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
        self._templates.filters.update(FILTERS)

    # Declared for `slots=True`; `__post_init__` sets it.
    _templates: Environment = field(init=False)

    @property
    def cookie(self) -> str:
        """The name of the cookie. Over HTTPS it has the prefix `__Host-`, so that no other host can set it."""
        return "__Host-console" if self.secure else "console"

    def render(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """Return a page.

        Templates use `session` (None: not signed in), `here` (the selected entry of the menu) and `whole` (with header
        and menu), so they have defaults for pages without a `Visit`.
        """
        context = {"session": None, "here": "", "whole": True} | values
        return HTMLResponse(self._templates.get_template(template).render(context), status)

    def set_cookie(self, answer: Response, name: str, value: str) -> None:
        """Set a cookie that scripts cannot read, and that browsers do not send with requests from other sites."""
        # The browser forgets the cookie when the session ends at the latest.
        age = int(LONGEST)
        answer.set_cookie(name, value, max_age=age, httponly=True, samesite="strict", secure=self.secure)


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of a signed-in operator. `fields` are those of the posted form; empty for a GET."""

    console: Console
    request: Request
    session: Session
    fields: Mapping[str, str]

    @property
    def sidecars(self) -> Sidecars:
        """The connections to all sidecars."""
        return self.console.sidecars

    @property
    def token(self) -> str:
        """The role token with which calls are made."""
        return self.session.token

    @property
    def now(self) -> datetime:
        """The present time."""
        return datetime.now(UTC)

    @property
    def is_part(self) -> bool:
        """Whether an open page asks for a part of itself again, and needs no header and menu."""
        return self.request.headers.get("hx-request") == "true"

    def query(self, name: str) -> str:
        """Return a parameter of the URL; empty if it is missing."""
        return self.request.query_params.get(name, "").strip()

    def render(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """Return a page for this session."""
        context = {"session": self.session, "at": self.now, "whole": not self.is_part, "here": self.section}
        return self.console.render(template, status, **(context | values))

    @property
    def section(self) -> str:
        """The first part of the path, which marks the entry in the menu."""
        return self.request.url.path.split("/")[1]
