"""A flag file is read as a whole or not at all."""

from collections.abc import Callable, Mapping

import pytest

from sidecar.adapters.flags_file import FlagFileProblem, flags_in_json, flags_in_toml

JSON = '{"flags": {"ask_shop": true, "ask_rewards": false, "ask_support": true}}'
TOML = "[flags]\nask_shop = true\nask_rewards = false\nask_support = true\n# end of flags\n"


@pytest.mark.parametrize(("parse", "text"), [(flags_in_json, JSON), (flags_in_toml, TOML)])
def test_each_flag_of_the_file_is_on_or_off(parse: Callable[[str], Mapping[str, bool]], text: str) -> None:
    """One that is off is there all the same."""
    assert parse(text) == {"ask_shop": True, "ask_rewards": False, "ask_support": True}


@pytest.mark.parametrize(("parse", "text"), [(flags_in_json, JSON), (flags_in_toml, TOML)])
def test_a_file_cut_anywhere_is_refused(parse: Callable[[str], Mapping[str, bool]], text: str) -> None:
    """At every character before its end: no cut file may read as flags that went off."""
    for length in range(len(text.rstrip())):
        with pytest.raises(FlagFileProblem):
            parse(text[:length])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not whole JSON"),
        ("[]", "has no table `flags`"),
        ("{}", "has no table `flags`"),
        ('{"flags": ["ask"]}', "has no table `flags`"),
        ('{"flags": {}, "flag": {}}', "unknown key 'flag'"),
        ('{"flags": {"ask": "true"}}', "flag 'ask' is neither true nor false"),
        ('{"flags": {"ask": 1}}', "flag 'ask' is neither true nor false"),
        ('{"flags": {"ask": null}}', "flag 'ask' is neither true nor false"),
        ('{"flags": {"": true}}', "a name is 1 to 200"),
        ('{"flags": {"a\\u0000b": true}}', "printable"),
        ('{"flags": {"' + "x" * 201 + '": true}}', "a name is 1 to 200"),
        ('{"flags": {"ask": true, "ask": false}}', "has the key 'ask' twice"),
        ('{"flags": {}, "flags": {"ask": true}}', "has the key 'flags' twice"),
        ("[" * 100_000, "is not whole JSON"),
    ],
)
def test_json_that_is_not_flags_is_refused_with_the_reason(text: str, says: str) -> None:
    """Empty, of another shape, of other types, twice, too deep."""
    with pytest.raises(FlagFileProblem, match=says):
        flags_in_json(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[flags]\nask = true\n", "may be half-written"),
        ("[flags]\nask = \n# end of flags\n", "is not whole TOML"),
        ("ask = true\n# end of flags\n", "has no table `flags`"),
        ("[flags]\nask = 'on'\n# end of flags", "neither true nor false"),
        ("[flags]\n[other]\n# end of flags", "unknown key 'other'"),
    ],
)
def test_toml_that_is_not_flags_is_refused_with_the_reason(text: str, says: str) -> None:
    """Without its last line it may be half of a file."""
    with pytest.raises(FlagFileProblem, match=says):
        flags_in_toml(text)
