"""`sidecar token`: a key of one's own, and tokens that a sidecar with its public half accepts."""

from datetime import timedelta
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sidecar.adapters.checkpoints import public_key_file, read_public_keys
from sidecar.adapters.system import SystemClock
from sidecar.cli.token_command import add_token
from sidecar.composition.operators.token_minting import token_tools
from sidecar.core.errors import RoleTokenInvalid
from sidecar.core.operators.role_tokens import RoleTokens
from sidecar.core.roles import Role


def run(*arguments: str) -> tuple[int, str]:
    """Run the command; return exit code and output."""
    app = typer.Typer()
    add_token(app, token_tools)
    result = CliRunner().invoke(app, ["token", *arguments])
    return result.exit_code, result.output.strip()


def mint(key: Path, *more: str) -> tuple[int, str]:
    """Mint a token for ada."""
    return run(
        "mint", "--key", str(key), "--role", "breaker", "--subject", "ada@example", "--deployment", "shop", *more
    )


def test_a_key_is_made_once_and_its_tokens_hold_where_its_public_half_is_known(tmp_path: Path) -> None:
    """The private half is the owner's alone; the token says who, as what, for which deployment, and for how long."""
    key = tmp_path / "ada"
    made, again = run("key", "--key", str(key)), run("key", "--key", str(key))
    code, token = mint(key, "--for", "90s")
    tokens = RoleTokens(read_public_keys([public_key_file(key)]), "shop")
    claims = tokens.open(token, SystemClock().now())

    assert made == again == (0, claims.kid)
    assert key.stat().st_mode & 0o077 == 0
    assert (code, claims.sub, claims.role, claims.exp - claims.nbf) == (0, "ada@example", Role.BREAKER, 90)
    with pytest.raises(RoleTokenInvalid, match="expired"):
        tokens.open(token, SystemClock().now() + timedelta(seconds=91))


def test_two_tokens_are_never_alike(tmp_path: Path) -> None:
    """Their ids differ, so that the log tells them apart."""
    key = tmp_path / "ada"
    run("key", "--key", str(key))

    assert mint(key)[1] != mint(key)[1]


@pytest.mark.parametrize(
    ("more", "says"), [("61m", "at most 1 hour"), ("0s", "not a duration"), ("soon", "not a duration")]
)
def test_a_token_for_longer_than_an_hour_or_no_time_is_not_minted(tmp_path: Path, more: str, says: str) -> None:
    """Exit code 64, and what to write instead."""
    key = tmp_path / "ada"
    run("key", "--key", str(key))
    code, output = mint(key, "--for", more)

    assert code == 64
    assert says in output


def test_a_key_that_is_not_there_or_open_to_others_mints_nothing(tmp_path: Path) -> None:
    """Minting never makes a key: a slip in the path must not look like success."""
    key = tmp_path / "ada"
    absent, made = mint(key), key.exists()
    run("key", "--key", str(key))
    key.chmod(0o644)
    shared = mint(key)

    assert (absent[0], made, shared[0]) == (78, False, 78)
    assert "may be read by others" in shared[1]
