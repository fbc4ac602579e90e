"""`semel service`: run the gateway as a service of systemd or launchd."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from semel.faces.cli.app import Config, DataDir, app
from semel.faces.cli.printing import print_error, print_remark

service_app = typer.Typer(help="Run the gateway as a service of systemd or launchd.", no_args_is_help=True)
app.add_typer(service_app, name="service")

System = Annotated[
    bool,
    typer.Option("--system", help="For the whole system, as root. Default: a service of the user who installs it."),
]
RunAs = Annotated[
    str | None,
    typer.Option(
        "--run-as",
        metavar="NAME",
        help="With --system: the user who runs the gateway and its agents. Default: semel.",
    ),
]


def _choose_account(system: bool, run_as: str | None) -> str:
    """Return the user of a system service. Raises typer.BadParameter if one is named for another service."""
    if run_as is not None and not system:
        raise typer.BadParameter("only a service for the whole system runs as another user: add --system")
    return run_as or "semel"


@service_app.command("install")
def install_service(
    system: System = False,
    run_as: RunAs = None,
    start: Annotated[
        bool, typer.Option("--start/--no-start", help="Start it now, and again at each boot or login.")
    ] = True,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Install the service and start it. Run this again if PATH or these options change.

    The configuration is checked first, with the variables that the service will have: those in
    ~/.config/semel/environment (with --system: /etc/semel/environment), and the PATH of this shell.
    """
    from semel.faces.service.installation import ServiceError, install, plan_installation

    account = _choose_account(system, run_as)
    try:
        planned = plan_installation(config, data_dir, system=system, account=account)
        remarks = install(planned, start=start)
    except ServiceError as error:
        print_error(*str(error).splitlines())
        raise typer.Exit(1) from None
    print(planned.file)
    print_remark(f"it keeps its data in {planned.data_dir}" + (", and runs now" if start else ""))
    if system:
        print_remark(f"commands reach it as {account}: sudo -H -u {account} semel status --data-dir {planned.data_dir}")
    for remark in (*planned.remarks, *remarks):
        print_remark(remark)


@service_app.command("uninstall")
def uninstall_service(system: System = False) -> None:
    """Stop the service and remove it. Data and configuration stay."""
    from semel.faces.service.installation import ServiceError, uninstall

    try:
        file = uninstall(system)
    except ServiceError as error:
        print_error(str(error))
        raise typer.Exit(1) from None
    print_remark(f"removed: {file}")


@service_app.command("print")
def print_service(
    system: System = False, run_as: RunAs = None, config: Config = None, data_dir: DataDir = None
) -> None:
    """Print the file that `install` writes: a unit of systemd, or a property list of launchd.

    What is still missing, and would make `install` refuse the service, is told on stderr.
    """
    from semel.faces.service.installation import ServiceError, plan_installation

    account = _choose_account(system, run_as)
    try:
        planned = plan_installation(config, data_dir, system=system, account=account)
        sys.stdout.write(planned.render().decode())
    except ServiceError as error:
        print_error(str(error))
        raise typer.Exit(1) from None
    if planned.obstacles:
        print_remark("`semel service install` would refuse this service:")
    for obstacle in planned.obstacles:
        for line in str(obstacle).splitlines():
            print_remark(line)
    for remark in planned.remarks:
        print_remark(remark)
