"""Declares `sidecar score` and `sidecar ramp-watchdog` with their options. gRPC is imported only when one runs."""

from enum import StrEnum, unique
from typing import Annotated, Any, Final

import typer

from sidecar.cli.record.turn_commands import SettingsOf, given_by
from sidecar.cli.subagent.command import FromEnvironment, place_of_operators
from sidecar.cli.subagent.options import Open

SCORE_EXIT_CODES: Final = (
    "Exit codes: 0 recorded; 1 refused; 2 not sent (no sidecar, no token, wrong role, invalid arguments); "
    "78 invalid settings."
)

WATCH_EXIT_CODES: Final = (
    "Exit codes: 0 no ramp is worse; 1 a breach: ramped down, or refused; 2 not judged (no sidecar, no valid "
    "token, no evidence); 3 the evidence cannot be trusted; 78 invalid settings."
)


@unique
class Source(StrEnum):
    """The values of `--source`. Scores of users come from the consumer-agent."""

    JUDGE = "judge"
    RULE = "rule"


def add_evaluation(app: typer.Typer, settings_of: SettingsOf, environment: FromEnvironment) -> None:
    """Add the commands.

    Args:
        app: the command line.
        settings_of: reads the settings, or ends the command.
        environment: defaults of token and target.
    """
    placed = given_by(place_of_operators(settings_of, environment), "at")
    # The options in groups, because a function may have only few parameters.
    score_command = given_by(_call, "call")(given_by(_details, "details")(_score))
    app.command(name="score", epilog=SCORE_EXIT_CODES)(placed(score_command))
    watch_command = given_by(_rule_options, "rules")(given_by(_pace_options, "pace")(_ramp_watchdog))
    app.command(name="ramp-watchdog", epilog=WATCH_EXIT_CODES)(placed(watch_command))


def _call(
    turn_id: Annotated[str, typer.Argument(help="Id of the turn.")],
    dispatch_id: Annotated[str, typer.Argument(help="Id of the dispatch; `sidecar turn <id>` shows it.")],
    call_id: Annotated[str, typer.Argument(help="Id of the call in the dispatch.")],
) -> dict[str, str]:
    return {"turn_id": turn_id, "dispatch_id": dispatch_id, "call_id": call_id}


def _details(
    source: Annotated[Source, typer.Option("--source", help="What gave the score.")] = Source.JUDGE,
    label: Annotated[str, typer.Option("--label", help="What the value means, e.g. correct.")] = "",
    explanation: Annotated[str, typer.Option("--explanation", help="Why, in words; at most 4 KiB.")] = "",
    score_id: Annotated[str, typer.Option("--id", help="Id of the score, to repeat the command safely.")] = "",
) -> dict[str, str]:
    return {"source": source.value, "label": label, "explanation": explanation, "score_id": score_id}


def _score(
    at: Open,
    call: dict[str, str],
    details: dict[str, str],
    name: Annotated[str, typer.Option("--name", help="What is scored, e.g. helpfulness.")],
    value: Annotated[float, typer.Option("--value", min=0.0, max=1.0, help="0, the worst, to 1, the best.")],
) -> None:
    """Record a score of one call, by a judge or a rule. The turn may have ended.

    The record says which definition and which arm of a ramp served the call. Uses the operator listener and needs a
    token of the role operator or automation.
    """
    from sidecar.cli.evaluation import scoring  # noqa: PLC0415  only this command needs gRPC

    options = scoring.ScoreOptions(**call, **details, name=name, value=value)
    raise typer.Exit(scoring.record_score(at(), options))


def _rule_options(
    alpha: Annotated[
        float, typer.Option("--alpha", min=0.0001, max=0.5, help="Probability of stopping a ramp that is not worse.")
    ] = 0.05,
    users: Annotated[int, typer.Option("--min-users", min=1, help="Fewest users in each arm for a proposal.")] = 100,
    tell: Annotated[
        float, typer.Option("--tell", min=0.001, max=1.0, help="Increase of failures that a proposal has ruled out.")
    ] = 0.1,
) -> dict[str, float]:
    return {"alpha": alpha, "users": users, "tell": tell}


def _pace_options(
    every: Annotated[int, typer.Option("--every", min=1, help="Seconds between two rounds.")] = 60,
    once: Annotated[bool, typer.Option("--once", help="Run one round and end, e.g. from cron.")] = False,
    metrics_address: Annotated[
        str, typer.Option("--metrics-address", help="Serve /metrics at this IP address and port, e.g. 127.0.0.1:9465.")
    ] = "",
) -> dict[str, Any]:
    if once and metrics_address:
        raise typer.BadParameter("--metrics-address needs a watchdog that keeps running: leave out --once")
    return {"every": 0 if once else every, "metrics_address": metrics_address}


def _ramp_watchdog(
    at: Open,
    rules: dict[str, float],
    pace: dict[str, Any],
    slot: Annotated[str, typer.Option("--slot", help="Only this slot.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be done.")] = False,
) -> None:
    """Watch ramps: compare each ramping definition with its target. Ramp down on a breach, otherwise propose a step.

    It never raises a ramp. Uses the operator listener; its token needs a role that may ramp down, e.g. breaker.
    """
    from sidecar.cli.evaluation import ramp_watchdog  # noqa: PLC0415  only this command needs gRPC
    from sidecar.core.evaluation.ramp_verdict import Rules  # noqa: PLC0415  only this command needs it

    # `int`, because the options come as a dictionary of floats.
    judged_by = Rules(rules["alpha"], int(rules["users"]), rules["tell"])
    options = ramp_watchdog.WatchOptions(slot, dry_run=dry_run, rules=judged_by, **pace)
    # `at` and not `at()`: the watchdog calls it in each round, because the token file is renewed.
    raise typer.Exit(ramp_watchdog.watch_ramps(at, options))
