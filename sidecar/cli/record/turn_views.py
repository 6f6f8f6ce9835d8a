"""Implements `sidecar turns`, `turn` and `episodes`: query the running sidecar, and print its answer."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TextIO

from sidecar.cli.output.drawing import Part, Screen, TextLine, begin_of, clean, columns, length, timestamp, utc
from sidecar.cli.output.json_output import enum_word, message_to_json
from sidecar.cli.record.client import RecordClient, RecordExit, RecordUnavailable, SidecarAddress
from subagents.history.v1 import history_pb2 as pb
from subagents.history.v1 import record_pb2

STATE_STYLE = {"ended": "green", "open": "cyan", "lost": "red"}


@dataclass(frozen=True, slots=True)
class TurnCommands:
    """The sidecar that is queried, and the streams for the output.

    Attributes:
        environment: variables such as `NO_COLOR`; None: those of the process.
        now: returns the present time.
    """

    where: SidecarAddress
    out: TextIO
    errors: TextIO
    environment: Mapping[str, str] | None = None
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class TurnsOptions:
    """The filters of the list; an empty one selects all. `since` and `until` are times as the operator typed them."""

    episode: str = ""
    slot: str = ""
    state: str = ""
    limit: int = 20
    as_json: bool = False
    user: str = ""
    outcome: str = ""
    definition: str = ""
    since: str = ""
    until: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """The turn to show, and its form.

    Attributes:
        children: ids of the children to show; empty: all.
        expand: show contracts and all details.
        follow: show events as they happen, until the turn has ended.
    """

    turn_id: str
    children: Sequence[str] = ()
    expand: bool = False
    follow: bool = False
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class EpisodeOptions:
    """The conversation to show. `full`: include tool messages, and turns before the summary."""

    episode: str
    principal: str
    full: bool = False
    as_json: bool = False


def show_turns(commands: TurnCommands, options: TurnsOptions) -> int:
    """List turns; return the exit code."""
    # A protobuf message accepts the name of an enum value in place of its number.
    state = f"TURN_STATE_{options.state.upper() or 'UNSPECIFIED'}"
    request = pb.ListTurnsRequest(
        episode_id=options.episode,
        sub_agent_id=options.slot,
        state=state,
        principal=options.user,
        outcome=f"OUTCOME_{options.outcome.upper() or 'UNSPECIFIED'}",
        definition_id=options.definition,
        reason=f"ERROR_REASON_{options.reason if _ends_a_call(options.reason) else 'UNSPECIFIED'}",
    )
    problem = (
        _set_times(request, {"since": options.since, "until": options.until}, commands.now())
        if options.since or options.until
        else ""
    )
    if problem:
        commands.errors.write(f"{problem}\n")
        return RecordExit.USAGE

    # An unknown reason must not become a list without a filter, which would look like a result.
    if options.reason and not request.reason:
        commands.errors.write(
            f"--reason: no call ends with {clean(options.reason)}; docs/errors.md lists the reasons of calls\n"
        )
        return RecordExit.USAGE

    def work(client: RecordClient, screen: Screen) -> None:
        rows, as_of = client.turns(request, options.limit)
        if options.as_json:
            screen.write(_json([message_to_json(row) for row in rows]))
        elif rows:
            header = ("when (UTC)", "turn", "episode", "state", "slots", "children", "failed", "took")
            screen.show(columns(header, [_turn_cells(row) for row in rows]))
        else:
            screen.show([[Part("no such turn is on record")]])
        _print_as_of(commands, as_of)

    return _with_client(commands, work)


def _ends_a_call(reason: str) -> bool:
    """Return whether a call can end with this reason; other reasons refuse whole requests and are in no record."""
    if not reason:
        return False
    from subagents_errors import CallFailure  # noqa: PLC0415  most lists name no reason

    return reason in CallFailure.__members__


def _set_times(request: pb.ListTurnsRequest, times: Mapping[str, str], now: datetime) -> str:
    """Set the times of a request; return the problem of an invalid time, or nothing."""
    from sidecar.cli.parameters.moments import moment_of  # noqa: PLC0415  most lists name no time

    for name, text in times.items():
        try:
            if text:
                getattr(request, name).FromDatetime(moment_of(text, now))
        except ValueError as problem:
            return f"--{name}: {problem}"
    return ""


def show_turn(commands: TurnCommands, options: TurnOptions) -> int:
    """Show one turn; return the exit code."""
    from sidecar.cli.output.turn_timeline import Drawing, turn_lines  # noqa: PLC0415  a list draws no timeline

    def work(client: RecordClient, screen: Screen) -> None:
        if options.follow:
            _follow(client, screen, commands, options)
            return
        turn = client.turn(options.turn_id, options.children)
        if options.as_json:
            screen.write(_json(message_to_json(turn)))
        else:
            screen.show(turn_lines(turn, Drawing(screen.marks, screen.width, commands.now(), options.expand)))

    return _with_client(commands, work)


def show_episodes(commands: TurnCommands, limit: int, *, as_json: bool) -> int:
    """List episodes; return the exit code."""

    def work(client: RecordClient, screen: Screen) -> None:
        rows, as_of = client.episodes(limit)
        if as_json:
            screen.write(_json([message_to_json(row) for row in rows]))
        elif rows:
            header = ("last (UTC)", "episode", "principal", "turns", "slots")
            screen.show(columns(header, [_episode_cells(row) for row in rows]))
        else:
            screen.show([[Part("no episode is recorded yet")]])
        _print_as_of(commands, as_of)

    return _with_client(commands, work)


def show_episode(commands: TurnCommands, options: EpisodeOptions) -> int:
    """Show one conversation; return the exit code."""
    view = pb.EPISODE_VIEW_FULL if options.full else pb.EPISODE_VIEW_NARRATION
    request = pb.ReadEpisodeRequest(episode_id=options.episode, principal=options.principal, view=view)

    def work(client: RecordClient, screen: Screen) -> None:
        episode = client.episode(request)
        if options.as_json:
            screen.write(_json(message_to_json(episode)))
        else:
            screen.show(_episode_lines(episode))
        # The sidecar answers an unknown id with an empty conversation and not with an error.
        if not episode.turns and not episode.HasField("summary"):
            raise RecordUnavailable(
                f"no conversation is stored for episode {options.episode} of principal {options.principal}; "
                "`sidecar episodes` lists the episodes and their users",
                RecordExit.NOT_FOUND,
            )

    return _with_client(commands, work)


def _print_as_of(commands: TurnCommands, as_of: datetime | None) -> None:
    """Print to standard error up to which time a list is complete, if it lags; JSON output stays as it is."""
    if as_of is not None:
        commands.errors.write(f"as of {timestamp(as_of)} UTC; later turns may still be missing\n")


def _with_client(commands: TurnCommands, work: Callable[[RecordClient, Screen], None]) -> int:
    """Run `work` with a connection, and print its error if it fails. Returns the exit code."""
    try:
        with RecordClient(commands.where) as client:
            work(client, Screen(commands.out, commands.environment))
    except RecordUnavailable as problem:
        commands.errors.write(f"{problem}\n")
        return problem.code
    except KeyboardInterrupt:
        pass  # Ctrl-C ends the command normally
    return RecordExit.OK


def _follow(client: RecordClient, screen: Screen, commands: TurnCommands, options: TurnOptions) -> None:
    """Print events as they happen; at the end, the bars of all children."""
    from sidecar.cli.output.turn_timeline import Drawing, event_line, turn_lines  # noqa: PLC0415  a list draws none

    names: dict[str, str] = {}
    # Read before the events: the stream does not say when the turn began, and all views must show the same seconds.
    begin = None if options.as_json else begin_of(client.turn(options.turn_id))
    for message in client.watch(options.turn_id):
        for child in message.children:
            names[child.child_id] = f"{child.emission_index} {clean(child.sub_agent_id)}"
        for event in message.events:
            if options.children and event.child_id not in options.children:
                continue
            if begin is None:
                # With --json: one object on a line, so that a program can read each as it comes.
                screen.write(json.dumps(message_to_json(event), ensure_ascii=False))
            else:
                label = names.get(event.child_id, "")[:16].ljust(17)
                screen.show([event_line(event, begin, label)])
    # Read again: the stream has events only, and not the outcomes that the bars show.
    if not options.as_json:
        turn = client.turn(options.turn_id, options.children)
        screen.show([[], *turn_lines(turn, Drawing(screen.marks, screen.width, commands.now(), events=False))])


def _turn_cells(row: Any) -> list[Part]:
    state = enum_word(record_pb2.TurnState, row.state)
    duration = utc(row.ended_at) - utc(row.started_at) if row.HasField("ended_at") else None
    return [
        Part(timestamp(utc(row.started_at))),
        Part(clean(row.turn_id), "bold"),
        Part(clean(row.episode_id)),
        Part(state, STATE_STYLE.get(state, "")),
        Part(clean(",".join(row.sub_agent_ids)) or "-"),
        Part(str(row.child_count)),
        Part(str(row.failed_child_count), "red" if row.failed_child_count else ""),
        # At least 0: begin and end may come from the clocks of two sidecars.
        Part("-" if duration is None else length(max(duration, timedelta(0)))),
    ]


def _episode_cells(row: Any) -> list[Part]:
    return [
        Part(timestamp(utc(row.last_turn_at))),
        Part(clean(row.episode_id), "bold"),
        Part(clean(row.principal)),
        Part(str(row.turn_count)),
        Part(clean(",".join(row.sub_agent_ids)) or "-"),
    ]


def _episode_lines(episode: pb.ReadEpisodeResponse) -> list[TextLine]:
    lines: list[TextLine] = []
    if episode.HasField("summary"):
        lines.append([Part("summary ", "bold"), Part(clean(episode.summary.text))])
    if episode.turns_left_out:
        lines.append([Part(f"({episode.turns_left_out} older turns are left out)", "dim")])
    for turn in episode.turns:
        lines.append([Part(clean(turn.turn_id), "bold"), Part(f"  {timestamp(utc(turn.ended_at))} UTC", "dim")])
        lines += [[Part("  user       ", "cyan"), Part(clean(turn.user_message))]] if turn.user_message else []
        for answer in turn.answers:
            request_line = f"  {clean(answer.sub_agent_id)} was asked: {clean(answer.asked)}"
            lines += [[Part(request_line, "dim")], [Part(f"    and said: {clean(answer.narration)}", "dim")]]
        for tool in turn.tool_messages:
            lines.append([Part(f"  {clean(tool.sub_agent_id)} made {clean(tool.name)}: {clean(tool.tool_input_json)}")])
            lines.append([Part(f"    {clean(tool.component_data_json)}", "dim")])
        lines.append([Part("  assistant  ", "green"), Part(clean(turn.narration))])
    return lines


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
