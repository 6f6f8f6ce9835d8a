"""Implements `sidecar subagent new`: adds a sub-agent to a repository that `sidecar init` wrote, or changes nothing."""

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sidecar.cli.init.new_cases import with_cases
from sidecar.cli.init.repository import checked_name
from sidecar.cli.init.yaml_insertion import InsertedYaml, text_of, value_of
from sidecar.cli.scaffolding.project_files import ScaffoldError, filled
from sidecar.core.decoding import DecodeError, from_toml, from_utf8
from sidecar.core.definitions.resolve import LoadedCatalogue

SETTINGS: Final = "sidecar.toml"
SLOTS: Final = re.compile(r"^\[targets\.slots\][ \t]*(#.*)?$", re.MULTILINE)
"""The header of the table with the addresses of runner hosts, in the settings."""
NEW_FILES: Final[Mapping[str, str]] = {
    "{config}/prompts/components/{name}/instructions-{name}.yaml": "instructions.yaml",
    "{config}/prompts/components/{name}/persona-{name}.yaml": "persona.yaml",
    "tests/test_{module}.py": "test.py",
    "{module}_agent.py": "agent.py",
}
"""The template of each new file. None of these files may exist."""

Load = Callable[[Path], LoadedCatalogue]
"""Reads the definitions below a folder."""


@dataclass(frozen=True, slots=True)
class Added:
    """The changes, as paths in the folder.

    Attributes:
        written: new files.
        changed: files with a new entry.
    """

    written: tuple[str, ...]
    changed: tuple[str, ...]


def add_sub_agent(name: str, folder: Path, orchestrator: str, load: Load) -> Added:
    """Add the sub-agent `name`; nothing is changed if a file exists already, or if the result would be invalid.

    Args:
        name: id of the sub-agent.
        folder: the repository.
        orchestrator: the agent that may call it; empty: the only one.
        load: reads the changed definitions, to check them.

    Raises:
        ScaffoldError: names cause and remedy.
    """
    topic = checked_name(name).replace("-", " ")
    words = {"name": name, "module": name.replace("-", "_"), "topic": topic, "Topic": topic.capitalize()}
    settings, config = _settings_of(folder)
    # The three changed files as texts; nothing is written yet.
    new_settings = _with_slot(settings, name)
    agents, others = _with_agent(_text(folder, f"{config}/agent_config.yaml"), words, orchestrator)
    evaluation = _with_evaluation(folder, config, words, others)
    changed = {SETTINGS: new_settings, f"{config}/agent_config.yaml": agents, **evaluation}
    new = {
        path.format(config=config, **words): filled(f"init_templates/new/{template}.txt", words)
        for path, template in NEW_FILES.items()
    }
    # Before anything is written, so that the usual refusal needs no undo.
    # `is_symlink` also finds a link whose target does not exist.
    existing = [path for path in new if (folder / path).exists() or (folder / path).is_symlink()]
    if existing:
        raise ScaffoldError(f"{folder / existing[0]} exists already; choose another name, or move it away")
    _write(folder, new, changed, lambda: load(folder / config))
    return Added(tuple(new), tuple(changed))


def _settings_of(folder: Path) -> tuple[str, str]:
    """Return the text of the settings, and the folder of the definitions that they name. Raises `ScaffoldError`."""
    if not (folder / SETTINGS).is_file():
        raise ScaffoldError(
            f"{folder / SETTINGS} does not exist; run this in a folder that `sidecar init` wrote, or name it with --dir"
        )
    text = _text(folder, SETTINGS)
    try:
        config = from_toml(text).get("definitions", {}).get("path", "config")
    except (DecodeError, AttributeError) as error:
        raise ScaffoldError(f"{folder / SETTINGS} is not valid TOML: {error}") from None
    return text, str(config)


