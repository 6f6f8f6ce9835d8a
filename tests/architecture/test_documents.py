"""What the documents say is there: links, anchors, files, `make` targets, `sidecar` commands and their options."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import pytest
import typer

from sidecar.cli.app import Commands, make_app
from sidecar_connector_mcp.pins import parser as parser_of_pins
from subagents_evals.arguments import parser
from tests.architecture.reading import REPOSITORY, planted

FOLDERS: Final = ("", "docs", "docs/evidence", "proto", "proto/**", "clients/*", "plugins", "plugins/*", "examples/**")
FENCE: Final = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
HEADING: Final = re.compile(r"^#+ (.*)$", re.MULTILINE)
SPAN: Final = re.compile(r"`([^`\n]+)`")
FILE: Final = re.compile(r"(?:tests|sidecar|scripts|examples|plugins|clients|docs|proto)(?:/[\w.-]+)+/?")
ABOUT_OTHERS: Final = frozenset({"tests/test_conformance.py", "tests/test_typescript_client.py"})
"""Files of a plugin, or of a client, that the page is about."""
TARGET: Final = re.compile(r"^([a-z-]+):", re.MULTILINE)


class Nothing:
    """What the command line is made with where none of it is run."""

    def __getattr__(self, name: str) -> "Nothing":
        """Have nothing of that name either."""
        return self

    def __call__(self) -> "Nothing":
        """Return nothing either."""
        return self


@dataclass(frozen=True)
class Page:
    """One document: prose without its blocks, and what can be typed: lines of blocks, and code in the prose."""

    path: Path
    text: str

    @property
    def prose(self) -> str:
        """The text without fenced blocks."""
        return FENCE.sub("", self.text)

    @property
    def typed(self) -> Iterator[str]:
        """Every line of a block of commands, without its prompt, and every span of code."""
        for kind, block in FENCE.findall(self.text):
            if kind in {"", "console", "sh"}:
                joined = block.replace("\\\n", " ")
                lines = [line.strip() for line in joined.splitlines()]
                yield from (line.removeprefix("$ ") for line in lines if kind != "console" or line.startswith("$ "))
        yield from SPAN.findall(self.prose)

    @property
    def anchors(self) -> set[str]:
        """What a link may name after `#`: ids in the text, e.g. of table rows, and what GitHub makes of headings."""
        plain = (re.sub(r"[^\w\- ]", "", title.strip().lower()) for title in HEADING.findall(self.prose))
        return {*re.findall(r'<a id="([^"]+)">', self.prose), *(title.replace(" ", "-") for title in plain)}

    def links(self) -> Iterator[tuple[Path, str]]:
        """Yield where each link inside the repository leads: a path, and an anchor if it names one."""
        for link in LINK.findall(self.prose):
            if "://" not in link:
                path, _, anchor = link.partition("#")
                yield ((self.path.parent / path).resolve() if path else self.path), anchor


def pages(root: Path = REPOSITORY) -> dict[Path, Page]:
    """Return every document that people read, by its path."""
    found = {path.resolve() for folder in FOLDERS for path in root.glob(f"{folder}/*.md".lstrip("/"))}
    kept = sorted(path for path in found if "node_modules" not in path.parts)
    return {path: Page(path, path.read_text(encoding="utf-8")) for path in kept}


def dead_links(found: dict[Path, Page]) -> Iterator[str]:
    """Yield each link that leads nowhere, and each anchor that its page does not have."""
    for page in found.values():
        for path, anchor in page.links():
            if not path.exists():
                yield f"{page.path.name}: there is no {path.name}"
            elif anchor and path in found and anchor not in found[path].anchors:
                yield f"{page.path.name}: {path.name} has no #{anchor}"


def unreached(found: dict[Path, Page], first: Path) -> Iterator[str]:
    """Yield each page that no chain of links leads to."""
    seen, to_read = {first}, [first]
    while to_read:
        news = {path for path, _ in found[to_read.pop()].links() if path in found} - seen
        seen |= news
        to_read += news
    yield from (str(path) for path in found if path not in seen)


def missing_files(found: dict[Path, Page], root: Path = REPOSITORY) -> Iterator[str]:
    """Yield each path in a span of code that is not there."""
    for page in found.values():
        for span in SPAN.findall(page.prose):
            if FILE.fullmatch(span) and span not in ABOUT_OTHERS and not (root / span).exists():
                yield f"{page.path.name}: there is no {span}"


def unknown_commands(found: dict[Path, Page], root: Path = REPOSITORY) -> Iterator[str]:
    """Yield each `make` target, `sidecar` command and option that does not exist."""
    targets = set(TARGET.findall((root / "Makefile").read_text(encoding="utf-8")))
    for page in found.values():
        for line in page.typed:
            wrong = [f"make {name}" for name in re.findall(r"^make ([a-z-]+)", line) if name not in targets]
            for command in re.findall(r"(?:^|\$\(|[;&|] )sidecar ([^;&|>#)]*)", line):
                wrong += _misspelt(command.split())
            yield from (f"{page.path.name}: there is no `{each}`" for each in wrong)


@cache
def _the_command_line() -> Any:
    return typer.main.get_command(make_app(cast("Commands", Nothing())))  # nothing is run


def _misspelt(words: list[str]) -> Iterator[str]:
    if words[:1] == ["eval"]:
        yield from _misspelt_eval(words[1:])
        return
    if words[:1] == ["mcp-pins"]:  # a command of `plugins/connector_mcp`
        known = {option for one in parser_of_pins()._actions for option in one.option_strings}
        words = words[: words.index("--command")] if "--command" in words else words
        yield from (f"sidecar mcp-pins {word}" for word in words if re.match(r"--[a-z]", word) and word not in known)
        return
    command, said = _the_command_line(), ["sidecar"]
    while words and hasattr(command, "commands") and words[0][0].isalpha():
        said.append(words.pop(0))
        if said[-1] not in command.commands:
            yield " ".join(said)
            return
        command = command.commands[said[-1]]
    known = {option for each in command.params for option in each.opts} | {"--help"}
    yield from (f"{' '.join(said)} {word}" for word in words if re.match(r"--[a-z]", word) and word not in known)


def _misspelt_eval(words: list[str]) -> Iterator[str]:
    """The same for the command of `clients/evals`, whose parser is its own."""
    (commands,) = (one for one in parser()._actions if one.choices)
    known = dict(commands.choices or {})
    if words and words[0][0].isalpha() and words[0] not in known:
        yield f"sidecar eval {words[0]}"
    options = {
        option for one in known.get(words[0] if words else "", parser())._actions for option in one.option_strings
    }
    yield from (f"sidecar eval {word}" for word in words if re.match(r"--[a-z]", word) and word not in options)


def test_every_link_leads_somewhere() -> None:
    """Files and anchors."""
    assert list(dead_links(pages())) == []


def test_every_page_is_reached_from_the_readme() -> None:
    """Whoever begins there finds all of it."""
    assert list(unreached(pages(), REPOSITORY / "README.md")) == []


def test_what_pages_name_is_there() -> None:
    """Files, targets, commands, options."""
    assert [*missing_files(pages()), *unknown_commands(pages())] == []


@pytest.mark.parametrize(
    "text",
    [
        "[x](docs/gone.md)",
        "[x](#nothing)",
        "[x](docs/there.md#nothing)",
        "`sidecar/gone.py`",
        "`make nothing`",
        "`sidecar nothing`",
        "```console\n$ sidecar subagent rampp shop\n```",
        "```sh\nsidecar subagent ramp shop 5 \\\n  --nothing\n```",
        "```sh\nsidecar eval run examples --nothing\n```",
        "`sidecar eval nothing`",
        "```console\n$ T=$(sidecar token mint --nothing x) && true\n```",
    ],
)
def test_what_is_not_there_is_caught(text: str, tmp_path: Path) -> None:
    """One of each."""
    files = {"README.md": f"{text}\n", "docs/there.md": "# There\n", "Makefile": "demo:\n"}
    found = pages(planted(tmp_path, files))
    wrong = [*dead_links(found), *missing_files(found, tmp_path), *unknown_commands(found, tmp_path)]
    assert len(wrong) == 1, wrong


def test_what_is_there_is_let_pass(tmp_path: Path) -> None:
    """Also a page that links to itself, and options behind values."""
    text = "[x](docs/there.md#the-gate-pre_full) `make demo` `sidecar subagent ramp ID 5 --yes`\n"
    files = {"README.md": text, "docs/there.md": "# There\n\n## The gate `pre_full`\n", "Makefile": "demo:\n"}
    found = pages(planted(tmp_path, files))
    wrong = [*dead_links(found), *missing_files(found, tmp_path), *unknown_commands(found, tmp_path)]
    assert [*wrong, *unreached(found, (tmp_path / "README.md").resolve())] == []


def test_a_page_that_nobody_links_to_is_caught(tmp_path: Path) -> None:
    """One."""
    root = planted(tmp_path, {"README.md": "nothing\n", "docs/there.md": "# There\n"})
    assert len(list(unreached(pages(root), (root / "README.md").resolve()))) == 1
