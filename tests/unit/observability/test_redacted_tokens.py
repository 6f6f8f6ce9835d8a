"""No token of any kind that the sidecar makes or takes gets into the log, in whatever form it is written down."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.adapters.system import SystemIds, read_or_make_secret
from sidecar.core.binding.surface_token import SigningKeys
from sidecar.core.identifiers import AttemptId
from sidecar.core.operators.role_tokens import RoleClaims, seal
from sidecar.core.roles import Role
from sidecar.observability.redaction import BEARER, HEADERS, REPLACEMENT, TOKENS, Redactor
from sidecar.operations.turn.state.grants import GrantTable
from sidecar.rpc import authorisation, operators
from tests.architecture.reading import modules
from tests.support.oidc import Issuer, by_hand
from tests.support.second_place import a_signer
from tests.support.turn_states import a_child, a_dispatch, a_turn

KEYS = SigningKeys({"2026a": b"k" * 32}, "2026a")
NOW = int(datetime(2026, 11, 22, tzinfo=UTC).timestamp())


def a_grant() -> str:
    """Return the grant of an attempt."""
    dispatch = a_dispatch(a_turn(), "d1")
    return GrantTable(SystemIds()).mint(a_child(dispatch, dispatch.plan.run[0]), AttemptId("attempt-1"))


def a_role_token() -> str:
    """Return what `sidecar token mint` prints."""
    signer = a_signer()
    claims = RoleClaims(
        kid=signer.key_id, aud="prod", sub="ada@example", role=Role.OPERATOR, nbf=NOW, exp=NOW + 900, jti="t-1"
    )
    return seal(claims, signer.sign)


MADE: Mapping[str, Callable[[], str]] = {
    "surface token": lambda: KEYS.sign("surface", b'{"turn_id":"turn-1","tools":[]}'),
    "grant": a_grant,
    "role token": a_role_token,
    "issuer, RS256": lambda: Issuer("RS256").token("RS256", NOW),
    "issuer, ES256": lambda: Issuer("ES256").token("ES256", NOW),
    "issuer, EdDSA": lambda: Issuer("EdDSA").token("EdDSA", NOW),
    "issuer, blanks in its JSON": lambda: by_hand({"alg": "ES256", "kid": "k"}, {"sub": "ada"}, b"s" * 64),
}
FORMS: Mapping[str, Callable[[str], str]] = {
    "a sentence": lambda token: f"failed with {token}, again",
    "an address": lambda token: f"GET /x?token={token}&y=1",
    "a traceback in JSON": lambda token: json.dumps({"traceback": f"line 1\n{token}\n\t{token}"}),
    "bytes": lambda token: repr(token.encode()),
    "a header": lambda token: f"authorization: Bearer {token}",
    "quoted": lambda token: f'token="{token}"',
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", MADE)
def test_a_token_is_known_by_its_form(kind: str, form: str) -> None:
    """Made by the real code; not even its last part stays, which is what makes it worth stealing."""
    token = MADE[kind]()

    cleaned = Redactor().clean(FORMS[form](token))

    assert token not in cleaned
    assert token.rpartition(".")[2] not in cleaned
    assert REPLACEMENT in cleaned


PUBLIC: Final = {"SENT_AT_KEY"}
"""Carries a time, nothing secret."""


def metadata_keys() -> dict[str, str]:
    """Return every metadata key of ours that carries something secret, by the name of its constant."""
    found = {**vars(authorisation), **vars(operators)}
    return {name: value for name, value in found.items() if name.endswith("_KEY") and isinstance(value, str)}


def test_every_metadata_key_of_ours_is_walked() -> None:
    """There is none elsewhere in the sidecar that the next test would not see."""
    named = {line.split(" ")[0] for module in modules("sidecar") for line in module.text.splitlines()
             if ' = "x-subagents-' in line}  # fmt: skip
    assert {name.rstrip(":") for name in named} == set(metadata_keys()) | PUBLIC
    assert set(metadata_keys().values()) == {"x-subagents-boot-secret", "x-subagents-grant", "x-subagents-role-token"}


@pytest.mark.parametrize("key", metadata_keys().values())
@pytest.mark.parametrize(
    "shown",
    [
        "{key}: {secret}",
        "{key}={secret}",
        "(('{key}', '{secret}'),)",
        "('{key}', b'{secret}')",
        "_Metadatum(key='{key}', value='{secret}')",
        '{{"{key}": "{secret}"}}',
        "-H {key}:{secret}",
    ],
)
def test_what_stands_behind_a_metadata_key_is_taken_out(key: str, shown: str) -> None:
    """Also a secret of no form at all, such as a boot secret, although this redactor was never told it."""
    secret = "kJ8_canary-canary-0123456789"

    cleaned = Redactor().clean(shown.format(key=key, secret=secret))

    assert "canary" not in cleaned
    assert key in cleaned


def test_a_boot_secret_that_was_made_is_known_wherever_it_stands(tmp_path: Path) -> None:
    """It has no form; the process tells the redactor when it reads it."""
    secret, redactor = read_or_make_secret(tmp_path / "boot-secret"), Redactor()
    redactor.learn([secret])
    assert redactor.clean(f"a host said {secret}!") == f"a host said {REPLACEMENT}!"


@pytest.mark.parametrize(
    "text",
    [
        "v1.2.3 of something, rt1.x and e.g. example.module.name",
        "sidecar.operations.rollout.store.store_rules, sha256:" + "ab" * 32,
        "v1:key1:" + "ab" * 32,
        "eyes.closed.for_a_moment",
        "send it as metadata x-subagents-grant, exactly once",
    ],
)
def test_what_is_no_token_stays_readable(text: str) -> None:
    """Versions, modules, digests, signatures of answers, and the message that names a header."""
    assert Redactor().clean(text) == text


@pytest.mark.parametrize("text", ["eyey-" * 200_000, "ey" * 500_000, "v1." * 300_000, "rt1." * 250_000])
def test_a_long_line_of_almost_tokens_is_looked_at_once(text: str) -> None:
    """A megabyte of beginnings: to look from each of them to the end would take longer than any test may."""
    assert Redactor().clean(text) == text


def cleaned_by_every_pattern(text: str, secrets: list[str]) -> str:
    """Return what is left if no pattern is spared, however little the text looks like what it is for."""
    text = re.sub("|".join(map(re.escape, sorted(secrets, key=lambda each: (-len(each), each)))), REPLACEMENT, text)
    text = TOKENS.sub(REPLACEMENT, text)
    return BEARER.sub(rf"\1{REPLACEMENT}", HEADERS.sub(rf"\1{REPLACEMENT}", text))


SECRETS = ["canary-one", "canary-one-longer", "aut\u212aey99"]
PIECES = [
    *(
        "x-subagents-boot-secret",
        "X-Subagents-Grant",
        "x-\u017fubagent\u017f-token",
        "authorization",
        "Author\u0131zation",
    ),
    *(
        "Bearer ",
        "bearer\t",
        "BEARER ",
        ": ",
        "=",
        "('",
        "', b'",
        '"',
        "value = ",
        "\\n",
        "v1.",
        "rt1.",
        "eyJ",
        ".",
        "a" * 9,
    ),
    *("k1.", "0123456789abcdef" * 2, "b" * 16, "c" * 15, "d" * 40, "\u00e9", " ", ", ", *SECRETS),
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12).map("".join))
@settings(max_examples=500)
def test_sparing_patterns_leaves_nothing_in(text: str) -> None:
    """Of all lines that are made of what tokens and headers are made of; letters that only look alike included."""
    redactor = Redactor()
    redactor.learn(SECRETS)
    assert redactor.clean(text) == cleaned_by_every_pattern(text, SECRETS)


@pytest.mark.parametrize(
    "token",
    [f"v1.k.{'a' * 16}.{'b' * 16}", f"rt1.{'a' * 16}.{'0' * 32}", f"ew{'a' * 8}.{'b' * 4}.{'c' * 32}"],
)
def test_the_shortest_token_of_each_form_is_taken_out(token: str) -> None:
    """What spares long lines the patterns must not be choosier than they are."""
    assert Redactor().clean(f"before {token} after") == f"before {REPLACEMENT} after"
