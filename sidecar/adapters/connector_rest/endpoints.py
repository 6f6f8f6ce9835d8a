"""Where a request may go: only to an endpoint that the configuration spells out."""

from typing import Final
from urllib.parse import urlsplit

SCHEMES: Final = ("http", "https")


def problem_with_endpoint(endpoint: str) -> str | None:
    """Return what is wrong with a tool's `endpoint`, or None. The message repeats nothing of a password in it."""
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
