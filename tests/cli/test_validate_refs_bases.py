"""Where `sidecar validate-refs` finds the base, and what it says where it finds none."""

import os
import shutil
from pathlib import Path

import pytest

from sidecar.core.definitions.review.references import BaseSelection
from tests.corpus.bad_configs.good import BLOCKS, CONFIG, GOOD, block, write
from tests.support.config_repository import ConfigRepository, checked
from tests.support.named_skips import needs_root
from tests.support.requirement import requirement

SWAP = ("role: native\n    model: nano", "role: native\n    model: single")
SHOP_BLOCK = f"{BLOCKS}/shop/persona-shop.yaml"


@pytest.fixture
def repository(tmp_path: Path) -> ConfigRepository:
    """The good configuration on `main`, and a branch to change it on."""
    return ConfigRepository(tmp_path / "repository")


@requirement("PF1-D-58")
def test_a_change_is_compared_with_where_it_began_not_with_what_others_merged_since(
    repository: ConfigRepository,
) -> None:
    """Main has meanwhile got an agent and lost another model; neither is a change of this branch."""
    repository.git("checkout", "-q", "main")
    repository.edit(SWAP)
    repository.put({f"{BLOCKS}/shop/new.yaml": block("new", "shop")})
    repository.commit()
    repository.git("checkout", "-q", "change")
    (repository.folder / "README").write_text("Nothing about agents.")
    start = repository.git("rev-parse", "main~1")
    repository.commit()

    printed = repository.check()

    assert (printed.code, printed.lines) == (0, [f"compared with {start[:12]}, where HEAD and main part"])


def test_a_merge_commit_is_compared_with_the_branch_it_is_merged_into(repository: ConfigRepository) -> None:
    """As GitHub checks pull requests out: HEAD is the merge; the other side's change is not this one's."""
    repository.edit(SWAP)
    repository.commit()
    repository.git("checkout", "-q", "main")
    (repository.folder / "README").write_text("Others went on.")
    base = repository.commit()
    repository.git("checkout", "-q", "--detach")
    repository.git("merge", "-q", "--no-ff", "-m", "merge", "change")

    assert repository.check(base).lines[0].startswith("agent_config.yaml:29: check d: agents.shop.model: Major")


def test_a_history_that_is_cut_off_before_the_base_is_told(repository: ConfigRepository, tmp_path: Path) -> None:
    """A clone of depth one: it knows no `main`, and no common commit; one that reaches far enough is fine."""
    repository.edit(SWAP)
    repository.commit()
    source = repository.folder.as_uri()
    shallow = tmp_path / "shallow"
    repository.git("clone", "-q", "--depth=1", "--branch=change", source, str(shallow))
    unknown = checked(shallow, BaseSelection(ref="origin/main"))
    (shallow / CONFIG).touch()
    repository.git("-C", str(shallow), "fetch", "-q", "--depth=1", "origin", "main:refs/remotes/origin/main")
    apart = checked(shallow, BaseSelection(ref="origin/main"))
    repository.git("-C", str(shallow), "fetch", "-q", "--unshallow", "origin")

    how = "shallow: fetch more of it (`git fetch --unshallow`; in GitHub's checkout action `fetch-depth: 0`)\n"
    assert (unknown.code, apart.code) == (2, 2)
    assert unknown.errors == f'"origin/main" is not known here; the history here is {how}'
    assert apart.errors == f'where HEAD and "origin/main" part is not in the history here, which is {how}'
    assert checked(shallow, BaseSelection(ref="origin/main")).code == 1


@pytest.mark.parametrize(
    ("ref", "text"),
    [
        ("nowhere", '"nowhere" is not known here; fetch it first, or check its name\n'),
        ("--output=x", '"--output=x" is not the name of a commit\n'),
        ("", '"" is not the name of a commit\n'),
        (
            "apart",
            'where HEAD and "apart" part is not in the history here: they have nothing in common; check the name of '
            "the base\n",
        ),
    ],
)
def test_a_base_that_is_none_is_told(repository: ConfigRepository, ref: str, text: str) -> None:
    """An unknown name, an option, nothing, a history of its own."""
    repository.git("checkout", "-q", "--orphan", "apart")
    repository.commit("apart")
    repository.git("checkout", "-q", "change")

    printed = repository.check(ref)

    assert (printed.code, printed.out, printed.errors) == (2, "", text)


