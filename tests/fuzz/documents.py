"""Documents that people write: definitions, settings, flag files."""

import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from sidecar.adapters.definitions_directory.loading import load_parsed
from sidecar.adapters.definitions_directory.yaml_documents import parse
from sidecar.adapters.flags_file import END_LINE, FlagFileProblem, flags_in_json, flags_in_toml
from sidecar.settings import SettingsProblem, read_settings
from tests.corpus.bad_configs.good import AGENT_CONFIG, CONFIG, GOOD
from tests.fuzz.target import Target, as_text, holds

LONGEST_LINE: Final = 2000
YAML_WORDS: Final = tuple(
    word.encode()
    for word in (
        *("&a ", "*a", "<<: ", "!!python/name:os.system ", "? ", "| \n", ">\n", "---\n", "...\n", "%YAML 1.1\n", "- "),
        *("no", "0x1F", "1e999", ".nan", "null", "~", "9" * 30, "\ufeff", '"\\ud800"', "$ref: http://x/", "id: shop\n"),
        *("sub_agents: [concierge]\n", "{a: ", "[[[[", "\u2028", "\x1b", "\t"),
    )
)
SETTINGS: Final = """
[server]
dispatch_socket = "/run/sidecar/dispatch.sock"

[dispatch]
fan_out_cap = 3
max_dispatches_per_turn = 2
turn_lifetime = "10m"

[record]
path = "record.sqlite"

[plugins]
enabled = ["a"]
"""


def _definitions(content: bytes) -> None:
    """Either a catalogue or an error, and every message is one short printable line."""
    parsed = {path: parse(text.encode(), path) for path, text in GOOD.items()} | {CONFIG: parse(content, CONFIG)}
    loaded = load_parsed(parsed, [], [])
    holds((loaded.catalogue is None) == bool(loaded.errors), "neither a catalogue nor an error, or both")
    for problem in loaded.problems:
        rendered = problem.render()
        holds(rendered.isprintable() and len(rendered) < LONGEST_LINE, f"a message that is no line: {rendered!r}")


@cache
def _file() -> Path:
    return Path(tempfile.mkdtemp(prefix="fuzz-")) / "sidecar.toml"


def _settings(content: bytes) -> None:
    """Settings, or one exception that lists what is wrong, each on a line."""
    _file().write_bytes(content)
    try:
        read_settings(_file(), {})
    except SettingsProblem as problem:
        holds(bool(str(problem)), "a refusal without a reason")


def _variable(content: bytes) -> None:
    """A variable of the environment: any text, even half of a surrogate pair, but no NUL."""
    name, _, value = as_text(content.replace(b"\0", b"")).partition("=")
    try:
        read_settings(None, {f"SIDECAR__{name}": value})
    except SettingsProblem as problem:
        holds(bool(str(problem)), "a refusal without a reason")


def _flag_file(content: bytes) -> None:
    """Flags with names that can be shown, or one exception; a file that lacks its last line is none."""
    text = content.decode("utf-8", "replace")
    for read in (flags_in_json, flags_in_toml):
        try:
            flags = read(text)
        except FlagFileProblem:
            continue
        holds(all(name.isprintable() and isinstance(on, bool) for name, on in flags.items()), "a name that is no line")
        holds(read is flags_in_json or text.rstrip().endswith(END_LINE), "a half-written file was read")


def targets() -> Iterator[Target]:
    """Yield the targets."""
    yield Target("definitions", _definitions, [AGENT_CONFIG.encode()], YAML_WORDS)
    toml = (b"[dispatch]\n", b"[[a]]\n", b'"""', b"= 1e999", b"= 0x1", b"\\u0000", b"= [", b"= {a = 1}", b"10m", b"-1")
    yield Target("settings", _settings, [SETTINGS.encode()], toml)
    variables = [b"DISPATCH__FAN_OUT_CAP=3", b'PLUGINS__ENABLED=["a"]', b"RECORD__PATH=x", b"OPERATORS__KEYS={}"]
    yield Target("settings_variable", _variable, variables, (b"__", b"=", b"[", b"{", b'"', b"null", b"\xff", b"10m"))
    flags = [b'{"flags": {"a": true, "b": false}}', f"[flags]\na = true\n{END_LINE}\n".encode()]
    yield Target("flag_file", _flag_file, flags, (b"[flags]\n", END_LINE.encode(), b'"a": true,', b"\\u0000", b"{}"))
