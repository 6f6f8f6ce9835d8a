"""The allowed targets of a request: only endpoints that the configuration names completely."""

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from sidecar.policy.targets import is_this_machine

if TYPE_CHECKING:
    import httpcore

SCHEMES: Final = ("http", "https")


def problem_with_endpoint(endpoint: str) -> str | None:
    """Return the problem of a tool's `endpoint`, or None. The message never contains a password."""
    try:
        parts = urlsplit(endpoint)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return "is not a URL"
    problems = {
        "must be printable ASCII without spaces": not endpoint.isascii()
        or not endpoint.isprintable()
        or " " in endpoint,
        "must begin with http:// or https://": parts.scheme not in SCHEMES,
        "names no host": not host,
        "must not hold a user name or password": parts.username is not None or parts.password is not None,
        "must not have a fragment (#...)": bool(parts.fragment),
    }
    return next((problem for problem, present in problems.items() if present), None)


def is_plain_beyond(endpoint: str) -> bool:
    """Return whether requests to a sound `endpoint` would leave this machine without encryption."""
    parts = urlsplit(endpoint)
    return parts.scheme != "https" and not is_this_machine(parts.hostname or "")


def without_query(endpoint: str) -> str:
    """Return the part of an endpoint that may be shown: a query may hold a key."""
    return endpoint.partition("?")[0]


def address_of(endpoint: str) -> str:
    """Return host and port of an endpoint; without a port, the usual one of its scheme."""
    parts = urlsplit(endpoint)
    return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def url_of(endpoint: str) -> "httpcore.URL":
    """Return a sound `endpoint` as the HTTP library takes it; the library's own parser drops `;` and what follows."""
    import httpcore  # noqa: PLC0415  the settings are read without it

    parts = urlsplit(endpoint)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return httpcore.URL(scheme=parts.scheme, host=parts.hostname or "", port=parts.port, target=target)