def test_a_folder_outside_git_is_told(tmp_path: Path) -> None:
    """Git's own words, in one line."""
    printed = checked(write(tmp_path / "plain"), BaseSelection(ref="main"))

    assert (printed.code, printed.errors.count("\n")) == (2, 1)
    assert printed.errors.startswith("git refuses: fatal: not a git repository")


def test_a_checkout_that_belongs_to_somebody_else_is_told_with_the_remedy(repository: ConfigRepository) -> None:
    """As in a container job: git refuses, whatever a person's settings allow, for those are not read."""
    needs_root()
    os.chown(repository.folder, 12_345, 12_345)

    printed = repository.check()

    assert (printed.code, printed.errors.count("\n")) == (2, 1)
    assert printed.errors.startswith("git refuses: fatal: detected dubious ownership")
    assert f"safe.directory {repository.root.resolve()}`" in printed.errors


def test_a_block_file_that_is_renamed_is_no_change(repository: ConfigRepository) -> None:
    """Blocks go by their names, not by their files."""
    repository.git("mv", SHOP_BLOCK, f"{BLOCKS}/shop/persona.yaml")
    repository.commit()

    assert (repository.check().code, repository.check().lines) == (0, [])


def test_a_configuration_that_is_moved_is_compared_with_its_old_place(repository: ConfigRepository) -> None:
    """A move must not hide a change; two places that it could have come from are told."""
    (repository.folder / "conf").mkdir()
    repository.git("mv", CONFIG, "prompts", "conf")
    repository.root = repository.folder / "conf"
    moved = repository.check()
    repository.edit(SWAP)
    repository.commit()
    swapped = repository.check()

    assert (moved.code, moved.lines) == (0, ["compared with ./, from where the configuration was moved"])
    assert swapped.lines[0].startswith("agent_config.yaml:29: check d: agents.shop.model: Major")


def test_two_places_that_a_configuration_may_have_come_from_are_told(tmp_path: Path) -> None:
    """Nobody guesses; the way out is named."""
    repository = ConfigRepository(tmp_path / "repository", "one")
    repository.git("checkout", "-q", "main")
    write(repository.folder / "two")
    repository.commit()
    repository.git("checkout", "-q", "-B", "change")
    repository.git("mv", "one", "three")
    shutil.rmtree(repository.folder / "two")
    repository.root = repository.folder / "three"

    printed = repository.check()

    assert printed.code == 2
    assert printed.errors == "the base held configurations at one/, two/; name the right one with --base-dir\n"


def test_a_base_without_a_configuration_makes_everything_new(repository: ConfigRepository) -> None:
    """The first configuration of a repository; what it refers to is still checked."""
    repository.git("checkout", "-q", "--orphan", "empty")
    repository.git("rm", "-rq", "--cached", ".")
    repository.git("commit", "-q", "--allow-empty", "-m", "empty")
    repository.commit()

    printed = repository.check("empty~1")

    assert (printed.code, printed.lines[-1]) == (0, "the base has no agent_config.yaml: every entry counts as new")
    repository.edit(("sub_agents: [shop]", "sub_agents: [shopp]"))
    assert repository.check("empty~1").code == 1


@requirement("PF1-D-55")
def test_a_head_that_is_not_yaml_fails_check_a_and_no_other(repository: ConfigRepository) -> None:
    """With check a off nothing could be said, which is no pass."""
    repository.put({CONFIG: "agents: [\n"})

    printed = repository.check()

    assert printed.code == 1
    assert [line.split(": ")[1] for line in printed.lines] == ["check a"]
    assert repository.check(skip="a").code == 2


def test_a_base_that_is_not_yaml_stops_the_comparison_and_names_ways_out(repository: ConfigRepository) -> None:
    """An older commit can be named, or the checks that look at the base switched off."""
    good = (repository.root / CONFIG).read_text()
    repository.git("checkout", "-q", "main")
    repository.put({CONFIG: "agents: [\n"})
    repository.commit()
    repository.git("checkout", "-q", "-b", "mended")
    repository.put({CONFIG: good})
    repository.edit(SWAP)
    repository.commit()

    refused = repository.check()

    assert (refused.code, refused.out) == (2, "")
    assert refused.errors.startswith("the base cannot be compared with: agent_config.yaml:2: is not YAML")
    assert refused.errors.endswith("(--base), or switch off the checks that look at the base: --skip c --skip d\n")
    assert repository.check("main~1").code == 1
    assert repository.check(skip="cd").code == 0


