"""The bill of materials, the licence report, version floors, and builds that give the same bytes."""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from email.message import Message
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from scripts.build_packages import REPOSITORY, build, package_folders
from scripts.supply_chain import (
    LOCK,
    SupplyChainProblem,
    components_of,
    is_accepted,
    licence_of,
    licences_of,
    locked_files,
    main,
    sbom_of,
)
from tests.packages.built import BuiltPackage, plain, project_in, requirements_of

LOCKED: Final = LOCK.read_text("utf-8")
PAGE: Final = REPOSITORY / "docs" / "supply-chain.md"
ROW: Final = re.compile(r"^\| ([\w.-]+) \| ([\w.]+) \| (\S.*) \|$", re.MULTILINE)
UNINSTALLED: Final = "mlflow"
"""An extra that the tests do without; see the pyproject of `clients/evals`."""
LATER: Final = 1_700_000_000


def name_of(folder: Path) -> str:
    """Return what pip calls the package in a folder."""
    return str(project_in(folder)["name"])


def extras_of(folder: Path) -> Sequence[str]:
    """Return every extra of a package that the lock of the tests installs."""
    return [each for each in project_in(folder).get("optional-dependencies", {}) if each != UNINSTALLED]


@pytest.mark.parametrize("folder", package_folders(), ids=name_of)
def test_every_package_has_a_bill_of_materials_with_accepted_licences_only(folder: Path) -> None:
    """Each dependency is locked, has hashes and a licence, and every reference leads to a component."""
    components = components_of(name_of(folder), extras_of(folder), LOCKED)
    bill = sbom_of(components)

    refs = [bill["metadata"]["component"]["bom-ref"], *(each["bom-ref"] for each in bill["components"])]
    assert refs == sorted(set(refs), key=refs.index)
    assert [each["ref"] for each in bill["dependencies"]] == refs
    assert {ref for each in bill["dependencies"] for ref in each["dependsOn"]} == set(refs[1:])
    assert [each.name for each in components if not each.is_ours and not each.hashes] == []
    assert all(is_accepted(each.licence) for each in components)


def test_a_bill_is_the_same_each_time_and_names_what_was_asked_for(tmp_path: Path) -> None:
    """No time and no random number is in it: a difference is a difference of contents."""
    written = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        assert main(["sbom", "--into", str(folder)]) == 0
        written.append((folder / "dispatch-sidecar.cdx.json").read_bytes())

    bill = json.loads(written[0])
    assert written[0] == written[1]
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["name"] == "dispatch-sidecar"
    assert {"asyncpg", "pyjwt", "subagents-proto"} <= {each["name"] for each in bill["components"]}


def test_the_licence_report_has_a_row_for_each_component() -> None:
    """Sorted by licence, so that a reviewer reads the rare ones together."""
    components = components_of("dispatch-sidecar", ["all"], LOCKED)

    rows = licences_of(components).splitlines()[2:]

    assert len(rows) == len(components)
    assert "| orjson | " in "".join(rows)
    assert "| MPL-2.0 AND (Apache-2.0 OR MIT) |" in "".join(rows)


# --- what is refused


def test_a_version_that_is_not_the_locked_one_is_refused() -> None:
    """The bill would describe what the tests never ran with."""
    (version,) = locked_files(LOCKED)["msgspec"]
    with pytest.raises(SupplyChainProblem, match=f"msgspec {re.escape(version)} is installed, but the lock has 0.0.1"):
        components_of("dispatch-sidecar", (), LOCKED.replace(f"msgspec=={version}", "msgspec==0.0.1"))
    with pytest.raises(SupplyChainProblem, match="the lock does not have it"):
        components_of("dispatch-sidecar", (), LOCKED.replace(f"msgspec=={version}", "another==0.0.1"))


def test_a_package_that_is_not_installed_is_named() -> None:
    """And what to do."""
    with pytest.raises(SupplyChainProblem, match="nothing-of-that-name is needed but not installed; run"):
        components_of("nothing-of-that-name", (), LOCKED)


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({}, "states no licence"),
        ({"License": "do as you like"}, "states no licence"),
        ({"License-Expression": "MIT AND"}, "no SPDX expression"),
        ({"License-Expression": "GPL-3.0-or-later"}, "not accepted"),
        ({"License-Expression": "MIT AND AGPL-3.0-only"}, "not accepted"),
    ],
)
def test_a_licence_that_is_unknown_or_not_accepted_is_refused(stated: Mapping[str, str], said: str) -> None:
    """A person has to read it first."""
    metadata = Message()
    for name, value in stated.items():
        metadata[name] = value
    with pytest.raises(SupplyChainProblem, match=said):
        licence_of("new-package", metadata)


@pytest.mark.parametrize(
    ("expression", "accepted"),
    [
        ("MIT", True),
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("MPL-2.0 AND (Apache-2.0 OR GPL-2.0-only)", True),
        ("(MIT AND GPL-2.0-only) OR ISC", True),
        ("MIT OR ISC AND GPL-2.0-only", True),
        ("GPL-2.0-only OR MIT AND GPL-2.0-only", False),
        ("", False),
    ],
)
def test_an_expression_is_satisfied_as_spdx_says(expression: str, accepted: bool) -> None:
    """AND binds more closely than OR."""
    assert is_accepted(expression) is accepted


# --- floors


def floors() -> Mapping[str, str]:
    """Return the lowest version of each dependency that a package of ours declares; ours are not among them."""
    ours = {plain(name_of(folder)) for folder in package_folders()}
    found: dict[str, str] = {}
    for folder in package_folders():
        for one in requirements_of(project_in(folder)):
            if plain(one.name) not in ours:
                assert found.setdefault(one.name, floor_of(one)) == floor_of(one), (one.name, str(folder))
    return found


def floor_of(one: Requirement) -> str:
    """Return the lowest version that a requirement allows; it has no other bound."""
    (bound,) = one.specifier
    assert bound.operator == ">=", str(one)
    return bound.version


def test_every_version_floor_is_on_the_page_with_its_reason() -> None:
    """The same floor in every package that declares it, and no row for what is not needed any more."""
    section = PAGE.read_text("utf-8").partition("## Version floors")[2].partition("\n## ")[0]
    rows = {name: (floor, reason) for name, floor, reason in ROW.findall(section) if name != "dependency"}

    assert {name: floor for name, (floor, _) in rows.items()} == floors()


# --- builds


def test_a_second_build_elsewhere_has_the_same_bytes(
    built: Sequence[BuiltPackage], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another folder, other times and permissions of the files: the same sdists and wheels. The date is a setting."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    copy, again, dated = tmp_path / "copy", tmp_path / "again", tmp_path / "dated"
    for name in listed.stdout.rstrip("\0").split("\0"):
        if (REPOSITORY / name).is_file() and not name.startswith(("tests/", "docs/")):
            target = copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(REPOSITORY / name, target)  # without its times
            target.chmod(0o600)
    again.mkdir()
    dated.mkdir()

    for package in built:
        files = build(copy / package.folder.relative_to(REPOSITORY), again)
        assert [file.read_bytes() for file in files] == [package.sdist.read_bytes(), package.wheel.read_bytes()]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(LATER))
    _, wheel = build(copy / "proto" / "python", dated)
    assert wheel.read_bytes() != (again / wheel.name).read_bytes()
