import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.adapters.definitions_directory.files import FILES_AT_MOST, read_tree
from sidecar.adapters.definitions_directory.loading import load_directory
from tests.corpus.bad_configs.good import BLOCKS, CONFIG, GOOD, block, write
from tests.support.requirement import requirement

CANARY = "canary-4711"


def messages(root: Path) -> list[str]:
    """Return what reading the tree says is wrong."""
    return [problem.render() for problem in read_tree(root).problems]


@requirement("PC1-D-62")
def test_blocks_are_found_in_the_folder_of_each_owner(tmp_path: Path) -> None:
    """Also deeper down, also `.yml`; other files and hidden ones are left alone."""
    files = {
        f"{BLOCKS}/shop/deeper/x.yml": block("persona-x", "shop"),
        f"{BLOCKS}/shop/README.md": "not a block",
        f"{BLOCKS}/shop/.x.yaml.swp.yaml": "half written",
    }

    tree = read_tree(write(tmp_path, files))

    assert sorted(tree.files) == sorted([*GOOD, f"{BLOCKS}/shop/deeper/x.yml"])
    assert tree.problems == []


def test_a_link_to_a_file_outside_is_refused_and_not_read(tmp_path: Path) -> None:
    """A block that points to a secret beside the root."""
    root = write(tmp_path / "root")
    secret = tmp_path / "secret.yaml"
    secret.write_text(CANARY)
    (root / BLOCKS / "shop" / "stolen.yaml").symlink_to(secret)

    tree = read_tree(root)

    assert messages(root) == [f"{BLOCKS}/shop/stolen.yaml: is a link that leads out of the configuration root"]
    assert not any(CANARY.encode() in content for content in tree.files.values())
    assert load_directory(root).catalogue is None


def test_a_link_to_a_folder_outside_is_refused(tmp_path: Path) -> None:
    """A whole owner's folder, and one whose name only begins like the root's."""
    root = write(tmp_path / "root")
    (tmp_path / "root-2").mkdir()
    (tmp_path / "root-2" / "x.yaml").write_text(CANARY)
    (root / BLOCKS / "other").symlink_to(tmp_path / "root-2")

    assert messages(root) == [f"{BLOCKS}/other: is a link that leads out of the configuration root"]


def test_the_config_file_may_not_be_a_link_outside(tmp_path: Path) -> None:
    """An absolute link in the place of `agent_config.yaml`."""
    root = write(tmp_path / "root")
    (root / CONFIG).rename(tmp_path / CONFIG)
    (root / CONFIG).symlink_to(tmp_path / CONFIG)

    assert messages(root) == [f"{CONFIG}: is a link that leads out of the configuration root"]


def test_links_inside_are_followed_as_a_mounted_config_map_needs(tmp_path: Path) -> None:
    """`..data` points to a dated folder, the visible names point through it, the root is a link itself."""
    mounted = tmp_path / "mounted"
    write(mounted / "..2031_04_09")
    (mounted / "..data").symlink_to("..2031_04_09")
    (mounted / CONFIG).symlink_to(f"..data/{CONFIG}")
    (mounted / "prompts").symlink_to("..data/prompts")
    (tmp_path / "root").symlink_to(mounted)

    tree = read_tree(tmp_path / "root")

    assert dict(tree.files) == {path: text.encode() for path, text in GOOD.items()}
    assert load_directory(tmp_path / "root").problems == ()


def test_folders_that_link_to_each_other_are_read_once(tmp_path: Path) -> None:
    """Circles of links; without care, fifty of them would be followed for ever."""
    root = write(tmp_path)
    for number in range(50):
        (root / BLOCKS / f"round{number}").symlink_to(root / BLOCKS)
        (root / BLOCKS / "shop" / f"up{number}").symlink_to("..")

    tree = read_tree(root)

    assert sorted(tree.files) == sorted(GOOD)


def test_a_pipe_a_folder_and_a_dangling_link_are_refused_without_waiting(tmp_path: Path) -> None:
    """None of them is a plain file; opening a pipe must not block."""
    root = write(tmp_path)
    os.mkfifo(root / BLOCKS / "shop" / "a.yaml")
    (root / BLOCKS / "shop" / "b.yaml").symlink_to("nowhere.yaml")
    (root / CONFIG).unlink()
    (root / CONFIG).mkdir()

    assert messages(root) == [
        f"{CONFIG}: is not a plain file",
        f"{BLOCKS}/shop/a.yaml: is not a plain file",
        f"{BLOCKS}/shop/b.yaml: cannot be read: No such file or directory",
    ]


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    """One more than the limit."""
    root = write(tmp_path)
    folder = root / BLOCKS / "many"
    folder.mkdir()
    for number in range(FILES_AT_MOST):
        (folder / f"{number}.yaml").touch()

    tree = read_tree(root)

    assert [problem.render() for problem in tree.problems] == [f"{BLOCKS}: holds more than {FILES_AT_MOST} files"]
    assert len(tree.files) == FILES_AT_MOST


def test_a_tree_of_folders_that_is_too_deep_is_refused(tmp_path: Path) -> None:
    """Nine folders below `prompts/components`."""
    deep = "/".join(["d"] * 9)
    root = write(tmp_path, {f"{BLOCKS}/{deep}/x.yaml": block("x", "d")})

    assert messages(root) == [f"{BLOCKS}/{deep}: is more than 8 folders deep"]


def test_a_name_that_is_not_text_is_read_and_shown_safely(tmp_path: Path) -> None:
    """A file name of bytes that are not UTF-8, with a line break."""
    root = write(tmp_path)
    (root / BLOCKS / "shop" / os.fsdecode(b"\xff\n.yaml")).write_text("[")

    loaded = load_directory(root)

    (line,) = [problem.render() for problem in loaded.problems]
    assert line.isprintable()
    assert line.startswith(f"{BLOCKS}/shop/\\udcff\\n.yaml:2: is not YAML: ")


HOSTILE = st.one_of(
    st.text(max_size=80),
    st.sampled_from(
        ["../x", "/etc/passwd", "..", "%2e%2e/x", "a/../../x", "con", "a\0b", "~root", "..data", "\\..\\x"]
    ),
)


@settings(deadline=None)
@given(name=HOSTILE)
def test_no_id_however_hostile_is_taken_for_a_path(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """An id is only ever looked up among what was read, so a block id never opens a file."""
    outside = tmp_path_factory.getbasetemp()
    (outside / "x.yaml").write_text(block("x") + f"# {CANARY}\n")
    root = outside / "hostile"
    quoted = "".join(f"\\U{ord(sign):08x}" if not 0xD800 <= ord(sign) < 0xE000 else "" for sign in name)
    write(root, {}, ("[persona-shop]", f'["{quoted}"]'), ("- id: shop\n", f'- id: "{quoted}"\n'))

    loaded = load_directory(root)

    assert loaded.catalogue is None
    assert all(problem.render().isprintable() for problem in loaded.problems)
    assert not any(CANARY.encode() in content for content in read_tree(root).files.values())
