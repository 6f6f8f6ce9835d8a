"""Command lines of the documents: each program is there, and takes what is shown. Nothing of it is run."""

import importlib.util
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import typer

from sidecar.cli.app import Commands, make_app
from subagents.admin.v1 import admin_pb2
from subagents.dispatch.v1 import dispatch_pb2
from subagents.history.v1 import history_pb2
from subagents.lifecycle.v1 import lifecycle_pb2
from subagents_evals.arguments import parse_arguments as understood_by_eval
from subagents_loadgen.run_request import understood
from tests.architecture.reading import REPOSITORY
from tests.architecture.test_documents import TARGET, Nothing

OF_THE_SYSTEM: Final = frozenset(
    {
        ".",
        "buf",
        "cat",
        "cd",
        "cp",
        "curl",
        "echo",
        "export",
        "git",
        "kill",
        "kubectl",
        "mkdir",
        "node",
        "npm",
        "openssl",
        "pg_dump",
        "pg_restore",
        "pip",
        "printf",
        "pytest",
    }
    | {"docker", "rm", "sed", "set", "ssh", "sudo", "umask"}
)
"""Programs of others, and the shell's own words; what they are given is theirs to judge."""
SEPARATORS: Final = frozenset({"|", "||", "&&", ";", "&", "(", ")"})
ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
INNER: Final = re.compile(r"\$\(([^()]*)\)")
SERVED_BY_EXAMPLES: Final = re.compile(r"localhost:\d+(/[\w/]*)")
METHOD: Final = re.compile(r"http://sidecar/(subagents\.\w+\.v1)\.(\w+)/(\w+)")


def command_lines(kind: str, text: str) -> Iterator[str]:
    """Yield each command of a block, its lines joined; of a console what stands behind a prompt, without output."""
    lines = iter(text.replace("\\\n", " ").splitlines())
    for line in lines:
        typed = line.removeprefix("$ ")
        if (kind != "console" or typed != line) and typed.strip() and not typed.lstrip().startswith("#"):
            yield typed


def problems_with(kind: str, text: str) -> list[str]:
    """Return what is wrong with the commands of a block."""
    lines = list(command_lines(kind, text))
    shell = subprocess.run(["bash", "-n"], input="\n".join(lines), capture_output=True, text=True, check=False)
    found = [shell.stderr] if shell.returncode or not lines else []
    return [*found, *(problem for line in lines for problem in _of_line(line))]


def _of_line(line: str) -> Iterator[str]:
    for inner in INNER.findall(line):
        yield from _of_line(inner)
    lexer = shlex.shlex(INNER.sub("VALUE", line), posix=True, punctuation_chars="|&;()<>")
    lexer.whitespace_split, lexer.commenters = True, "#"
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word in SEPARATORS:
            yield from _of_words(_without_redirections(words))
            words = []
        else:
            words.append(word)
    for path in SERVED_BY_EXAMPLES.findall(line):
        if path not in _examples():
            yield f"no example serves {path}"
    for package, service, method in METHOD.findall(line):
        if method not in _methods().get(f"{package}.{service}", ()):
            yield f"there is no method {package}.{service}/{method}"


def _without_redirections(words: list[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in words:
        if skip or word in {">", ">>", "<", "2>", ">&"}:
            skip = not skip
        elif kept or not ASSIGNMENT.match(word):
            kept.append(word)
    return kept


def _of_words(words: list[str]) -> Iterator[str]:
    match words:
        case [] | ["sidecar"]:
            return
        case ["sidecar", "eval", *arguments]:
            understood_by_eval(arguments)
        case ["sidecar", *arguments]:
            yield from _of_sidecar(arguments)
        case ["subagents-loadgen", *arguments]:
            understood(arguments)
        case ["make", *goals]:
            yield from (f"there is no make {each}" for each in goals if "=" not in each and each not in _targets())
        case ["python", "-m", module, *arguments]:
            yield from _of_module(module, arguments)
        case [program, *_] if program not in OF_THE_SYSTEM:
            yield f"unknown program {program!r}: is it shown as it is typed?"


def _of_sidecar(arguments: list[str]) -> Iterator[str]:
    """Parse with the real command line, down to the last command's own options and arguments; call nothing."""
    command, rest = _the_command_line(), arguments
    try:
        context = command.make_context("sidecar", list(rest))
        while hasattr(command, "commands"):
            given = [*context._protected_args, *context.args]
            name, command, rest = command.resolve_command(context, given)
            context = command.make_context(name, rest, parent=context)
    except typer.Exit:
        return
    except Exception as problem:
        said = getattr(problem, "format_message", None)
        if said is None:
            raise
        if "does not exist" not in said():  # of a file: the reader's own
            yield f"sidecar {' '.join(arguments)}: {said()}"


def _of_module(module: str, arguments: list[str]) -> Iterator[str]:
    found = importlib.util.find_spec(module)
    if found is None:
        yield f"there is no module {module}"
        return
    file = Path(found.origin or "")
    file = file.with_name("__main__.py") if file.name == "__init__.py" else file
    source = "".join(each.read_text("utf-8") for each in file.parent.glob("*.py"))
    for option in (each.partition("=")[0] for each in arguments if each.startswith("--")):
        if f'"{option}"' not in source:
            yield f"python -m {module} has no {option}"


@cache
def _the_command_line() -> Any:
    return typer.main.get_command(make_app(cast("Commands", Nothing())))


@cache
def _targets() -> frozenset[str]:
    return frozenset(TARGET.findall((REPOSITORY / "Makefile").read_text("utf-8")))


@cache
def _examples() -> str:
    return "".join(path.read_text("utf-8") for path in sorted((REPOSITORY / "examples").rglob("*.py")))


@cache
def _methods() -> dict[str, tuple[str, ...]]:
    modules: tuple[Any, ...] = (admin_pb2, dispatch_pb2, history_pb2, lifecycle_pb2)
    services = [service for module in modules for service in module.DESCRIPTOR.services_by_name.values()]
    return {service.full_name: tuple(service.methods_by_name) for service in services}
