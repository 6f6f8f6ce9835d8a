"""Reviewers' rules made of the owners of prompt blocks."""

import io
from pathlib import Path

from sidecar.adapters.definitions_directory.loading import load_directory
from sidecar.cli.validate.codeowners import CodeownersOptions, codeowners
from tests.corpus.bad_configs.good import BLOCKS, block, write
from tests.support.requirement import requirement

EXAMPLE = Path(__file__).parents[2] / "examples" / "config"
TEAM = "@example/{owner}"


def printed(root: Path, wish: CodeownersOptions) -> tuple[int, str]:
    """Run the command; return its exit code and what it printed."""
    out = io.StringIO()
    return codeowners(root, wish, load_directory, out), out.getvalue()


@requirement("PC1-D-48", "PC1-D-49")
def test_each_folder_is_reviewed_by_its_owner_and_the_rest_by_the_platform(tmp_path: Path) -> None:
    """A block without a folder names its owner too; the rules stand so that the last that fits is the owner's."""
    files = {f"{BLOCKS}/context-shop.yaml": block("context-shop", "shop", "context")}

    code, text = printed(write(tmp_path, files), CodeownersOptions(TEAM, "conf/agents"))

    assert code == 0
    assert text.splitlines()[1:] == [
        "/.github/workflows/subagent-validate-refs.yml @example/platform",
        "/conf/agents/subagent-validate-refs.toml @example/platform",
        "/conf/agents/agent_config.yaml @example/platform",
        "/conf/agents/prompts/components/ @example/platform",
        "/conf/agents/prompts/components/platform/ @example/platform",
        "/conf/agents/prompts/components/shop/ @example/shop",
        "/conf/agents/prompts/components/context-shop.yaml @example/shop",
    ]


@requirement("PC1-D-48")
def test_the_examples_rules_are_those_that_its_blocks_make() -> None:
    """The committed file is current."""
    code, text = printed(EXAMPLE, CodeownersOptions(TEAM, compared_with=EXAMPLE / "CODEOWNERS"))

    assert (code, text) == (0, f"{EXAMPLE / 'CODEOWNERS'} is right\n")


def test_rules_that_lack_a_new_owner_are_found(tmp_path: Path) -> None:
    """A vertical adds its first block and forgets the rules."""
    root = write(tmp_path)
    file = tmp_path / "CODEOWNERS"
    file.write_text(printed(root, CodeownersOptions(TEAM))[1])
    wish = CodeownersOptions(TEAM, compared_with=file)
    before = printed(root, wish)[0]
    write(tmp_path, {f"{BLOCKS}/garden/persona-garden.yaml": block("persona-garden", "garden")})

    code, text = printed(root, wish)

    assert (before, code) == (0, 1)
    assert "is not what the blocks' owners make" in text


def test_what_cannot_be_made_is_said(tmp_path: Path) -> None:
    """Teams that are all the same, a file that is not there, a configuration with errors."""
    root = write(tmp_path)

    assert printed(root, CodeownersOptions("@everybody")) == (
        1,
        "--team must hold {owner}, or every owner would be the same\n",
    )
    assert printed(root, CodeownersOptions(TEAM, compared_with=tmp_path / "none"))[0] == 1
    assert "has errors" in printed(tmp_path / "nowhere", CodeownersOptions())[1]
