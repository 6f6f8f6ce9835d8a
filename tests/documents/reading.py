"""Blocks that are files, or parts of files: the program that reads such a file says whether it can be read."""

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from sidecar.adapters.definitions_directory.loading import load_directory
from sidecar.composition.plugins.built_ins import BUILT_INS
from sidecar.composition.plugins.from_settings import plugin_sections, policy_settings
from sidecar.core.definitions.files.addresses import problem_with_target
from sidecar.policy.entry_points import PluginSelection
from sidecar.policy.instances import with_instances
from sidecar.policy.loading import load_plugins
from sidecar.policy.problems import PluginProblem
from sidecar.policy.selection import resolve_policy
from sidecar.settings import Settings, SettingsProblem, read_settings
from tests.architecture.reading import REPOSITORY
from tests.documents.blocks import Block

LEAST: Final = {
    "SIDECAR__DEFINITIONS__PATH": str(REPOSITORY / "examples" / "config"),
    "SIDECAR__DISPATCH__FAN_OUT_CAP": "3",
}
"""What every settings file needs beside what a page is about."""
CONFIG: Final = "agent_config.yaml"
SHOWN_BESIDE: Final = ('unknown tool "planting_calendar"', 'unknown prompt block "persona-garden"')
"""What the first card refers to stands in blocks of its own; tests/unit/definitions loads them together."""


def problems_with_settings(block: Block) -> list[str]:
    """Read a part of a settings file as the start does: settings, plugins, their own settings, and who serves whom."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sidecar.toml"
        file.write_text(block.text, encoding="utf-8")
        try:
            settings = read_settings(file, LEAST)
            _check_plugins(settings)
        except SettingsProblem as unfit:
            return list(unfit.problems)
        except PluginProblem as unfit:
            return [str(unfit)]
    targets = (*settings.targets.slots.values(), *settings.targets.verticals.values())
    return [problem for target in targets if (problem := problem_with_target(target)) is not None]


def _check_plugins(settings: Settings) -> None:
    loaded = load_plugins(BUILT_INS, PluginSelection(tuple(settings.plugins.enabled)))
    host = with_instances(loaded, plugin_sections(settings))
    resolve_policy(policy_settings(settings), host)


def problems_with_definitions(block: Block) -> list[str]:
    """Put a part of a configuration into the example, where it belongs, and load the whole."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "config"
        shutil.copytree(REPOSITORY / "examples" / "config", root)
        if block.wanted.startswith("prompts/"):
            file = root / block.wanted
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
        else:
            whole = yaml.safe_load((root / CONFIG).read_text("utf-8"))
            for section, entries in _entries(yaml.safe_load(block.text), block.wanted).items():
                for entry in entries:
                    _put(whole[section], entry)
            (root / CONFIG).write_text(yaml.safe_dump(whole, sort_keys=False), encoding="utf-8")
        errors = [problem.render() for problem in load_directory(root).errors]
        return [each for each in errors if not any(one in each for one in SHOWN_BESIDE)]


def _entries(shown: Any, wanted: str) -> Mapping[str, list[dict[str, Any]]]:
    """Return entries by section: a whole file's, a list's by what they look like, or fields of the entry `shop`."""
    if isinstance(shown, list):
        said = wanted.rpartition(" ")[2]
        section = said or ("agents" if shown[0]["id"] == "shop" or "role" in shown[0] else "tools")
        return {section: shown}
    return shown if shown.keys() & {"agents", "models", "tools"} else {"agents": [{"id": "shop", **shown}]}


def _put(entries: list[dict[str, Any]], entry: dict[str, Any]) -> None:
    known = next((each for each in entries if each["id"] == entry["id"]), None)
    if known is None:
        entries.append(entry)
    else:
        _merge(known, entry)


def _merge(into: dict[str, Any], what: Mapping[str, Any]) -> None:
    for key, value in what.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def problems_with_json(block: Block) -> list[str]:
    """Read one or several JSON documents; `…` may stand inside a text."""
    decoder, rest = json.JSONDecoder(), block.text.strip()
    while rest:
        try:
            _, end = decoder.raw_decode(rest)
        except ValueError as problem:
            return [f"is not JSON: {problem}"]
        rest = rest[end:].lstrip()
    return []
