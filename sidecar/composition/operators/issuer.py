"""The OIDC issuer whose tokens count as role tokens."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from sidecar.operations.ports import Clock
from sidecar.rpc.operators import OpensTokens
from sidecar.settings import SettingsProblem
from sidecar.settings.operators import IssuerSettings


@dataclass(frozen=True, slots=True)
class OpenIssuer:
    """An issuer.

    Attributes:
        run: keeps its keys fresh; for ever.
    """

    tokens: OpensTokens
    run: Callable[[], Coroutine[Any, Any, None]]


def open_issuer(said: IssuerSettings, clock: Clock, report: Callable[[str, str], None]) -> OpenIssuer:
    """Return what opens its tokens, and what fetches its keys; nothing is fetched yet.

    Raises:
        SettingsProblem: the library for it is not installed.
    """
    try:
        from sidecar.adapters.oidc_issuer import IssuerTokens, KeySource, fetching  # noqa: PLC0415  needs the extra `oidc`
        from sidecar.adapters.oidc_issuer.tokens import IssuerRules  # noqa: PLC0415  needs the extra, too
    except ModuleNotFoundError as missing:
        problem = f"operators.issuer: {missing.name} is not installed; install `dispatch-sidecar[oidc]`"
        raise SettingsProblem([problem]) from None
    where = said.jwks_file if said.jwks_file is not None else str(said.jwks_url)
    keys = KeySource(
        fetching(where),
        frozenset(said.algorithms),
        clock,
        refresh=said.refresh,
        kept_for=said.keys_kept,
        report=report,
    )
    rules = IssuerRules(said.url, said.audience, said.subject_claim, said.role_claim, said.roles)
    return OpenIssuer(IssuerTokens(keys, rules), keys.run)
