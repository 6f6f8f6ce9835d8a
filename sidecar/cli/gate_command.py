"""`sidecar gate ask --simulate`: shows the request to a gate (an external check), and the effect of each answer."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from sidecar.cli.parameters.plain_values import PlainTyper
from sidecar.cli.serve import EX_CONFIG, refusal
from sidecar.cli.subagent.output.parsing import basis_points, percent

if TYPE_CHECKING:
    from sidecar.core.definitions.cards.card import Card
    from sidecar.core.definitions.resolve import LoadedCatalogue
    from sidecar.core.identifiers import Vertical
    from sidecar.operations.ports import Clock
    from sidecar.operations.rollout.steps.policy_checks import NamedPolicies
    from sidecar.policy.lifecycle import GateQuestion, PolicyAnswer
    from sidecar.policy.selection import PolicyMap
    from sidecar.settings import Settings

EX_USAGE: Final = 2
"""Exit code: unknown definition, or a step that asks no gate."""
COLUMNS: Final = ("ANSWER", "THE STEP IS", "REASON", "COUNTED", "ANOMALY")
NOT_SIMULATED: Final = (
    "without --simulate nothing is asked from here, because the sidecar holds the gate's credentials; to ask the gate "
    "and change nothing, take the step with --dry-run: `sidecar subagent promote {name} --dry-run`, or "
    "`sidecar subagent ramp {name} PERCENT --dry-run`"
)


class GateTools(NamedTuple):
    """The operations that the command calls.

    Attributes:
        load: reads the definitions below a folder; the second argument is the largest number of sub-agents.
        policy: returns the plugins that the settings select; raises `PluginProblem` and `SettingsProblem`.
        lifecycle: creates the lifecycle policies (plugins that may deny a step) of a vertical.
        clock: the clock; simulated answers expire relative to it, as real ones do.
    """

    load: "Callable[[Path, int], LoadedCatalogue]"
    policy: "Callable[[Settings], PolicyMap]"
    lifecycle: "Callable[[PolicyMap, Settings, Vertical], NamedPolicies]"
    clock: "Clock"


class Ramps(NamedTuple):
    """The ramp before a step and after it, in basis points. If `to` is None, the step is the promotion."""

    before: int
    to: int | None


def add_gate(
    app: typer.Typer, read: "Callable[[Path | None], Settings]", tools_of: Callable[[], GateTools]
) -> typer.Typer:
    """Add the command; return its group. `read` reads the settings; `tools_of` is called only when the command runs."""
    group = PlainTyper(no_args_is_help=True, help="Show the requests to policies and gates.")
    app.add_typer(group, name="gate")

    @group.callback()
    def _gate() -> None:
        """Show the requests to policies and gates."""

    @group.command()
    def ask(
        name: Annotated[str, typer.Argument(help="Id of the sub-agent's definition.")],
        to: Annotated[str, typer.Option("--to", help="Ramp after the step, in percent. Default: the promotion.")] = "",
        before: Annotated[str, typer.Option("--from", help="Ramp before the step, in percent.")] = "0",
        simulate: Annotated[
            bool,
            typer.Option(
                "--simulate", help="Required: a real question needs the gate's credentials, which only the sidecar has."
            ),
        ] = False,
        config: Annotated[
            Path | None, typer.Option("--config", "-c", help="The settings file, TOML. Variables override it.")
        ] = None,
        as_json_text: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    ) -> None:
        """Print the requests of a step to policies and gates, and the effect of each possible answer of a gate.

        The lifecycle policies answer as if this operator had requested the definition's first step. No gate is
        called, and no sidecar is needed.

        Exit codes: 0 printed; 2 unknown definition or step; 78 invalid settings, definitions or plugins.
        """
        if not simulate:
            raise _exit_with(NOT_SIMULATED.format(name=name), EX_USAGE)
        settings, tools = read(config), tools_of()
        card = _card(settings, tools, name)
        step = Ramps(_points(before), _points(to) if to else None)
        policy = _policy(settings, tools)
        answers = _answers(tools.lifecycle(policy, settings, card.definition.vertical), card, step, tools.clock)
        questions = _questions(card, step, answers)
        # Not an empty page: an operator would read it as "no gate can refuse the step".
        if not questions:
            raise _exit_with("the step needs no gate: it lowers the ramp or leaves it as it is", EX_USAGE)
        simulated = [_simulate(each, card, policy, tools.clock) for each in questions]
        typer.echo(_json(answers, simulated) if as_json_text else _page(answers, simulated))

    return group


def _answers(policies: "NamedPolicies", card: "Card", step: "Ramps", clock: "Clock") -> "dict[str, PolicyAnswer]":
    """Return the answer of each lifecycle policy to the step, by its name. An answer can add gates."""
    from sidecar.operations.rollout.steps.gate_simulation import answers_of_policies  # noqa: PLC0415  not for `--help`

    # Lifecycle policies are asynchronous plugins; the command has no other use for an event loop.
    return asyncio.run(answers_of_policies(policies, card, step.before, step.to, clock.now()))


def _questions(card: "Card", step: "Ramps", answers: "dict[str, PolicyAnswer]") -> "tuple[GateQuestion, ...]":
    """Return the request to each gate of the step; empty if it needs none."""
    from sidecar.operations.rollout.steps.gate_simulation import questions_of  # noqa: PLC0415  not for `--help`

    return questions_of(card, step.before, step.to, answers)


def _simulate(question: "GateQuestion", card: "Card", policy: "PolicyMap", clock: "Clock") -> dict[str, Any]:
    """Return the request to one gate and the effect of each possible answer, as in the JSON output."""
    import msgspec  # noqa: PLC0415  not for `--help`

    from sidecar.operations.rollout.steps.gate_checks import ECHOED  # noqa: PLC0415  not for `--help`
    from sidecar.operations.rollout.steps.gate_simulation import effects_on  # noqa: PLC0415  not for `--help`
    from sidecar.policy.selection import ANY_GATE  # noqa: PLC0415  not for `--help`

    gates = policy.of(question.vertical).gates
    # As the rollout chooses the client: a gate's own entry, then the entry for all others.
    spec = gates.get(question.gate) or gates.get(ANY_GATE)
    return {
        "client": None if spec is None else spec.name,
        "question": msgspec.to_builtins(question),
        "answer_repeats": list(ECHOED),
        "answers": msgspec.to_builtins(asyncio.run(effects_on(question, card, clock))),
    }


def _json(answers: "dict[str, PolicyAnswer]", simulated: list[dict[str, Any]]) -> str:
    import msgspec  # noqa: PLC0415  not for `--help`

    return json.dumps({"policies": msgspec.to_builtins(answers), "gates": simulated}, indent=2)


def _page(answers: "dict[str, PolicyAnswer]", simulated: list[dict[str, Any]]) -> str:
    """Return a line for each policy, and a paragraph for each gate."""
    lines = []
    for name, answer in answers.items():
        allowed = f"allows the step; gates: {', '.join(answer.more_gates) or 'none'}"
        lines.append(f"policy {name} {f'DENIES the step: {answer.denied}' if answer.denied else allowed}")
    return "\n\n".join(("\n".join(lines), *map(_text, simulated)))


def _text(simulated: dict[str, Any]) -> str:
    question, client = simulated["question"], simulated["client"]
    before, to = question["from_ramp"], question["to_ramp"]
    # Only the promotion leaves the ramp as it is.
    step = "promotion" if before == to else f"ramp {percent(before)} -> {percent(to)}"
    client_text = (
        f"gate client {client}" if client else "NO gate client, so the step is held: set `policy.default.gates`"
    )
    lines = [f"{question['gate']} of {question['definition_id']}, {step}, asks {client_text}"]
    lines += [f"  {name}: {value}" for name, value in question.items()]
    lines += [f"an answer must repeat {', '.join(simulated['answer_repeats'])}, and contain an expiry time"]
    cells = [COLUMNS, *(_cells(each) for each in simulated["answers"])]
    widths = [max(len(row[column]) for row in cells) for column in range(len(COLUMNS))]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join(lines)


def _cells(effect: dict[str, Any]) -> tuple[str, ...]:
    counted = "yes" if effect["counted"] else "no"
    return (effect["answer"], effect["step"], effect["reason"] or "-", counted, effect["anomaly"] or "-")


def _card(settings: "Settings", tools: GateTools, name: str) -> "Card":
    """Return the definition with its references resolved; end the command if there is none with this id."""
    from sidecar.policy.problems import choices_for  # noqa: PLC0415  not for `--help`

    loaded = tools.load(settings.definitions.path, settings.definitions.max_sub_agents)
    if loaded.catalogue is None:
        raise _exit_with("\n".join(each.render() for each in loaded.errors), EX_CONFIG)
    by_id = {card.definition.id: card for card in loaded.catalogue.cards.values()}
    named = next((card for each, card in by_id.items() if each == name), None)
    if named is None:
        raise _exit_with(f"no definition is named `{name}`; {choices_for(name, by_id)}", EX_USAGE)
    return named


def _policy(settings: "Settings", tools: GateTools) -> "PolicyMap":
    from sidecar.policy.problems import PluginProblem  # noqa: PLC0415  not for `--help`
    from sidecar.settings.problems import SettingsProblem  # noqa: PLC0415  not for `--help`

    try:
        return tools.policy(settings)
    except PluginProblem as problem:
        raise _exit_with(str(problem), EX_CONFIG) from None
    except SettingsProblem as problem:
        raise _exit_with(refusal(problem), EX_CONFIG) from None


def _points(text: str) -> int:
    try:
        return basis_points(text)
    except ValueError as problem:
        raise _exit_with(str(problem), EX_USAGE) from None


def _exit_with(message: str, code: int) -> typer.Exit:
    """Print a message, and return the exception that ends the command."""
    typer.echo(message, err=True)
    return typer.Exit(code)
