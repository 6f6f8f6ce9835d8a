"""Patches for the configuration repository, on real git repositories: what they change, and what they leave."""

import io
from pathlib import Path
from typing import Any, Final

import pytest

from sidecar.adapters.definitions_directory.cleanup.inspect_checkout import look
from sidecar.adapters.definitions_directory.cleanup.patch_draft import patch_of
from sidecar.adapters.definitions_directory.loading import load_directory
from sidecar.cli.validate.command import ValidateOptions, validate
from sidecar.core.rollout.checkout_inspection import CheckoutRefused, CleanupPatch, DecommissionPatchRequest
from sidecar.core.rollout.decommission_facts import Choice, CleanupStep, CodeStatus
from tests.support.checkouts import MODULES as MODULES_FOLDER
from tests.support.checkouts import a_repository, applied
from tests.support.config_repository import ConfigRepository

ENTRY, REFERENCES, MODULES, BLOCKS, EVALS_AND_TOOLS = CleanupStep


def wish(*steps: CleanupStep, **fields: Any) -> DecommissionPatchRequest:
    """Return a wish about `shop`."""
    given: dict[str, Any] = {"definition_id": "shop", "slot": "shop", "began": "2026-11-22", "due": "2027-02-20"}
    return DecommissionPatchRequest(steps=steps, **(given | fields))


def done(repository: ConfigRepository, asked: DecommissionPatchRequest) -> tuple[CleanupPatch, str]:
    """Have a patch written, apply it, and see that all checks of the repository pass; return it and what changed."""
    before = repository.git("status", "--porcelain")
    patch = patch_of(repository.root, asked)
    assert repository.git("status", "--porcelain") == before  # the checkout is only read
    base = repository.git("rev-parse", "HEAD")
    changed = applied(repository, patch.diff)
    out = io.StringIO()
    assert validate(repository.root, ValidateOptions(), load_directory, out) == 0, out.getvalue()
    checks = repository.check(base)
    assert checks.code == 0, checks.out
    assert look(repository.root, asked).left == ()
    return patch, changed


def changed_lines(diff: str) -> list[str]:
    """Return the lines that a patch adds and takes away."""
    return [line for line in diff.split("\n") if line[:1] in {"+", "-"} and line[:3] not in {"+++", "---"}]


def test_the_first_patch_marks_the_entry_and_takes_it_off_the_lists(tmp_path: Path) -> None:
    """Four lines are changed; comments, spaces and order stay; the overrides that check d asks for are part of it."""
    repository = a_repository(tmp_path)
    patch, changed = done(repository, wish(ENTRY, REFERENCES))

    assert changed == "M\tagent_config.yaml"
    assert changed_lines(patch.diff) == [
        "-    sub_agents: [shop, rewards] # in this order",
        "+    # minor-change: shop is decommissioned, begun 2026-11-22",
        "+    sub_agents: [rewards] # in this order",
        "+    # minor-change: shop is decommissioned, begun 2026-11-22",
        "+    status: deprecated",
    ]


def test_an_entry_is_never_marked_without_being_taken_off_the_lists(tmp_path: Path) -> None:
    """Step 1 alone: check c would not let it through otherwise."""
    repository = a_repository(tmp_path)
    done(repository, wish(ENTRY))
    assert look(repository.root, wish(REFERENCES)).left == ()


def test_all_five_steps_leave_nothing_of_it_and_everything_that_others_share(tmp_path: Path) -> None:
    """Patch after patch, each merged; a shared block, a shared tool and the neighbour's evaluations stay."""
    repository = a_repository(tmp_path)
    kept: dict[str, Any] = {"blocks": ("persona-shop", "tone"), "tools": ("search_offers", "render_offer_card")}
    fates: dict[str, Any] = {"evals": Choice.REMOVE, "tools_fate": Choice.REMOVE}
    files = [
        done(repository, wish(*steps, **kept, **fates))[1].split("\n")
        for steps in ((ENTRY, REFERENCES), (MODULES,), (BLOCKS,), (EVALS_AND_TOOLS,))
    ]

    assert files == [
        ["M\tagent_config.yaml"],
        [f"D\t{MODULES_FOLDER}/shop.py"],
        ["M\tagent_config.yaml", "D\tprompts/components/shop/persona-shop.yaml"],
        ["M\tagent_config.yaml", "M\tevaluation_manifest.yaml"],
    ]
    config = (repository.root / "agent_config.yaml").read_text()
    manifest = (repository.root / "evaluation_manifest.yaml").read_text()
    assert ("search_offers" in config, "render_offer_card" in config) == (False, True)
    for comment in ("What the assistants are.", "everybody's", "in this order", "Points and tiers.", "The end."):
        assert f"# {comment}" in config
    assert manifest.count("shop") == 0
    for line in ("version: 1 # of the format", "  # judged by hand", "    sub_agents: [rewards]", "  rewards_smoke:"):
        assert line in manifest
    assert (repository.root / "prompts/components/rewards/tone.yaml").exists()
    assert look(repository.root, wish(*CleanupStep, remove_entry=True, **kept, **fates)).left == ()


