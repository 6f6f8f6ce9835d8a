"""Writes the repository of `sidecar init`: definitions, scripts, settings, tests, and a README with the first steps."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sidecar.cli.scaffolding.project_files import ScaffoldError, filled, write_project

NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\Z")
LONGEST: Final = 40
"""The most characters of a name."""
TAKEN: Final = ("concierge", "platform")
"""Names that the written configuration uses itself: the id of the orchestrator, and the owner of its prompt blocks."""

PLATFORM_BLOCKS: Final = (
    "format-conversational",
    "instructions-routing",
    "persona-concierge",
    "persona-fetch-assistant",
    "safety-base",
)
FILES: Final[Mapping[str, str]] = {
    ".github/workflows/check.yml": "ci.yml",
    ".gitignore": "gitignore",
    "README.md": "README.md",
    "ask.py": "ask.py",
    "config/agent_config.yaml": "agent_config.yaml",
    "config/evals/cases.yaml": "evals/cases.yaml",
    "config/evals/suite.yaml": "evals/suite.yaml",
    "config/evaluation_manifest.yaml": "evaluation_manifest.yaml",
    "config/prompts/components/{name}/instructions-{name}.yaml": "prompts/instructions.yaml",
    "config/prompts/components/{name}/persona-{name}.yaml": "prompts/persona.yaml",
    **{f"config/prompts/components/platform/{block}.yaml": f"prompts/{block}.yaml" for block in PLATFORM_BLOCKS},
    "data_service.py": "data_service.py",
    "requirements.txt": "requirements.txt",
    "sidecar.toml": "sidecar.toml",
    "tests/test_{module}.py": "test.py",
    "{module}_agent.py": "agent.py",
}
"""The template of each written file, by the path of the file."""


def write_repository(name: str, folder: Path) -> Path:
    """Write the repository into a new folder, `name` in `folder`, completely or not at all; return its path.

    Args:
        name: id of the sub-agent, and name of the folder.
        folder: exists.

    Raises:
        ScaffoldError: the name is not valid, a file with this name exists, or the folder cannot be written.
    """
    words = {"name": checked_name(name), "module": name.replace("-", "_")}
    contents = {path.format(**words): filled(f"init_templates/{file}.txt", words) for path, file in FILES.items()}
    # The folder for sockets must exist before the first start, and git keeps no empty folder.
    return write_project(name, folder, contents | {".run/.gitkeep": ""})


def checked_name(name: str) -> str:
    """Return the name of a sub-agent; raise `ScaffoldError` if it cannot be one."""
    if not NAME.match(name) or len(name) > LONGEST:
        raise ScaffoldError(
            f"{name[:60]!r} cannot be a sub-agent's name; take at most {LONGEST} lower-case letters, digits and single "
            "`-`, beginning with a letter, e.g. `travel`"
        )
    if name in TAKEN:
        raise ScaffoldError(f"{name!r} is a name that the written configuration uses itself; choose another one")
    return name
