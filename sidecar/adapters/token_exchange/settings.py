"""The settings of an exchange of tokens, as a base of the settings of a connector."""

from collections.abc import Mapping
from typing import Any

from sidecar.adapters.http_client.endpoints import is_plain_beyond, problem_with_endpoint
from sidecar.settings.section import Section, setting


class TokenExchangeSettings(Section):
    """A token endpoint, and the parameters of the exchange."""

    token_endpoint: str | None = setting(
        None,
        description="URL of a token endpoint (RFC 8693). The user's token is exchanged there, and the data service "
        "gets `Authorization: Bearer` with the result. Needs `[principals]`. Unset: no exchange.",
    )
    token_audience: str | None = setting(
        None, min_length=1, description="`audience` of the token for the data service."
    )
    token_scope: str | None = setting(None, min_length=1, description="`scope` of it; none: none is asked for.")
    token_client_id: str | None = setting(None, min_length=1, description="Client id of the sidecar at that endpoint.")
    token_client_secret_file: str | None = setting(
        None, description="File with the client's secret; read at each exchange."
    )
    token_seconds: float = setting(5.0, gt=0, le=60, description="Longest time for one exchange.")

    def _check(self) -> None:
        if not self.token_endpoint:
            return
        problem = problem_with_endpoint(self.token_endpoint)
        if problem is None and is_plain_beyond(self.token_endpoint):
            problem = "must begin with https://, unless it is on loopback: it gets the tokens of users"
        if problem is not None:
            raise ValueError(f"token_endpoint {problem}")
        if not (self.token_audience and self.token_client_id and self.token_client_secret_file):
            raise ValueError("token_endpoint needs token_audience, token_client_id and token_client_secret_file")


def exchanges_tokens(settings: Mapping[str, Any]) -> bool:
    """Return whether a connector with these settings, unchecked, exchanges the tokens of users."""
    return bool(settings.get("token_endpoint"))
