from hypothesis import example, given, settings
from hypothesis import strategies as st

from sidecar.adapters.definitions_directory.loading import load_parsed
from sidecar.adapters.definitions_directory.yaml_documents import BYTES_AT_MOST, DEPTH_AT_MOST, parse
from sidecar.core.definitions.files.agent_entries import AGENT_FIELDS
from sidecar.core.definitions.resolve import LoadedCatalogue
from tests.corpus.bad_configs.good import AGENT_CONFIG, CONFIG, GOOD

SPLICES = st.sampled_from(
    [
        *("&a ", "*a", "!!python/name:os.system ", "{", "}", "[", "]", ": ", "- ", "\n", "  ", "? ", "| \n", ">\n"),
        *("\0", "\x1b", "\ud7ff", "\u2028", "no", "0x1F", "1e999", ".nan", "null", "~", "9" * 30, "---\n", "...\n"),
        *("<<: ", "$ref: http://x/", "id: shop\n", "sub_agents: [concierge]\n", "\ufeff", "\\ud800", '"\\ud800"', "#"),
        *("'", '"', "%YAML 1.1\n", "\t", "é"),
    ]
)
EDITS = st.lists(
    st.tuples(st.integers(0, len(AGENT_CONFIG)), st.integers(0, 40), st.one_of(SPLICES, st.text(max_size=12))),
    min_size=1,
    max_size=6,
)


def load(config: bytes) -> LoadedCatalogue:
    """Load the good configuration with this `agent_config.yaml`."""
    contents = {path: text.encode() for path, text in GOOD.items()} | {CONFIG: config}
    return load_parsed({path: parse(content, path) for path, content in contents.items()}, [], [])


def assert_answered(loaded: LoadedCatalogue) -> None:
    """Either a catalogue, or at least one error; and every message is one printable line."""
    assert (loaded.catalogue is None) == bool(loaded.errors)
    for problem in loaded.problems:
        assert problem.render().isprintable()
        assert len(problem.render()) < 2000


@settings(max_examples=300, deadline=None)
@given(edits=EDITS)
def test_a_mutated_configuration_is_answered_never_raised(edits: list[tuple[int, int, str]]) -> None:
    """Pieces cut out and spliced in, anywhere."""
    text = AGENT_CONFIG
    for at, length, piece in edits:
        text = text[:at] + piece + text[at + length :]

    assert_answered(load(text.encode(errors="surrogatepass")))


@settings(max_examples=200, deadline=None)
@given(content=st.binary(max_size=400))
@example(b"\xef\xbb\xbf")
@example(b"a: 1\r\nb: 2\r")
@example(b'a: "\\ud800"\n')
def test_any_bytes_are_answered_never_raised(content: bytes) -> None:
    """Not even text, mostly."""
    assert_answered(load(content))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=300, deadline=None)
@given(field=st.sampled_from(AGENT_FIELDS), value=JSON)
def test_a_field_of_any_kind_is_answered_never_raised(field: str, value: object) -> None:
    """Each field of an agent holds any JSON value in the place of its own."""
    parsed = {path: parse(text.encode(), path) for path, text in GOOD.items()}
    document = parsed[CONFIG].document
    assert document is not None
    document.value["agents"][1][field] = value

    assert_answered(load_parsed(parsed, [], []))


def test_large_hostile_files_are_refused_or_read_within_their_limits() -> None:
    """The largest files allowed: brackets, mappings, one long line, many keys, many wrong names."""
    size = BYTES_AT_MOST - 100
    many = "\n".join(f"  - {{id: a{number}, model: x{number}}}" for number in range(size // 32))
    for text in (
        "[" * size,
        "{a: " * (size // 4),
        "a" * size,
        "? " * (size // 2),
        "- " * (size // 2),
        "agents:\n" + many,
    ):
        assert load(text.encode()).catalogue is None


def test_twenty_levels_are_read() -> None:
    """The deepest nesting allowed, and one more."""
    within = parse(("[" * DEPTH_AT_MOST + "]" * DEPTH_AT_MOST).encode(), "x")
    beyond = parse(("[" * (DEPTH_AT_MOST + 1) + "]" * (DEPTH_AT_MOST + 1)).encode(), "x")

    assert within.document is not None
    assert beyond.document is None
