"""The command line: one file a command, argument parsing and printing only."""

from __future__ import annotations

import typer

from dollyd.daemon.cli import check, demo, keys, replay, run, settle, verify

application = typer.Typer(
    name="dollyd",
    help="Reads the physical outcome of gaming tables, signs it, keeps it, publishes it to MQTT.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
application.command("run")(run.run)
application.command("check")(check.check)
application.add_typer(keys.application, name="keys")
application.command("verify")(verify.verify)
application.command("replay")(replay.replay)
application.command("settle")(settle.settle)
application.command("demo", context_settings=demo.PASS_ON)(demo.demo)

__all__ = ["application"]