def test_one_patch_may_do_all_of_it(tmp_path: Path) -> None:
    """Through step 5: the entry is not marked first, it goes."""
    repository = a_repository(tmp_path)
    patch, changed = done(repository, wish(*CleanupStep, evals=Choice.RETAIN, tools_fate=Choice.RETAIN))

    assert [line.split("\t")[0] for line in changed.split("\n")] == ["M", "D", "D"]
    assert "status: deprecated" not in patch.diff
    assert "search_offers" in (repository.root / "agent_config.yaml").read_text()


def test_a_module_may_be_marked_deprecated_for_a_while(tmp_path: Path) -> None:
    """One comment line; deleted later; until then a look for what is left finds it."""
    repository = a_repository(tmp_path)
    patch, changed = done(repository, wish(MODULES, code=CodeStatus.DEPRECATED))
    left = look(repository.root, wish(MODULES)).left

    assert changed == f"M\t{MODULES_FOLDER}/shop.py"
    assert changed_lines(patch.diff) == ["+# status: deprecated: shop is decommissioned, to be deleted by 2027-02-20"]
    assert [each.where for each in left] == [f"{MODULES_FOLDER}/shop.py"]


def test_a_configuration_inside_a_larger_repository_is_patched_from_its_top(tmp_path: Path) -> None:
    """`git apply` at the top takes it; modules beside the configuration are found there, too."""
    repository = a_repository(tmp_path, under="deploy/assistants")
    _, changed = done(repository, wish(*CleanupStep, evals=Choice.RETAIN, tools_fate=Choice.RETAIN))

    assert changed.split("\n")[0] == "M\tdeploy/assistants/agent_config.yaml"
    assert f"D\tdeploy/assistants/{MODULES_FOLDER}/shop.py" in changed


def test_a_slot_that_another_definition_fills_stays_on_the_lists(tmp_path: Path) -> None:
    """`shop2` fills it; rolled back itself, it does not."""
    repository = a_repository(tmp_path)
    entry = "  - id: shop2\n    slot: shop\n    description: More.\n    role: native\n    model: nano\n"
    repository.edit(("  # Points and tiers.\n", f"{entry}\n  # Points and tiers.\n"))
    repository.commit()
    filled = patch_of(repository.root, wish(ENTRY, REFERENCES))
    empty = patch_of(repository.root, wish(ENTRY, REFERENCES, rolled_back=frozenset({"shop2"})))

    assert not [line for line in changed_lines(filled.diff) if "sub_agents" in line]
    assert "+    sub_agents: [rewards] # in this order" in changed_lines(empty.diff)


def test_what_is_done_already_is_no_change(tmp_path: Path) -> None:
    """The same patch asked for twice: the second one is empty."""
    repository = a_repository(tmp_path)
    done(repository, wish(ENTRY, REFERENCES))

    assert patch_of(repository.root, wish(ENTRY, REFERENCES)) == CleanupPatch("", (), ())


LIST: Final = "sub_agents: [shop, rewards] # in this order"
LEADER: Final = (
    "  - id: concierge\n    description: Leads the conversation.\n    role: orchestrator\n    model: nano\n"
    f"    prompt_blocks: [instructions-routing]\n    {LIST}\n"
)
BRIEFLY: Final = (
    "  - {id: concierge, description: Leads., role: orchestrator, model: nano, sub_agents: [rewards, shop]}\n"
)


