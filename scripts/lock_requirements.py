"""Resolve the locks: every version and hash, no address of a package registry. Needs `uv`.

`requirements/demo.txt` holds what the sidecar and the demo need, `requirements/image.txt` what the image holds (the
sidecar with every extra, the gate clients, and the webhook), `requirements/langchain-demo.txt` what the demo under
LangChain needs, `requirements/test.txt` everything, `requirements/mutants.txt` that and the mutation tester,
`requirements/bench.txt` the same and what the bench compares with, `requirements/fuzz.txt` the fuzzer alone. All are
universal (Linux and macOS, Python 3.11 and newer) and come from the pyproject files and `requirements/*.in` alone.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parent.parent
OURS: Final = (
    "dispatch-sidecar",
    "subagents-proto",
    "subagents-client",
    "subagents-evals",
    "subagents-langchain",
    "subagents-loadgen",
    "subagents-openai-agents",
    "sidecar-audit-webhook",
    "sidecar-conformance",
    "sidecar-connector-mcp",
    "sidecar-runner-a2a",
    "sidecar-flags-openfeature",
    "sidecar-flags-unleash",
    "sidecar-gates-http",
    "sidecar-gates-manifest",
    "sidecar-lifecycle-examples",
    "sidecar-runner-langchain",
)
"""Our own packages: installed from the tree, so not in a lock."""
_OF_TESTS: Final = (
    "pyproject.toml",
    "proto/python/pyproject.toml",
    "clients/python/pyproject.toml",
    "clients/evals/pyproject.toml",
    "clients/langchain/pyproject.toml",
    "clients/loadgen/pyproject.toml",
    "clients/openai_agents/pyproject.toml",
    "plugins/audit_webhook/pyproject.toml",
    "plugins/conformance/pyproject.toml",
    "plugins/connector_mcp/pyproject.toml",
    "plugins/runner_a2a/pyproject.toml",
    "plugins/flags_openfeature/pyproject.toml",
    "plugins/flags_unleash/pyproject.toml",
    "plugins/gates_http/pyproject.toml",
    "plugins/gates_manifest/pyproject.toml",
    "plugins/lifecycle_examples/pyproject.toml",
    "plugins/runner_langchain/pyproject.toml",
)
LOCKS: Final[dict[str, Sequence[str]]] = {
    "demo": (
        "pyproject.toml",
        "proto/python/pyproject.toml",
        "clients/python/pyproject.toml",
        "plugins/audit_webhook/pyproject.toml",
        "plugins/gates_http/pyproject.toml",
        "plugins/gates_manifest/pyproject.toml",
    ),
    "image": (
        "pyproject.toml",
        "proto/python/pyproject.toml",
        "plugins/audit_webhook/pyproject.toml",
        "plugins/gates_http/pyproject.toml",
        "plugins/gates_manifest/pyproject.toml",
        *("--all-extras", "--constraint", "requirements/test.txt"),  # the very versions that the tests ran with
    ),
    "langchain-demo": (
        "pyproject.toml",
        "proto/python/pyproject.toml",
        "clients/python/pyproject.toml",
        "clients/evals/pyproject.toml",
        "clients/langchain/pyproject.toml",
        "plugins/audit_webhook/pyproject.toml",
        "plugins/gates_http/pyproject.toml",
        "plugins/gates_manifest/pyproject.toml",
    ),
    "test": _OF_TESTS,
    "mutants": _OF_TESTS,
    "bench": _OF_TESTS,
}
TOOLS: Final = ("fuzz",)
"""Locks of `requirements/<name>.in`, installed beside the environment of the tests."""
HEADER: Final = "# Made by `make lock` from the pyproject files; do not edit. Versions and hashes only, no addresses.\n"


def lock(name: str, sources: Sequence[str], uv: str, options: Sequence[str]) -> None:
    """Write `requirements/<name>.txt`.

    Args:
        name: of the lock.
        sources: files whose dependencies it holds, and options that name dependency groups.
        uv: path of the program.
        options: passed on to `uv pip compile`, e.g. `--upgrade`.
    """
    target = REPOSITORY / "requirements" / f"{name}.txt"
    command = [
        *(uv, "pip", "compile", *sources),
        *("--universal", "--python-version", "3.11", "--generate-hashes", "--only-binary", ":all:"),
        *("--no-emit-index-url", "--no-emit-find-links", "--no-annotate", "--no-header"),
        *(part for ours in OURS for part in ("--no-emit-package", ours)),
        *("--output-file", str(target), "--quiet", *options),
    ]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    target.write_text(HEADER + target.read_text(encoding="utf-8").removeprefix(HEADER), encoding="utf-8")
    print(f"{target.relative_to(REPOSITORY)}: {target.read_text(encoding='utf-8').count('==')} packages")


def main() -> int:
    """Resolve every lock; further arguments go to uv."""
    uv = shutil.which("uv")
    if uv is None:
        print("make lock needs uv (https://docs.astral.sh/uv); nothing else here does", file=sys.stderr)
        return 1
    for name, projects in LOCKS.items():
        lock(name, (*projects, "--group", f"pyproject.toml:{name}"), uv, sys.argv[1:])
    for name in TOOLS:
        lock(name, (f"requirements/{name}.in",), uv, sys.argv[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
