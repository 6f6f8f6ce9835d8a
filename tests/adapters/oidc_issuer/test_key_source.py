"""Keys of an issuer over real HTTP: changed, away, kept for a while, then given up."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from sidecar.adapters.oidc_issuer import IssuerTokens, KeySource, fetching
from sidecar.adapters.oidc_issuer.key_source import MOST_BYTES
from sidecar.adapters.oidc_issuer.tokens import IssuerRules
from sidecar.core.errors import RoleTokenInvalid
from sidecar.core.roles import Role
from tests.support.oidc import AUDIENCE, URL, Issuer, Served, serving
from tests.support.operators_outside import SteppedClock

NOW: Final = datetime(2026, 11, 22, 12, tzinfo=UTC)
NOON: Final = int(NOW.timestamp())
KEPT: Final = timedelta(hours=1)
RULES: Final = IssuerRules(URL, AUDIENCE, "sub", "groups", {"ops": Role.OPERATOR})


class Kept:
    """A source, what it reported, and its clock."""

    def __init__(self, where: Path | str) -> None:
        self.clock, self.reports = SteppedClock(), list[str]()
        self.source = KeySource(
            fetching(where),
            frozenset({"ES256", "EdDSA"}),
            self.clock,
            refresh=timedelta(minutes=5),
            kept_for=KEPT,
            report=lambda kind, detail: self.reports.append(f"{kind}: {detail}"),
        )
        self.tokens = IssuerTokens(self.source, RULES)

    def cause(self, token: str) -> str:
        """Return why a token is refused; empty: it is not."""
        try:
            self.tokens.open(token, NOW)
        except RoleTokenInvalid as refused:
            return refused.metadata["cause"]
        return ""


async def test_before_the_keys_are_known_nobody_gets_in() -> None:
    """Then they are."""
    issuer = Issuer("ed-1")
    with serving(issuer.jwks()) as served:
        kept, token = Kept(served.url), issuer.token("ed-1", NOON)
        assert kept.cause(token) == "issuer_away"
        await kept.source.look()
        assert kept.cause(token) == ""


async def test_a_rotation_is_followed() -> None:
    """Old and new key side by side, then the new one alone: the old one's tokens count no more."""
    issuer = Issuer("ed-1")
    with serving(issuer.jwks()) as served:
        kept, old = Kept(served.url), issuer.token("ed-1", NOON)
        await kept.source.look()
        issuer.add("ec-2")
        new = issuer.token("ec-2", NOON)
        assert (kept.cause(old), kept.cause(new)) == ("", "signature")
        served.body = issuer.jwks()
        await kept.source.look()
        assert (kept.cause(old), kept.cause(new)) == ("", "")
        del issuer.keys["ed-1"]
        served.body = issuer.jwks()
        await kept.source.look()
        assert (kept.cause(old), kept.cause(new)) == ("signature", "")


async def test_no_token_makes_the_issuer_be_asked() -> None:
    """Checking one reads memory only; a key that is not known is looked for by the loop, in its own time."""
    issuer = Issuer("ed-1")
    with serving(issuer.jwks()) as served:
        kept = Kept(served.url)
        await kept.source.look()
        for number in range(50):
            assert kept.cause(issuer.token("ed-1", NOON, {"kid": f"other-{number}"})) == "signature"
        assert served.asked == 1


@pytest.mark.parametrize("fault", ["error", "garbage", "redirect", "too large", "gone"])
async def test_while_the_issuer_is_away_its_keys_are_kept_for_a_while(fault: str) -> None:
    """Until they are an hour old; then nobody gets in by them, until it is back."""
    issuer = Issuer("ed-1")
    with serving(issuer.jwks()) as served:
        kept, token = Kept(served.url), issuer.token("ed-1", NOON)
        await kept.source.look()
        spoil(served, fault)
        await kept.source.look()
        assert kept.cause(token) == ""
        assert [each.split(":")[0] for each in kept.reports] == ["issuer_keys_unusable"]
        kept.clock.time += KEPT
        assert kept.cause(token) == "issuer_away"
        served.body, served.status, served.location = issuer.jwks(), 200, ""
        await kept.source.look()
        assert kept.cause(token) == ""


def spoil(served: Served, fault: str) -> None:
    """Let the server misbehave."""
    if fault == "redirect":
        served.status, served.location = 302, served.url
    elif fault == "too large":
        served.body += b" " * MOST_BYTES
    elif fault == "garbage":
        served.body = b"<html>"
    else:
        served.status = 500 if fault == "error" else 404


async def test_a_server_that_is_not_there_is_reported() -> None:
    """Nobody listens: nothing is raised, nobody gets in."""
    with serving(b"") as served:
        url = served.url
    kept = Kept(url)

    await kept.source.look()

    assert kept.source.current() is None
    assert kept.reports


async def test_keys_may_stand_in_a_file(tmp_path: Path) -> None:
    """Replaced there, they are others at the next look."""
    first, second = Issuer("ed-1"), Issuer("ed-1")
    file = tmp_path / "jwks.json"
    file.write_bytes(first.jwks())
    kept = Kept(file)
    await kept.source.look()
    assert (kept.cause(first.token("ed-1", NOON)), kept.cause(second.token("ed-1", NOON))) == ("", "signature")
    file.write_bytes(second.jwks())
    await kept.source.look()
    assert (kept.cause(first.token("ed-1", NOON)), kept.cause(second.token("ed-1", NOON))) == ("signature", "")
