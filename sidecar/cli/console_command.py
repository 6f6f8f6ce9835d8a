"""Declares `sidecar console`. The web libraries, which the extra `console` installs, are imported only when it runs."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from sidecar.cli.record.turn_commands import SettingsOf, given_by
from sidecar.cli.subagent.options import EX_USAGE, Config, Targets, TlsFolder, socket_of

DEFAULT: Final = "127.0.0.1:8700"
"""The address of the console if the command names none."""
EXIT_CODES: Final = (
    "Exit codes: 0 stopped; 2 not started (wrong address, missing certificate, extra `console` not installed); 78 "
    "invalid settings."
)


def add_console(app: typer.Typer, settings_of: SettingsOf, environment: Any) -> None:
    """Add the command.

    Args:
        app: the command line.
        settings_of: reads the settings, or ends the command.
        environment: provides the default target.
    """

    # The parameters of this function are options; `given_by` adds them to the command.
    def console_options(
        listen: Annotated[str, typer.Option("--listen", help="Address and port of the console.")] = DEFAULT,
        certificate: Annotated[
            Path | None, typer.Option("--certificate", help="Certificate of the console, PEM, for HTTPS.")
        ] = None,
        key: Annotated[Path | None, typer.Option("--key", help="The key of --certificate, PEM.")] = None,
        host: Annotated[
            list[str] | None,
            typer.Option("--host", help="A name under which browsers reach the console, beside that of --listen."),
        ] = None,
    ) -> dict[str, Any]:
        return {"listen": listen, "certificate": certificate, "key": key, "hosts": tuple(host or ())}

    @app.command(name="console", epilog=EXIT_CODES)
    @given_by(console_options, "options")
    def console(options: dict[str, Any], config: Config = None, target: Targets = None, tls: TlsFolder = None) -> None:
        """Serve a web page for operators: what is served now, the rollouts, and the turns.

        Each operator signs in with a role token. Several --target show replicas side by side; the first that answers is
        asked for rollouts and turns, and a kill is sent to all. Without --certificate only a loopback address may be
        served. Needs the extra `console`: pip install 'dispatch-sidecar[console]'.
        """
        targets = tuple(target or ())
        # An explicit --config takes precedence over the variable, which may be left over in the shell.
        if not targets and config is None and (named := environment.target().strip()):
            targets = (named,)
        if not targets:
            targets = (socket_of(config, settings_of),)
        try:
            # After the address is known: wrong settings are reported even if the extra is not installed.
            from sidecar.cli.console.serving import ConsoleOptions, serve_console  # noqa: PLC0415  needs the extra
        except ModuleNotFoundError as missing:
            typer.echo(f"{missing.name} is missing: pip install 'dispatch-sidecar[console]'", err=True)
            raise typer.Exit(EX_USAGE) from None
        raise typer.Exit(
            serve_console(ConsoleOptions(targets, tls=tls, **options), lambda line: typer.echo(line, err=True))
        )
