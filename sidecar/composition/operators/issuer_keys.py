"""The public keys of issuers: of role tokens, and of user tokens. Needs the extra `oidc`."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from sidecar.operations.establish_principal import EstablishPrincipal
from sidecar.operations.ports import Clock
from sidecar.operations.requests import TurnSource
from sidecar.settings import SettingsProblem
from sidecar.settings.operators import JwksSettings, PrincipalsSettings

if TYPE_CHECKING:
    from sidecar.adapters.oidc_issuer import KeySource

Loop = tuple[str, Callable[[], Coroutine[Any, Any, None]]]


def key_source(section: str, configured: JwksSettings, clock: Clock, report: Callable[[str, str], None]) -> "KeySource":
    """Return the source of an issuer's keys. Nothing is fetched yet.

    Raises:
        SettingsProblem: the library for it is not installed.
    """
    try:
        from sidecar.adapters.oidc_issuer import KeySource, fetching  # noqa: PLC0415  needs the extra `oidc`
    except ModuleNotFoundError as missing:
        problem = f"{section}: {missing.name} is not installed; install `dispatch-sidecar[oidc]`"
        raise SettingsProblem([problem]) from None
    # The settings ensure that exactly one of the two is given.
    where = configured.jwks_file if configured.jwks_file is not None else str(configured.jwks_url)
    return KeySource(
        fetching(where),
        frozenset(configured.algorithms),
        clock,
        refresh=configured.refresh,
        kept_for=configured.max_key_age,
        report=report,
    )


def verified_principals(
    configured: PrincipalsSettings, clock: Clock, report: Callable[[str, str], None]
) -> tuple[EstablishPrincipal, Loop]:
    """Return the verifier of user tokens, and the loop that refreshes its keys.

    Raises:
        SettingsProblem: the library for it is not installed.
    """
    keys = key_source("principals", configured, clock, report)
    from sidecar.adapters.oidc_issuer.users import UserRules, UserTokens  # noqa: PLC0415  need the extra `oidc`

    rules = UserRules(
        configured.url,
        configured.audience,
        configured.principal_claim,
        configured.leeway,
        configured.longest_life,
    )
    asserted = [TurnSource(each) for each in configured.asserted_sources]
    return EstablishPrincipal(UserTokens(keys, rules), clock, asserted), ("user_token_keys", keys.run)