def test_a_base_that_would_not_load_is_compared_with_as_far_as_it_can_be_read(repository: ConfigRepository) -> None:
    """Main refers to a block that is not there; the branch mends that, and swaps a model: only the swap is found."""
    repository.git("checkout", "-q", "main")
    (repository.root / SHOP_BLOCK).unlink()
    repository.commit()
    repository.git("checkout", "-q", "-B", "mended")
    repository.put({SHOP_BLOCK: GOOD[SHOP_BLOCK]})
    mended = repository.check()
    repository.edit(SWAP)

    assert (mended.code, repository.check().code) == (0, 1)


def test_a_configuration_that_was_a_link_is_not_taken_for_none(repository: ConfigRepository) -> None:
    """Else everything would count as new, and a swap would pass."""
    repository.git("checkout", "-q", "main")
    (repository.root / CONFIG).rename(repository.root / "real.yaml")
    (repository.root / CONFIG).symlink_to("real.yaml")
    repository.commit()

    printed = repository.check("HEAD")

    assert printed.code == 2
    assert printed.errors == "agent_config.yaml is a link in the base; give the base as a folder: --base-dir\n"


def test_two_folders_are_compared_without_git(tmp_path: Path) -> None:
    """The same checks; a base folder that is none is told, as is a link that leads out of it."""
    before, after = write(tmp_path / "before"), write(tmp_path / "after", None, SWAP)
    same = checked(before, BaseSelection(folder=str(before)))
    swapped = checked(after, BaseSelection(folder=str(before)))
    nowhere = checked(after, BaseSelection(folder=str(tmp_path / "nowhere")))
    (before / BLOCKS / "out.yaml").symlink_to("/etc/hostname")
    linked = checked(after, BaseSelection(folder=str(before)))

    assert (same.code, swapped.code, nowhere.code, linked.code) == (0, 1, 2, 2)
    assert nowhere.errors == f"{tmp_path / 'nowhere'} is not a folder; --base-dir wants one that holds {CONFIG}\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[checks]\ne = false\n", 'holds a, b, c or d, each true or false, not "e"'),
        ('[checks]\na = "no"\n', 'not "a"'),
        ("[check]\na = false\n", "may hold `rollout_export`, the table [checks], and nothing else"),
        ("checks = 1\n", "may hold `rollout_export`, the table [checks], and nothing else"),
        ("rollout_export = 1\n", "rollout_export is a path, from the folder of this file"),
        ("[checks\n", "cannot be read"),
    ],
)
def test_settings_that_say_nothing_stop_the_run(repository: ConfigRepository, text: str, why: str) -> None:
    """A typo must not leave a check on, or off, unseen."""
    repository.put({"subagent-validate-refs.toml": text})

    printed = repository.check()

    assert (printed.code, printed.out) == (2, "")
    assert why in printed.errors


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"definitions": [{"definition_id": "shop"}]}',
        '{"definitions": [{"definition_id": "shop", "state": "gone"}]}',
        '{"definitions": {"shop": "rollback"}}',
    ],
)
def test_an_export_that_is_none_stops_the_run(repository: ConfigRepository, text: str, tmp_path: Path) -> None:
    """Else nobody would count as rolled back."""
    file = tmp_path / "export.json"
    file.write_text(text)

    printed = repository.check(export=file)

    assert (printed.code, printed.errors.startswith(f"{file} is not an export of rollouts")) == (2, True)


def test_one_base_must_be_given(repository: ConfigRepository) -> None:
    """None and two are told; the checks that look at the head alone need none."""
    none = checked(repository.root, BaseSelection())
    two = checked(repository.root, BaseSelection("main", str(repository.root)))

    assert none.errors == two.errors == "give the base, either --base REF or --base-dir DIR\n"
    assert (none.code, two.code, checked(repository.root, BaseSelection(), skip="cd").code) == (2, 2, 0)
