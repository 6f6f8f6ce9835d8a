"""The rules of requests, made by `make proto` from the `buf.validate` options of the protos; do not edit.

The generated messages do not carry the options. `subagents_client` checks requests against this table before it sends
them; the sidecar enforces the same rules.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple


class Rule(NamedTuple):
    """What the value of one field must be.

    Attributes:
        field: its name; empty for the elements of a list.
        kind: `text` (text or bytes), `number`, `enum`, `duration`, `list` or `message`.
        may_be_absent: it tracks presence, and need not be there.
        least: characters, elements, or the number itself; None: no bound.
        most: the same; of a duration: seconds, and it must be more than 0.
        most_bytes: of UTF-8, or of bytes.
        pattern: regular expression of the whole text; empty: any.
        allowed: numbers of an enum.
        each: the rule of each element of a list.
        message: full name of the message that it holds, or that its elements are.
    """

    field: str = ""
    kind: str = ""
    may_be_absent: bool = False
    least: int | None = None
    most: int | None = None
    most_bytes: int | None = None
    pattern: str = ""
    allowed: Sequence[int] = ()
    each: "Rule | None" = None
    message: str = ""


RULES: Final[Mapping[str, Sequence[Rule]]] = {
    "subagents.admin.v1.DrainRequest": (
        Rule(field='reason', kind='text', least=1, most=1000),
    ),
    "subagents.admin.v1.EraseUserRequest": (
        Rule(field='principal', kind='text', least=1, most=256),
        Rule(field='reason', kind='text', least=1, most=1000),
    ),
    "subagents.admin.v1.ForceEndTurnRequest": (
        Rule(field='turn_id', kind='text', pattern='^[!-~]{1,128}$'),
        Rule(field='reason', kind='text', least=1, most=1000),
    ),
    "subagents.admin.v1.ListPluginsRequest": (
        Rule(field='page_size', kind='number', least=0),
    ),
    "subagents.dispatch.v1.Answering": (
        Rule(field='receipt', kind='text', least=1, most=65536),
        Rule(field='text', kind='text', most=16384),
        Rule(field='decision', kind='enum', allowed=[0, 1, 2]),
        Rule(field='answered_by', kind='enum', allowed=[1, 2]),
    ),
    "subagents.dispatch.v1.BindTurnRequest": (
        Rule(field='turn_id', kind='text', pattern='^[!-~]{1,128}$'),
        Rule(field='episode_id', kind='text', pattern='^[!-~]{1,128}$'),
        Rule(field='principal', kind='text', most=256),
        Rule(field='source', kind='enum', allowed=[1, 2, 3]),
        Rule(field='orchestrator_id', kind='text', most=60),
        Rule(field='locale', may_be_absent=True, kind='text', pattern='^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,7}$'),
        Rule(field='location', may_be_absent=True, kind='text', least=1, most=256),
        Rule(field='experiment_arm', kind='text', most=128),
        Rule(field='date', kind='text', pattern='^([0-9]{4}-[0-9]{2}-[0-9]{2})?$'),
        Rule(field='required_features', most=32, each=Rule(kind='text', least=1, most=60), kind='list'),
        Rule(field='user_token', kind='text', most=8192),
    ),
    "subagents.dispatch.v1.CancelCallRequest": (
        Rule(field='surface_token', kind='text', least=1, most=65536),
        Rule(field='dispatch_id', kind='text', pattern='^[!-~]{1,128}$'),
        Rule(field='call_id', kind='text', pattern='^[!-~]{1,128}$'),
    ),
    "subagents.dispatch.v1.CloseChildRequest": (
        Rule(field='surface_token', kind='text', least=1, most=65536),
        Rule(field='child_id', kind='text', pattern='^[!-~]{1,128}$'),
        Rule(field='verdict', kind='enum', allowed=[0, 1, 2]),
        Rule(field='reason', kind='text', most_bytes=1024),
    ),
    "subagents.dispatch.v1.DispatchRequest": (
        Rule(field='surface_token', kind='text', least=1, most=65536),
        Rule(field='binding_digest', kind='text', least=1, most=256),
        Rule(field='dispatch_id', kind='text', pattern='^[!-~]{1,128}$'),
        Rule(field='calls', least=1, most=64, message='subagents.dispatch.v1.ToolCall', kind='list'),
        Rule(field='declared_intent_count', kind='number', least=0, most=1000),
        Rule(field='prior_context', kind='text', most_bytes=16384),
        Rule(field='task_prompt', kind='text', most_bytes=65536),
        Rule(field='on_disconnect', kind='enum', allowed=[0, 1, 2, 3]),
        Rule(field='continue_for', kind='duration', most=86400, message='google.protobuf.Duration'),
        Rule(field='join', message='subagents.dispatch.v1.JoinPolicy', kind='message'),
    ),
    "subagents.dispatch.v1.DispatchUnaryRequest": (
        Rule(field='dispatch', message='subagents.dispatch.v1.DispatchRequest', kind='message'),
    ),
    "subagents.dispatch.v1.EndTurnRequest": (
        Rule(field='surface_token', kind='text', least=1, most=65536),
        Rule(field='integrations', most=1024, message='subagents.dispatch.v1.Integration', kind='list'),
        Rule(field='narration', kind='text', most_bytes=262144),
        Rule(field='declared_intent_count', kind='number', least=0, most=1000),
        Rule(field='user_message', kind='text', most_bytes=65536),
    ),
    "subagents.dispatch.v1.Integration": (
        Rule(field='child_id', kind='text', pattern='^[!-~]{1,128}$'),
        Rule(field='verdict', kind='enum', allowed=[0, 1, 2]),
        Rule(field='reason', kind='text', most_bytes=1024),
    ),
    "subagents.dispatch.v1.JoinPolicy": (
        Rule(field='min_success', kind='number', least=0, most=64),
        Rule(field='max_parallel', kind='number', least=0, most=64),
        Rule(field='timeout', kind='duration', most=86400, message='google.protobuf.Duration'),
    ),
    "subagents.dispatch.v1.ResumeDispatchRequest": (
        Rule(field='surface_token', kind='text', least=1, most=65536),
        Rule(field='dispatch_id', kind='text', pattern='^[!-~]{1,128}$'),
        Rule(field='after_sequence', kind='number', least=0),
    ),
    "subagents.dispatch.v1.SessionClientHello": (
        Rule(field='contract_version', kind='number', least=1),
        Rule(field='credit_bytes', kind='number', least=0),
        Rule(field='required_features', most=32, each=Rule(kind='text', least=1, most=60), kind='list'),
    ),
    "subagents.dispatch.v1.SessionCredit": (
        Rule(field='bytes', kind='number', least=1),
    ),
    "subagents.dispatch.v1.SessionOperation": (
        Rule(field='correlation_id', kind='number', least=1),
        Rule(field='credit_bytes', kind='number', least=0),
        Rule(field='bind_turn', message='subagents.dispatch.v1.BindTurnRequest', kind='message'),
        Rule(field='dispatch', message='subagents.dispatch.v1.DispatchRequest', kind='message'),
        Rule(field='resume_dispatch', message='subagents.dispatch.v1.ResumeDispatchRequest', kind='message'),
        Rule(field='cancel_call', message='subagents.dispatch.v1.CancelCallRequest', kind='message'),
        Rule(field='close_child', message='subagents.dispatch.v1.CloseChildRequest', kind='message'),
        Rule(field='end_turn', message='subagents.dispatch.v1.EndTurnRequest', kind='message'),
    ),
    "subagents.dispatch.v1.SessionRequest": (
        Rule(field='hello', message='subagents.dispatch.v1.SessionClientHello', kind='message'),
        Rule(field='operations', message='subagents.dispatch.v1.SessionOperation', kind='list'),
        Rule(field='credits', message='subagents.dispatch.v1.SessionCredit', kind='list'),
    ),
    "subagents.dispatch.v1.ToolCall": (
        Rule(field='call_id', kind='text', pattern='^[!-~]{1,128}$'),
        Rule(field='tool_name', kind='text', least=1, most=256),
        Rule(field='answering', message='subagents.dispatch.v1.Answering', kind='message'),
    ),
    "subagents.history.v1.ExportReplayRequest": (
        Rule(field='turn_id', kind='text', pattern='^[!-~]{1,128}$'),
    ),
    "subagents.history.v1.GetTurnRequest": (
        Rule(field='turn_id', kind='text', pattern='^[!-~]{1,128}$'),
        Rule(field='child_ids', most=64, each=Rule(kind='text', pattern='^[!-~]{1,128}$'), kind='list'),
    ),
    "subagents.history.v1.ListEpisodesRequest": (
        Rule(field='page_size', kind='number', least=0),
    ),
    "subagents.history.v1.ListTurnsRequest": (
        Rule(field='page_size', kind='number', least=0),
        Rule(field='episode_id', kind='text', pattern='^[!-~]{0,128}$'),
        Rule(field='sub_agent_id', kind='text', most=60),
        Rule(field='state', kind='enum', allowed=[0, 1, 2, 3]),
        Rule(field='principal', kind='text', most=256),
        Rule(field='outcome', kind='enum', allowed=[0, 1, 2, 3, 4, 5, 6, 7]),
        Rule(field='definition_id', kind='text', pattern='^([a-z0-9][a-z0-9_-]{0,59})?$'),
        Rule(field='reason', kind='enum', allowed=[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 61, 62, 63, 70, 71, 72, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122, 123, 130, 131, 141, 142, 143, 144, 145, 146, 147, 148, 149, 150, 151, 152, 153, 154]),
    ),
    "subagents.history.v1.ReadEpisodeRequest": (
        Rule(field='episode_id', kind='text', pattern='^[!-~]{1,128}$'),
        Rule(field='principal', kind='text', least=1, most=256),
        Rule(field='view', kind='enum', allowed=[0, 1, 2]),
        Rule(field='max_turns', kind='number', least=0, most=1000),
    ),
    "subagents.history.v1.RecordScoreRequest": (
        Rule(field='score_id', kind='text', pattern='^[!-~]{1,128}$'),
        Rule(field='turn_id', kind='text', pattern='^[!-~]{1,128}$'),
        Rule(field='dispatch_id', kind='text', pattern='^[!-~]{1,128}$'),
        Rule(field='call_id', kind='text', pattern='^[!-~]{1,128}$'),
        Rule(field='name', kind='text', pattern='^[a-z0-9][a-z0-9_-]{0,59}$'),
        Rule(field='value', kind='number', least=0.0, most=1.0),
        Rule(field='label', kind='text', pattern='^([a-z0-9][a-z0-9_-]{0,59})?$'),
        Rule(field='source', kind='enum', allowed=[1, 2, 3]),
        Rule(field='explanation', kind='text', most_bytes=4096),
        Rule(field='principal', kind='text', most=256),
    ),
    "subagents.history.v1.SeenUpTo": (
        Rule(field='child_id', kind='text', pattern='^[!-~]{1,128}$'),
        Rule(field='sequence', kind='number', least=0, most=9007199254740992),
    ),
    "subagents.history.v1.WatchEventsRequest": (
        Rule(field='turn_id', kind='text', pattern='^[!-~]{1,128}$'),
        Rule(field='after', most=1000, message='subagents.history.v1.SeenUpTo', kind='list'),
    ),
    "subagents.history.v1.WriteSummaryRequest": (
        Rule(field='episode_id', kind='text', pattern='^[!-~]{1,128}$'),
        Rule(field='principal', kind='text', least=1, most=256),
        Rule(field='text', kind='text', least=1, most_bytes=65536),
        Rule(field='up_to_turn_id', kind='text', pattern='^[!-~]{1,128}$'),
        Rule(field='expected_revision', kind='number', least=0, most=9007199254740992),
    ),
    "subagents.lifecycle.v1.AcknowledgeBreachRequest": (
        Rule(field='header', message='subagents.lifecycle.v1.StepHeader', kind='message'),
        Rule(field='breach_id', kind='text', pattern='^[!-~]{1,128}$'),
    ),
    "subagents.lifecycle.v1.ActivateRequest": (
        Rule(field='header', message='subagents.lifecycle.v1.StepHeader', kind='message'),
    ),
    "subagents.lifecycle.v1.BeginDecommissionRequest": (
        Rule(field='header', message='subagents.lifecycle.v1.StepHeader', kind='message'),
    ),
    "subagents.lifecycle.v1.ConfigureRolloutRequest": (
        Rule(field='header', message='subagents.lifecycle.v1.StepHeader', kind='message'),
        Rule(field='mode', kind='enum', allowed=[1, 2]),
        Rule(field='curve_basis_points', most=100, kind='list'),
    ),
    "subagents.lifecycle.v1.DecideDecommissionRequest": (
        Rule(field='header', message='subagents.lifecycle.v1.StepHeader', kind='message'),
        Rule(field='subject', kind='enum', allowed=[1, 2]),
        Rule(field='choice', kind='enum', allowed=[1, 2]),
    ),
    "subagents.lifecycle.v1.ExplainServingRequest": (
        Rule(field='slot', kind='text', pattern='^[a-z0-9][a-z0-9_-]{0,59}$'),
        Rule(field='principal', kind='text', most=256),
        Rule(field='experiment_arm', kind='text', most=128),
    ),
    "subagents.lifecycle.v1.GetFlagsRequest": (
        Rule(field='slot', kind='text', pattern='^[a-z0-9][a-z0-9_-]{0,59}$'),
    ),
    "subagents.lifecycle.v1.GetRampEvidenceRequest": (
        Rule(field='slot', kind='text', pattern='^([a-z0-9][a-z0-9_-]{0,59})?$'),
    ),
    "subagents.lifecycle.v1.GetRolloutRequest": (
        Rule(field='slot', kind='text', pattern='^[a-z0-9][a-z0-9_-]{0,59}$'),
    ),
    "subagents.lifecycle.v1.KillRequest": (
        Rule(field='header', message='subagents.lifecycle.v1.StepHeader', kind='message'),
    ),
    "subagents.lifecycle.v1.ListActivePeriodsRequest": (
        Rule(field='definition_id', kind='text', pattern='^[a-z0-9][a-z0-9_-]{0,59}$'),
        Rule(field='slot', kind='text', pattern='^([a-z0-9][a-z0-9_-]{0,59})?$'),
        Rule(field='principal', may_be_absent=True, kind='text', most=256),
        Rule(field='share_basis_points', may_be_absent=True, kind='number', least=0, most=10000),
        Rule(field='page_size', kind='number', least=0),
    ),
    "subagents.lifecycle.v1.ListDecommissionsRequest": (
        Rule(field='page_size', kind='number', least=0),
    ),
    "subagents.lifecycle.v1.ListReplicasRequest": (
        Rule(field='page_size', kind='number', least=0),
    ),
    "subagents.lifecycle.v1.ListRolloutsRequest": (
        Rule(field='page_size', kind='number', least=0),
    ),
    "subagents.lifecycle.v1.OverrideGateRequest": (
        Rule(field='header', message='subagents.lifecycle.v1.StepHeader', kind='message'),
        Rule(field='gate', kind='text', least=1, most=60),
        Rule(field='ramp_basis_points', kind='number', least=0, most=10000),
    ),
    "subagents.lifecycle.v1.PreviewRampRequest": (
        Rule(field='slot', kind='text', pattern='^[a-z0-9][a-z0-9_-]{0,59}$'),
        Rule(field='digest', kind='text', most=128),
        Rule(field='ramp_basis_points', kind='number', least=0, most=10000),
    ),
    "subagents.lifecycle.v1.RampDownRequest": (
        Rule(field='header', message='subagents.lifecycle.v1.StepHeader', kind='message'),
        Rule(field='breach_id', kind='text', pattern='^[!-~]{1,128}$'),
    ),
    "subagents.lifecycle.v1.RetireFlagsRequest": (
        Rule(field='header', message='subagents.lifecycle.v1.StepHeader', kind='message'),
    ),
    "subagents.lifecycle.v1.RollBackRequest": (
        Rule(field='header', message='subagents.lifecycle.v1.StepHeader', kind='message'),
        Rule(field='target_digest', may_be_absent=True, kind='text', least=1, most=128),
    ),
    "subagents.lifecycle.v1.SetRampRequest": (
        Rule(field='header', message='subagents.lifecycle.v1.StepHeader', kind='message'),
        Rule(field='ramp_basis_points', kind='number', least=0, most=10000),
    ),
    "subagents.lifecycle.v1.StepHeader": (
        Rule(field='definition_id', kind='text', pattern='^[a-z0-9][a-z0-9_-]{0,59}$'),
        Rule(field='slot', kind='text', pattern='^([a-z0-9][a-z0-9_-]{0,59})?$'),
        Rule(field='digest', kind='text', most=128),
        Rule(field='expected_revision', may_be_absent=True, kind='number', least=0, most=9007199254740992),
        Rule(field='reason', kind='text', least=1, most=1000),
        Rule(field='request_id', kind='text', pattern='^[!-~]{1,128}$'),
    ),
    "subagents.lifecycle.v1.SwitchCohortFlagOffRequest": (
        Rule(field='header', message='subagents.lifecycle.v1.StepHeader', kind='message'),
        Rule(field='expected_version', may_be_absent=True, kind='number', least=0, most=9007199254740992),
    ),
    "subagents.lifecycle.v1.SwitchFlagOnRequest": (
        Rule(field='header', message='subagents.lifecycle.v1.StepHeader', kind='message'),
        Rule(field='flag', kind='enum', allowed=[1, 2]),
        Rule(field='expected_version', may_be_absent=True, kind='number', least=0, most=9007199254740992),
    ),
    "subagents.lifecycle.v1.SwitchKillFlagOffRequest": (
        Rule(field='header', message='subagents.lifecycle.v1.StepHeader', kind='message'),
        Rule(field='expected_version', may_be_absent=True, kind='number', least=0, most=9007199254740992),
    ),
    "subagents.lifecycle.v1.TakeDecommissionStepRequest": (
        Rule(field='header', message='subagents.lifecycle.v1.StepHeader', kind='message'),
        Rule(field='step', kind='enum', allowed=[1, 2, 3, 4, 5]),
        Rule(field='code', kind='enum', allowed=[0, 1, 2]),
        Rule(field='confirmed', kind='text', most=1000),
    ),
    "subagents.lifecycle.v1.TransitionRequest": (
        Rule(field='header', message='subagents.lifecycle.v1.StepHeader', kind='message'),
        Rule(field='target_state', kind='enum', allowed=[1, 2, 3, 4]),
    ),
    "subagents.lifecycle.v1.UndoDecommissionRequest": (
        Rule(field='header', message='subagents.lifecycle.v1.StepHeader', kind='message'),
    ),
    "subagents.lifecycle.v1.WatchAuditRequest": (
        Rule(field='after_sequence', kind='number', least=0, most=9007199254740992),
        Rule(field='slot', kind='text', pattern='^([a-z0-9][a-z0-9_-]{0,59})?$'),
        Rule(field='definition_id', kind='text', pattern='^([a-z0-9][a-z0-9_-]{0,59})?$'),
    ),
    "subagents.runner.v1.Continuation": (
        Rule(field='answer', message='subagents.dispatch.v1.Answering', kind='message'),
    ),
    "subagents.runner.v1.QuestionAsked": (
        Rule(field='kind', kind='enum', allowed=[1, 2, 3]),
        Rule(field='text', kind='text', least=1, most=4096),
        Rule(field='about_json', kind='text', most_bytes=16384),
        Rule(field='answerer', kind='enum', allowed=[0, 1, 2]),
        Rule(field='state', kind='text', most_bytes=65536),
    ),
    "subagents.runner.v1.RunFinished": (
        Rule(field='question', message='subagents.runner.v1.QuestionAsked', kind='message'),
    ),
    "subagents.runner.v1.RunRequest": (
        Rule(field='continuation', message='subagents.runner.v1.Continuation', kind='message'),
    ),
    "subagents.runner.v1.RunResponse": (
        Rule(field='finished', message='subagents.runner.v1.RunFinished', kind='message'),
    ),
    "subagents.tools.v1.CallToolRequest": (
        Rule(field='tool_id', kind='text', least=1, most=256),
    ),
    "subagents.tools.v1.DelegateRequest": (
        Rule(field='tool_name', kind='text', least=1, most=256),
    ),
    "subagents.tools.v1.ReadOwnTurnsRequest": (
        Rule(field='max_turns', kind='number', least=0, most=1000),
    ),
}