@pytest.mark.parametrize(
    ("old", "new", "newline"),
    [
        ("  - id: shop\n", "  - id: shop\n    deprecated: false\n", "\n"),
        ("  - id: shop\n", "  - id: shop\n    status: active\n", "\r\n"),
        ("  - id: shop\n    description", '  - id: "shop" # the one\n    description', "\n"),
        (LIST, "sub_agents:\n      - shop # first\n      - rewards", "\n"),
        (LIST, "sub_agents:\n    - rewards\n    - shop\n    # nobody else", "\r\n"),
        (LIST, "sub_agents: [\n      rewards, # points\n      shop\n    ]", "\n"),
        (LIST, "sub_agents: [shop]", "\n"),
        (LIST, "sub_agents:\n      - shop", "\r\n"),
        (LEADER, BRIEFLY, "\n"),
    ],
)
def test_other_ways_to_write_it_are_changed_as_carefully(tmp_path: Path, old: str, new: str, newline: str) -> None:
    """Marked, unnamed, and removed in the end, with everything else as it was; with either end of line."""
    repository = a_repository(tmp_path)
    repository.edit((old, new))
    file = repository.root / "agent_config.yaml"
    file.write_bytes(file.read_text().replace("\n", newline).encode())
    repository.commit()
    patch, _ = done(repository, wish(ENTRY, REFERENCES))
    marked = file.read_bytes()
    done(repository, wish(BLOCKS))

    assert b"status: deprecated" in marked
    assert {line.endswith("\r") for line in changed_lines(patch.diff)} == {newline == "\r\n"}
    for comment in ("What the assistants are.", "Points and tiers.", "spaces and all", "The end."):
        assert f"# {comment}".encode() in file.read_bytes()


def test_undecided_matters_are_no_patch(tmp_path: Path) -> None:
    """It says to decide first."""
    repository = a_repository(tmp_path)
    with pytest.raises(CheckoutRefused, match="no decision yet about evals and tools of shop"):
        patch_of(repository.root, wish(EVALS_AND_TOOLS, evals=Choice.RETAIN))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("model: nano\n", "model: [\n", "does not load as it is"),
        ("  - id: rewards\n", "  - id: rewards\n    colour: blue\n", "does not load as it is"),
    ],
)
def test_a_configuration_that_does_not_load_is_mended_first(tmp_path: Path, old: str, new: str, said: str) -> None:
    """It says what is wrong."""
    repository = a_repository(tmp_path)
    repository.edit((old, new))
    with pytest.raises(CheckoutRefused, match=said):
        patch_of(repository.root, wish(ENTRY))


def test_a_folder_that_holds_no_configuration_is_told(tmp_path: Path) -> None:
    """An empty folder."""
    with pytest.raises(CheckoutRefused, match=r"holds no agent_config\.yaml"):
        patch_of(tmp_path, wish(ENTRY))


def test_a_link_is_changed_by_hand(tmp_path: Path) -> None:
    """Its module is a link to elsewhere."""
    repository = a_repository(tmp_path / "a")
    module = repository.root / MODULES_FOLDER / "shop.py"
    module.unlink()
    module.symlink_to("rewards.py")
    repository.commit()
    with pytest.raises(CheckoutRefused, match="symbolic link; change it by hand"):
        patch_of(repository.root, wish(MODULES, code=CodeStatus.DEPRECATED))


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (
            "a: &a ["
            + "x, " * 20
            + "]\n"
            + "".join(f"{n}: &{n} [{f'*{b}, ' * 20}]\n" for b, n in zip("abcde", "bcdef", strict=True)),
            "aliases",
        ),
        ("a: &a [*a]\n", "can be read"),
        ("a: " + "[" * 5000 + "\n", "can be read"),
    ],
)
def test_a_manifest_that_would_never_be_read_to_its_end_is_refused(tmp_path: Path, manifest: str, said: str) -> None:
    """Aliases that multiply, one that holds itself, and lists in lists in lists."""
    repository = a_repository(tmp_path)
    repository.put({"evaluation_manifest.yaml": manifest})
    with pytest.raises(CheckoutRefused, match=said):
        look(repository.root, wish(*CleanupStep, evals=Choice.REMOVE, tools_fate=Choice.REMOVE))
