"""`sidecar score`: records the score that a judge or a rule gives to one call."""

from dataclasses import dataclass

from sidecar.cli.output.drawing import Part, clean
from sidecar.cli.subagent.client import OperatorClient, OperatorExit
from sidecar.cli.subagent.views import OperatorCommands, run_command
from subagents.history.v1 import history_pb2 as pb


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """The call, and the score. `score_id` empty: a new one, so a repeated command records a second score."""

    turn_id: str
    dispatch_id: str
    call_id: str
    name: str
    value: float
    source: str = "judge"
    label: str = ""
    explanation: str = ""
    score_id: str = ""


def record_score(commands: OperatorCommands, options: ScoreOptions) -> int:
    """Record the score and print which definition and arm it is about. Returns the exit code."""
    # The id makes a repetition safe: the sidecar records a score once for each id.
    score_id = options.score_id or commands.new_id()
    request = pb.RecordScoreRequest(
        score_id=score_id,
        turn_id=options.turn_id,
        dispatch_id=options.dispatch_id,
        call_id=options.call_id,
        name=options.name,
        value=options.value,
        source=f"SCORE_SOURCE_{options.source.upper()}",
        label=options.label,
        explanation=options.explanation,
    )

    def work(client: OperatorClient) -> OperatorExit:
        answer = client.ask("RecordScore", request, options.turn_id)
        if commands.as_json:
            commands.write_json(
                {
                    "score_id": score_id,
                    "sub_agent_id": answer.sub_agent_id,
                    "definition_id": answer.definition_id,
                    "definition_digest": answer.definition_digest,
                    "arm": answer.arm,
                    "recorded_before": answer.recorded_before,
                }
            )
        else:
            again = " (it was on record before)" if answer.recorded_before else ""
            slot = answer.sub_agent_id  # `sub_agent_id` in the protos is the slot
            served = f"{clean(answer.definition_id)}, {answer.arm} in slot {clean(slot)}"
            commands.screen.show([[Part(f"{clean(options.name)} {options.value:g} of {served}: recorded{again}")]])
        return OperatorExit.DONE

    return run_command(commands, work)
