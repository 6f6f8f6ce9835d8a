"""The child process of `sidecar plugins doctor`. It examines one installed plugin.

    python -m sidecar.cli.plugins.examination REPORT

A separate process, because the import of a plugin can end, block or crash the process. `child_process.py` starts it and
reads the report.

REPORT is the number of an open file descriptor. Standard input has one line, a JSON object: the `label` of the plugin
(`distribution:entry-point`), the `settings` of plugins by kind and name, and the `path` for imports. The report has one
JSON object a line:

    {"step": ...}                    what is done next, so that the parent knows at which step this process ended
    {"found": ..., "configured": ...}  an object that the plugin offers, and whether it has settings
    {"unmade": ...}                  an object that was not created, because it needs settings and has none
    {"problem": ..., "incompatible": ...}  an error; the examination ends
    {"done": true, "step": ...}      the examination is complete
"""

import asyncio
import inspect
import json
import os
import resource
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from sidecar.core.decoding import from_json
from sidecar.policy.entry_points import PluginOffer, list_offers
from sidecar.policy.factory import make_plugin, needs_settings
from sidecar.policy.instances import instances_of
from sidecar.policy.loading import load_offer
from sidecar.policy.problems import Incompatible, PluginProblem, cause_of
from sidecar.policy.specs import PluginSpec

MOST_WRITTEN: Final = 16 * 1024 * 1024
"""The most bytes of one file, so that a plugin that prints endlessly does not fill the disk."""
MOST_REPORTED: Final = 64 * 1024
"""The most characters of one line of the report."""

Report = Callable[[Mapping[str, Any]], None]


def main() -> None:
    """Examine the plugin that standard input names."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_WRITTEN, MOST_WRITTEN))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # crashes are expected here, and need no core file
    report = _reporting_to(int(sys.argv[1]))
    question = from_json(sys.stdin.readline())
    # The path of the parent: with `-m`, Python begins its own path with the working directory.
    sys.path[:] = question["path"]
    # `_examine` has reported the problem before it raised it.
    with suppress(PluginProblem):
        asyncio.run(_examine(question, report))
    # The end of the process is a step, too: threads that the plugin started can prevent it.
    report({"done": True, "step": "unloaded"})


async def _examine(question: Mapping[str, Any], report: Report) -> None:
    """Import and register the plugin, and create its objects, in a running event loop, as the sidecar does.

    A `spec` describes a class of objects that the plugin offers. An instance is the spec under a configured name with
    settings; one spec may have several.

    Raises:
        PluginProblem: the plugin has a problem, which is in the report.
    """
    offer = _offer(question["label"])
    try:
        report({"step": "imported"})
        for spec in load_offer(offer):
            # With settings, each configured instance is examined: this is what the sidecar would create.
            configured = list(instances_of(spec, question["settings"].get(spec.kind, {})))
            # Without settings the spec itself is examined: many objects need none.
            instances: list[tuple[PluginSpec, Mapping[str, Any] | None]] = [*configured] or [(spec, None)]
            for instance, settings in instances:
                report({"found": _spec_object(instance), "configured": settings is not None})
                report({"step": f"created ({spec.kind} `{instance.name}`)"})
                await _make(instance, settings, report)
    except PluginProblem as problem:
        report({"problem": _problem_object(problem), "incompatible": isinstance(problem, Incompatible)})
        raise


async def _make(spec: PluginSpec, settings: Mapping[str, Any] | None, report: Report) -> None:
    """Create an object of the plugin, and close it. Without settings, this is done only if the object needs none."""
    if settings is None and needs_settings(spec):
        report({"unmade": spec.name})
        return
    created = make_plugin(spec, settings or {})
    close = getattr(created, "close", None)
    # In the interfaces of plugins, `close` is always asynchronous.
    if inspect.iscoroutinefunction(close):
        report({"step": f"closed ({spec.kind} `{spec.name}`)"})
        await _close(spec, close)


async def _close(spec: PluginSpec, close: Callable[[], Awaitable[object]]) -> None:
    try:
        await close()
    except Exception as error:  # any: the code is the plugin's, and its failure is a finding
        where = f"{spec.kind} `{spec.name}`"
        remedy = "let `close` raise nothing, in any state"
        raise PluginProblem(f"closing it failed with {cause_of(error)}", where=where, remedy=remedy) from error


def _offer(label: str) -> PluginOffer:
    """Return the entry point to examine."""
    return next(offer for offer in list_offers() if offer.label == label)


def _spec_object(spec: PluginSpec) -> Mapping[str, str]:
    return {"kind": str(spec.kind), "name": spec.name, "contract": spec.contract, "summary": spec.summary}


def _problem_object(problem: PluginProblem) -> Mapping[str, str]:
    return {"what": problem.what, "where": problem.where, "remedy": problem.remedy}


def _reporting_to(file: int) -> Report:
    """Return a function that writes a line without a buffer, so that a crash loses no line.

    Child processes do not inherit it.
    """
    # Otherwise a process that the plugin starts could keep the report open and write into it.
    os.set_inheritable(file, False)

    def report(line: Mapping[str, Any]) -> None:
        # A cut line is not valid JSON any more, so the parent skips it.
        os.write(file, json.dumps(line)[:MOST_REPORTED].encode() + b"\n")

    return report


if __name__ == "__main__":
    main()
