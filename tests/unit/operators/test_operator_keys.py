"""What a key of an operator may be used for, and how the settings say so."""

from pathlib import Path

import pytest

from sidecar.adapters.checkpoints import read_or_make_signer
from sidecar.composition.operators.keys import read_operator_keys
from sidecar.core.operators.key_limits import ANY_SUBJECT, KeyLimits
from sidecar.core.roles import Role
from sidecar.settings import SettingsProblem
from sidecar.settings.kinds import InvalidValues
from sidecar.settings.operators import OperatorKeySettings, OperatorSettings

BREAKER = (Role.BREAKER,)


@pytest.mark.parametrize(
    ("pattern", "subject", "fits"),
    [
        ("watchdog@ci", "watchdog@ci", True),
        ("watchdog@ci", "watchdog@ci.example", False),
        ("watchdog@ci", "Watchdog@ci", False),
        ("*@ci", "watchdog@ci", True),
        ("*@ci", "@ci", False),
        ("*@ci", "watchdog@evil@ci", False),
        ("*@ci", "watchdog@other-ci", False),
        ("*", "any subject", True),
    ],
)
def test_a_key_is_for_one_subject_a_domain_or_anybody(pattern: str, subject: str, fits: bool) -> None:
    """Character by character; the name before the domain has no `@` of its own."""
    assert KeyLimits("k", frozenset(BREAKER), (pattern,)).allow(Role.BREAKER, subject) is fits
    assert not KeyLimits("k", frozenset(BREAKER), (pattern,)).allow(Role.VIEWER, subject)


@pytest.mark.parametrize("pattern", ["", "a*", "*ci", "*@", "a b", "*@*", "ä"])
def test_what_is_no_subject_and_no_pattern_refuses_the_start(pattern: str) -> None:
    """A star that means nothing would look like a limit and be none."""
    with pytest.raises(InvalidValues, match="neither a subject"):
        OperatorKeySettings(file=Path("k.pub"), roles=BREAKER, subjects=(pattern,))


def test_limits_without_the_name_of_a_deployment_are_refused_as_keys_are() -> None:
    """Else a token of any deployment would count in all of them."""
    with pytest.raises(InvalidValues, match="deployment is empty"):
        OperatorSettings(key={"k": limited(Path("k.pub"))})


def limited(file: Path, *subjects: str) -> OperatorKeySettings:
    """Return settings of a breaker's key."""
    return OperatorKeySettings(file=file, roles=BREAKER, subjects=subjects or ("watchdog@ci",))


def public(folder: Path, name: str) -> Path:
    """Make a key; return the file of its public half."""
    read_or_make_signer(folder / name)
    return folder / f"{name}.pub"


def test_a_plain_key_is_for_everything_and_stands_out_beside_a_limited_one(tmp_path: Path) -> None:
    """Alone it is as meant; beside others, its holder is whom their limits keep out."""
    ada, watchdog = public(tmp_path, "ada"), public(tmp_path, "watchdog")
    alone = read_operator_keys(OperatorSettings(deployment="d", keys=(ada,)))
    both = read_operator_keys(OperatorSettings(deployment="d", keys=(ada,), key={"watchdog": limited(watchdog)}))
    bound = read_operator_keys(OperatorSettings(deployment="d", key={"watchdog": limited(watchdog)}))

    assert [each.roles for each in alone.limits.values()] == [frozenset(Role)]
    assert [each.subjects for each in alone.limits.values()] == [(ANY_SUBJECT,)]
    assert (alone.anybody_beside_others, bound.anybody_beside_others) == ((), ())
    assert both.anybody_beside_others == (f"{ada}",)


def test_a_key_that_is_named_twice_with_different_limits_refuses_the_start(tmp_path: Path) -> None:
    """The wider one would count, and nobody would see that; twice the same changes nothing."""
    file = public(tmp_path, "ada")
    twice = read_operator_keys(OperatorSettings(deployment="d", keys=(file, file)))

    assert len(twice.limits) == 1
    with pytest.raises(SettingsProblem, match=r"operators\.key\.watchdog: .* name each key once"):
        read_operator_keys(OperatorSettings(deployment="d", keys=(file,), key={"watchdog": limited(file)}))
