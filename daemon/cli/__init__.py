"""The command line: one file a command, argument parsing and printing only."""

from __future__ import annotations

import typer

from dollyd.daemon.cli import (
    archive,
    broker_setup,
    check,
    config,
    demo,
    discover,
    doctor,
    export,
    keys,
    replay,
    run,
    self_check,
    selftest,
    settle,
    show,
    status,
    table,
    trust,
    verify,
    wait_for_pause,
    witness,
)

application = typer.Typer(
    name="dollyd",
    help="Reads the physical outcome of gaming tables, signs it, keeps it, publishes it to MQTT.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
application.command("run")(run.run)
application.command("check")(check.check)
application.command("discover")(discover.discover_command)
application.command("doctor")(doctor.doctor)
application.command("status")(status.status)
application.command("selftest")(selftest.selftest)
application.command("self-check")(self_check.self_check)
application.command("wait-for-pause")(wait_for_pause.wait_for_pause)
application.command("broker-setup")(broker_setup.broker_setup)
application.add_typer(archive.application, name="archive")
application.add_typer(config.application, name="config")
application.add_typer(keys.application, name="keys")
application.add_typer(trust.application, name="trust")
application.add_typer(table.application, name="table")
application.command("export")(export.export_command)
application.command("verify")(verify.verify)
application.command("show")(show.show)
application.command("replay")(replay.replay)
application.command("settle")(settle.settle)
application.command("witness")(witness.witness)
application.command("demo", context_settings=demo.PASS_ON)(demo.demo)

__all__ = ["application"]
