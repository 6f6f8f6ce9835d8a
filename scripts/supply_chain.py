"""Writes the bill of materials and the licence report of a package, from what is installed and from the lock.

`python -m scripts.supply_chain sbom` writes `dist/<package>.cdx.json` (CycloneDX 1.6); `licences` prints a table. Both
end with 1 if a dependency differs from the lock, or has a licence that is unknown or not accepted. The same environment
gives the same bytes.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.lock_requirements import OURS, REPOSITORY

LOCK: Final = REPOSITORY / "requirements" / "test.txt"
LOCKED: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
HASH: Final = re.compile(r"sha256:([0-9a-f]{64})")
ACCEPTED: Final = frozenset(
    """
    Apache-2.0 BSD-2-Clause BSD-3-Clause CNRI-Python ISC MIT MIT-0 MPL-2.0 PSF-2.0 ZPL-2.1 Zlib
    """.split()
)
"""SPDX ids. All allow use inside closed products; MPL-2.0 asks for changes to its own files only."""
NAMED: Final[Mapping[str, str]] = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "Apache-2.0": "Apache-2.0",
    "BSD-2-Clause": "BSD-2-Clause",
    "BSD-3-Clause": "BSD-3-Clause",
    "ISC License": "ISC",
    "ISC License (ISCL)": "ISC",
    "MIT": "MIT",
    "MIT License": "MIT",
    "MPL-2.0": "MPL-2.0",
    "any-OSI": "Zlib",  # apsw: its licence file is the zlib text, "or any OSI approved licence"
}
"""What older metadata write in `License`, or in the last part of a classifier. A new wording is unknown at first."""
READ: Final[Mapping[str, str]] = {
    "itsdangerous": "BSD-3-Clause",
    "jinja2": "BSD-3-Clause",
    "pyasn1-modules": "BSD-2-Clause",
}
"""What the licence file says where the metadata say no more than `BSD`."""


class SupplyChainProblem(Exception):
    """Something that must not be shipped unseen; the text says what and where."""


@dataclass(frozen=True, slots=True)
class Component:
    """One installed package.

    Attributes:
        name: as registries compare it.
        licence: an SPDX expression.
        needs: names of the packages that it depends on here.
        hashes: SHA-256 of the files that the lock accepts for it; none for our own packages.
    """

    name: str
    version: str
    licence: str
    summary: str
    needs: Sequence[str] = ()
    hashes: Sequence[str] = field(default=())

    @property
    def purl(self) -> str:
        """The package URL."""
        return f"pkg:pypi/{self.name}@{self.version}"

    @property
    def is_ours(self) -> bool:
        """Whether this repository publishes it."""
        return self.name in OURS


Files = Mapping[str, Mapping[str, Sequence[str]]]


def locked_files(lock: str) -> Files:
    """Return the accepted SHA-256 of each package in a lock, by name and version; some differ by version of Python."""
    files: dict[str, dict[str, Sequence[str]]] = {}
    for name, version, rest in LOCKED.findall(lock):
        files.setdefault(canonicalize_name(name), {})[version] = sorted(HASH.findall(rest))
    return files


def components_of(package: str, extras: Sequence[str], lock: str) -> Sequence[Component]:
    """Return a package and everything that it needs here, by name; the package first.

    Args:
        package: an installed package.
        extras: of that package.
        lock: text of the lock that each dependency has to agree with.

    Raises:
        SupplyChainProblem: a package is not installed, differs from the lock, or has no known licence.
    """
    files = locked_files(lock)
    found: dict[str, Component] = {}
    visited: dict[str, set[str]] = {}
    pending = [(canonicalize_name(package), frozenset(extras))]
    while pending:
        name, wanted = pending.pop()
        before = visited.setdefault(name, set())
        if name in found and wanted <= before:
            continue
        before |= wanted
        installed = _installed(name)
        needs = [(canonicalize_name(each.name), frozenset(each.extras)) for each in _needed(installed, before)]
        pending += needs
        found[name] = _component(name, installed, sorted({each for each, _ in needs} - {name}), files)
    first = found.pop(canonicalize_name(package))
    return [first, *(found[name] for name in sorted(found))]


def _installed(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError:
        raise SupplyChainProblem(f"{name} is needed but not installed; run this in the environment of `make`") from None


def _needed(installed: Distribution, extras: set[str]) -> Iterator[Requirement]:
    for text in installed.requires or ():
        one = Requirement(text)
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield one


def _component(name: str, installed: Distribution, needs: Sequence[str], files: Files) -> Component:
    hashes: Sequence[str] = ()
    if name not in OURS:
        versions = files.get(name, {})
        if installed.version not in versions:
            said = f"the lock has {', '.join(versions)}" if versions else "the lock does not have it"
            raise SupplyChainProblem(f"{name} {installed.version} is installed, but {said}; run `make` again")
        hashes = versions[installed.version]
    metadata: Any = installed.metadata
    summary = metadata.get("Summary") or ""
    return Component(name, installed.version, licence_of(name, metadata), summary, needs, hashes)


def licence_of(name: str, metadata: Any) -> str:
    """Return the SPDX expression that the metadata of a package state.

    Raises:
        SupplyChainProblem: they state none that is known, or one that is not accepted.
    """
    stated = metadata.get("License-Expression")
    if not stated:
        classifiers = [each.rpartition(" :: ")[2] for each in metadata.get_all("Classifier", ()) if "License" in each]
        words = [(metadata.get("License") or "").strip().partition("\n")[0].strip(), *classifiers]
        stated = READ.get(name) or next((NAMED[word] for word in words if word in NAMED), None)
    if stated is None:
        raise SupplyChainProblem(f"{name} states no licence that scripts/supply_chain.py knows; read it and add it")
    try:
        expression = str(canonicalize_license_expression(stated))
    except InvalidLicenseExpression:
        raise SupplyChainProblem(f"{name} states {stated!r}, which is no SPDX expression") from None
    if not is_accepted(expression):
        raise SupplyChainProblem(f"{name} is under {expression}, which is not accepted; use another package")
    return expression


def is_accepted(expression: str) -> bool:
    """Return whether an SPDX expression can be satisfied with accepted licences: AND needs both, OR one of them."""
    words = [word for word in re.split(r"([()])|\s+", expression) if word]

    def either() -> bool:
        met = both()
        while words and words[0] == "OR":
            words.pop(0)
            met = both() or met
        return met

    def both() -> bool:
        met = one()
        while words and words[0] == "AND":
            words.pop(0)
            met = one() and met
        return met

    def one() -> bool:
        word = words.pop(0) if words else ""
        if word != "(":
            return word in ACCEPTED
        met = either()
        return words.pop(0) == ")" and met

    return either() and not words


def sbom_of(components: Sequence[Component]) -> Mapping[str, Any]:
    """Return the bill of materials of the first component, as CycloneDX 1.6."""
    first, *others = components
    known = {each.name: each.purl for each in components}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _as_cyclonedx(first, "application")},
        "components": [_as_cyclonedx(each, "library") for each in others],
        "dependencies": [{"ref": each.purl, "dependsOn": [known[name] for name in each.needs]} for each in components],
    }


def _as_cyclonedx(each: Component, kind: str) -> Mapping[str, Any]:
    licence = {"license": {"id": each.licence}} if each.licence in ACCEPTED else {"expression": each.licence}
    shown: dict[str, Any] = {"type": kind, "bom-ref": each.purl, "name": each.name, "version": each.version}
    shown |= {"description": each.summary, "licenses": [licence], "purl": each.purl}
    if (
        each.hashes
    ):  # of every file of this version that the lock accepts: which one is installed depends on the machine
        hashes = [{"alg": "SHA-256", "content": content} for content in each.hashes]
        shown["externalReferences"] = [{"type": "distribution", "url": each.purl, "hashes": hashes}]
    return shown


def licences_of(components: Sequence[Component]) -> str:
    """Return the licence report as a table, by licence and name."""
    rows = sorted((each.licence, each.name, each.version) for each in components)
    lines = [f"| {name} | {version} | {licence} |" for licence, name, version in rows]
    return "\n".join(["| package | version | licence |", "|---|---|---|", *lines]) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m scripts.supply_chain", description=__doc__)
    parser.add_argument("report", choices=("sbom", "licences"))
    parser.add_argument("--package", default="dispatch-sidecar", help="one of our packages")
    parser.add_argument("--extra", action="append", help="of the package; by default `all` of the sidecar")
    parser.add_argument("--into", type=Path, default=REPOSITORY / "dist", help="folder of the bill of materials")
    chosen = parser.parse_args(arguments)
    extras = chosen.extra or (["all"] if chosen.package == "dispatch-sidecar" else [])
    try:
        components = components_of(chosen.package, extras, LOCK.read_text("utf-8"))
    except SupplyChainProblem as problem:
        print(f"supply chain: {problem}", file=sys.stderr)
        return 1
    if chosen.report == "licences":
        sys.stdout.write(licences_of(components))
        return 0
    chosen.into.mkdir(parents=True, exist_ok=True)
    target = chosen.into / f"{chosen.package}.cdx.json"
    target.write_text(json.dumps(sbom_of(components), indent=2) + "\n", "utf-8")
    print(f"{target}: {len(components) - 1} components")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
