"""Settings from a file and the environment."""

from datetime import timedelta
from pathlib import Path

import pytest

from sidecar.settings import Settings, SettingsProblem, read_settings
from tests.support.requirement import requirement

LEAST = '[definitions]\npath = "config"\n[dispatch]\nfan_out_cap = 3\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A settings file with no more than it must have."""
    made = tmp_path / "sidecar.toml"
    made.write_text(LEAST)
    return made


def problems(file: Path | None, **variables: str) -> list[str]:
    """Return what is wrong, with the file's name cut to its last part."""
    with pytest.raises(SettingsProblem) as refused:
        read_settings(file, variables)
    return [line.replace(f"{file}", "FILE") for line in refused.value.problems]


@requirement("PC1-D-54")
def test_the_cap_is_required_and_can_be_changed(file: Path) -> None:
    """No default anywhere: an operator decides, in the file or by a variable."""
    assert read_settings(file, {}).dispatch.fan_out_cap == 3
    assert read_settings(file, {"SIDECAR__DISPATCH__FAN_OUT_CAP": "5"}).dispatch.fan_out_cap == 5
    file.write_text('[definitions]\npath = "config"\n')
    assert problems(file) == ["FILE: dispatch.fan_out_cap: is required (or set SIDECAR__DISPATCH__FAN_OUT_CAP)"]


def test_variables_override_the_file_at_any_depth(file: Path) -> None:
    """A duration, a list, a mapping's entry, an entry of a plugin's settings; other variables are left alone."""
    settings = read_settings(
        file,
        {
            "SIDECAR__DISPATCH__RESULTS__IDLE_TIMEOUT": "5s",
            "SIDECAR__PLUGINS__ENABLED": '["flags-mine"]',
            "SIDECAR__TARGETS__SLOTS__SHOP": "unix:/run/shop.sock",
            "SIDECAR__FLAGS__FILE__PATH": "/etc/flags.json",
            "SIDECAR__AUDIT__SINKS": '["log"]',
            "sidecar__log__level": "error",
            "SIDECAR_SKIPS_FAIL": "1",
        },
    )
    assert settings.dispatch.results.idle_timeout == timedelta(seconds=5)
    assert (settings.plugins.enabled, settings.targets.slots) == (["flags-mine"], {"shop": "unix:/run/shop.sock"})
    assert settings.audit.sinks == ("log",)
    assert (settings.flags, settings.log.level) == ({"file": {"path": "/etc/flags.json"}}, "error")


def test_a_table_with_the_name_of_an_argument_is_no_setting(file: Path) -> None:
    """`self` is a name like any other."""
    file.write_text(LEAST + "[self]\n")
    (said,) = problems(file)
    assert said.startswith("FILE: self: no such setting; there are: server, ")


def test_everything_that_is_wrong_is_said_at_once(file: Path) -> None:
    """Each with its place, the nearest name, and no value."""
    file.write_text(LEAST + 'join_timout = "1s"\nturn_lifetime = 5\n[sever]\nx = 1\n[keys]\nsigning = "canary"\n')
    said = problems(file, SIDECAR__LOG__LEVL="canary", SIDECAR__PLUGINS__ENABLED="canary", SIDECAR__SERVER="canary")
    assert said == [
        "SIDECAR__LOG__LEVL: no setting is called log.levl; did you mean `level`?",
        "SIDECAR__PLUGINS__ENABLED: must be JSON, e.g. [] or {}",
        "SIDECAR__SERVER: must be JSON, e.g. [] or {}",
        'FILE: dispatch.turn_lifetime: must be a duration with its unit, e.g. "250ms", "90s", "15m" or "PT1.5S"',
        "FILE: dispatch.join_timout: no such setting; did you mean `join_timeout`?",
        "FILE: keys: `signing` is not the id of a key in `files`",
        "FILE: sever: no such setting; did you mean `server`?",
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[server", "FILE: is not TOML: Expected ']' at the end of a table declaration (at end of document)"),
        (b"\xff", "FILE: is not TOML: is not UTF-8 from byte 0 on"),
        (b"#" * 300_000, "FILE: is larger than 262144 bytes"),
    ],
    ids=["cut short", "not UTF-8", "too large"],
)
def test_a_file_that_cannot_be_used_is_named(content: bytes, said: str, file: Path) -> None:
    """One line for the file, beside what is missing for want of it."""
    file.write_bytes(content)
    assert problems(file)[0] == said


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The most frequent mistake of all."""
    assert problems(tmp_path / "nowhere.toml")[0] == "FILE: cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("section", "line", "said"),
    [
        ("server", 'ops_address = "localhost:9464"', "'localhost' is not an IP address; give 127.0.0.1"),
        ("server", 'ops_address = ":9464"', "'' is not an IP address; give 127.0.0.1"),
        ("server", 'ops_address = "localhost"', "must be an IP address and a port"),
        ("server", 'ops_address = "127.0.0.1:99999"', "must be an IP address and a port"),
        ("server", 'dispatch_socket = "0.0.0.0:7000"', "is a TCP address, which is served with mutual TLS only"),
        ("server", 'agents_socket = "127.0.0.1:7000"', "is a TCP address, which is served with mutual TLS only"),
        ("server", 'agents_socket = "run/x.sock"', "must be the path of a Unix socket, beginning with / or ./"),
        ("server", f'agents_socket = "/{"x" * 120}"', "is longer than the 100 bytes"),
        ("server", 'agents_socket = "/run/sidecar/dispatch/sidecar.sock"', "must differ"),
        ("server", 'drain_grace = "99s"', "server.drain_grace must be at least dispatch.join_timeout"),
        ("flag_refresh", 'max_staleness = "4s"', "max_staleness must be longer than"),
        ("status.events.Loading", 'policy = "forward"', "no identifiers"),
        ("status.events.loading", 'policy = "transform"', "`transform_to` requires the policy `transform`"),
        ("keys.files", 'a = "/a"\nb = "/b"', "there are several keys"),
        ("keys.files", '"a.b" = "/a"', "key ids are letters and digits only"),
    ],
)
def test_a_value_that_cannot_hold_is_refused(section: str, line: str, said: str, file: Path) -> None:
    """TCP, sockets, times that contradict each other, progress types, keys."""
    file.write_text(f"{LEAST}[{section}]\n{line}\n")
    found = problems(file)
    assert len(found) == 1
    assert said in found[0]


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("250ms", 250), ("90s", 90_000), ("1.5s", 1_500), ("15m", 900_000), ("1h30m", 5_400_000), ("PT1.5S", 1_500)],
)
def test_durations_carry_their_unit(text: str, milliseconds: int, file: Path) -> None:
    """Short forms, several units, ISO 8601."""
    settings = read_settings(file, {"SIDECAR__DISPATCH__RECORD_TIMEOUT": text})
    assert settings.dispatch.record_timeout == timedelta(milliseconds=milliseconds)


@pytest.mark.parametrize("text", ["5", "-5s", "5 s", "5x", "s", "", "0s", "PT"])
def test_what_is_no_duration_is_refused(text: str, file: Path) -> None:
    """No unit, negative, spaces, unknown unit, nothing, too short."""
    assert len(problems(file, SIDECAR__DISPATCH__RECORD_TIMEOUT=text)) == 1


def test_settings_cannot_be_changed(file: Path) -> None:
    """Read once, the same for everybody."""
    settings: Settings = read_settings(file, {})
    with pytest.raises(AttributeError, match="frozen"):
        settings.dispatch.fan_out_cap = 4