def _text(folder: Path, path: str) -> str:
    try:
        return from_utf8((folder / path).read_bytes())
    except (OSError, DecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ScaffoldError(f"{folder / path} cannot be read: {reason}") from None


def _with_slot(text: str, name: str) -> str:
    """Return the settings with the address of the new runner host. Raises `ScaffoldError`.

    The entry is inserted as text, because writing parsed TOML would lose the comments.
    """
    address = f"unix:.run/{name}.sock"
    if name in from_toml(text).get("targets", {}).get("slots", {}):
        raise ScaffoldError(f"{SETTINGS} has a target for {name!r} already; choose another name, or remove that line")
    # A function as replacement, because a backslash in a text would be an escape.
    changed, headers = SLOTS.subn(lambda header: f'{header.group()}\n{name} = "{address}"', text, count=1)
    if not headers:
        changed = f'{text.rstrip()}\n\n[targets.slots]\n{name} = "{address}"\n'
    try:
        # The text was changed by a pattern; parsing it shows whether the change has the intended effect.
        inserted = from_toml(changed)["targets"]["slots"].get(name) == address
    except (DecodeError, KeyError, AttributeError):
        inserted = False
    if not inserted:
        raise ScaffoldError(
            f"{SETTINGS} has its targets in a form that cannot be changed; write them below [targets.slots]"
        )
    return changed


def _with_agent(text: str, words: dict[str, str], orchestrator: str) -> tuple[str, list[str]]:
    """Return `agent_config.yaml` with the new agent, and the other sub-agents that the orchestrator may call."""
    file = InsertedYaml(text, "agent_config.yaml")
    agents = file.items("agents")
    if any(text_of(agent, "id") == words["name"] for agent in agents):
        raise ScaffoldError(f"agent_config.yaml has an agent {words['name']!r} already; choose another name")
    # The orchestrator's model: the configuration surely knows it.
    model = text_of(_caller(agents, orchestrator), "model")
    file.append_item("agents", filled("init_templates/new/agent_entry.yaml.txt", {**words, "model": model}))
    # Looked up again: the insertion has moved the positions of all nodes behind it.
    caller = _caller(file.items("agents"), orchestrator)
    # Before the new name is appended to the same list.
    others = [str(each.value) for each in getattr(value_of(caller, "sub_agents"), "value", ())]
    file.append_name(caller, "sub_agents", words["name"])
    return file.text, others


def _caller(agents: list[Any], orchestrator: str) -> Any:
    """Return the entry of the orchestrator that may call the new agent. Raises `ScaffoldError`."""
    callers = {text_of(agent, "id"): agent for agent in agents if text_of(agent, "role") == "orchestrator"}
    if orchestrator:
        if orchestrator not in callers:
            raise ScaffoldError(f"agent_config.yaml has no orchestrator {orchestrator!r}; it has: {', '.join(callers)}")
        return callers[orchestrator]
    if len(callers) != 1:
        what = f"several orchestrators ({', '.join(callers)})" if callers else "no orchestrator"
        raise ScaffoldError(f"agent_config.yaml has {what}; name the one that may call it with --orchestrator")
    return next(iter(callers.values()))


def _with_evaluation(folder: Path, config: str, words: dict[str, str], others: list[str]) -> dict[str, str]:
    """Return the files of the evaluation, by path, with cases for the new agent."""
    cases_path, suite_path = f"{config}/evals/cases.yaml", f"{config}/evals/suite.yaml"
    cases = InsertedYaml(_text(folder, cases_path), cases_path)
    suite = InsertedYaml(_text(folder, suite_path), suite_path)
    with_cases(cases, suite, words, others)
    return {cases_path: cases.text, suite_path: suite.text}


def _write(
    folder: Path, new: Mapping[str, str], changed: Mapping[str, str], load: Callable[[], LoadedCatalogue]
) -> None:
    """Write all files, or, if one cannot be written or the result has a problem, leave them as they were."""
    # As bytes, so that the undo restores line ends and encoding exactly.
    old_contents = {path: (folder / path).read_bytes() for path in changed}
    created: list[Path] = []
    replaced: list[str] = []
    try:
        for path, text in new.items():
            # Folder by folder, so that the undo removes only those that were created here.
            for parent in reversed((folder / path).parents):
                if not parent.exists():
                    parent.mkdir()
                    created.append(parent)
            # `x`: a file that another program has created meanwhile is not overwritten.
            with (folder / path).open("x", encoding="utf-8") as file:
                created.append(folder / path)
                file.write(text)
        for path, text in changed.items():
            _replace(folder / path, text.encode())
            replaced.append(path)
        # Checked on disk, because the loader reads files; an error is undone below.
        if errors := load().errors:
            raise ScaffoldError(f"the definitions would be invalid, so nothing was changed: {errors[0].render()}")
    except (OSError, ScaffoldError) as error:
        # In reverse: files first, then the folders that are empty by then. This also makes room on a full disk.
        for each in reversed(created):
            each.rmdir() if each.is_dir() else each.unlink()
        for path in replaced:
            _replace(folder / path, old_contents[path])
        if isinstance(error, ScaffoldError):
            raise
        # A file that was opened, but could not be filled, has no name in its error.
        name = error.filename or created[-1]
        raise ScaffoldError(f"{name} cannot be written: {error.strerror}; nothing was changed") from error


def _replace(path: Path, content: bytes) -> None:
    """Replace the content of a file. If this fails, e.g. on a full disk, the file has its old content."""
    target = path.resolve()  # of a link, the file that it names
    fresh = target.with_name(f".{target.name}.unfinished")
    try:
        fresh.write_bytes(content)
        shutil.copymode(target, fresh)
        fresh.replace(target)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        # The name that the user knows; a failed write has none.
        raise OSError(error.errno, error.strerror, str(path)) from None
