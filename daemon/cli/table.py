"""`dollyd table`: give a signed order to a table.

The person's key is read from a file or stays with an agent; it is never on the command line. What will be
signed is shown in clear text first.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from dollyd.daemon.cli.any_order import AnyOrder
from dollyd.daemon.cli.site_link import check_option, keys_of_site, site_link
from dollyd.daemon.commands.line import NoAnswerError, Shown, TableLine
from dollyd.daemon.commands.ssh_agent import AgentKey, agent_keys
from dollyd.daemon.host.terminal import say
from dollyd.daemon.keys.signing import Signer, load_signer
from dollyd.daemon.table.state_topics import Pending
from dollyd.wire.answer import Answer
from dollyd.wire.command import (
    COMMAND_TYP,
    COMMAND_VERSION,
    LIFETIME_MAX_S,
    Command,
    Order,
    encode_command,
    make_command,
    read_command,
    text_of,
)
from dollyd.wire.errors import ConfigError, SigningError
from dollyd.wire.jws import EnvelopeError
from dollyd.wire.key_source import KeySource
from dollyd.wire.stamp import NS_PER_S, iso_utc

EXIT_REFUSED = 1
PROPOSALS = frozenset({Order.ENTER, Order.CORRECT})
"""What waits for a second person."""
ROLES = ("dealer", "inspector", "pit-boss", "technician")

application = typer.Typer(help="Give a signed order to a table.", no_args_is_help=True, cls=AnyOrder)

RoundOption: TypeAlias = Annotated[
    int,
    typer.Option("--round", metavar="N", help="The round that is meant; the last one opened unless given."),
]
Reason: TypeAlias = Annotated[str, typer.Option(metavar="TEXT", help="Why; stands in the record.")]
ValueArgument: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="VALUE...", help="What came: a pocket, number and cup, or each die.")
]


@dataclass(frozen=True, slots=True)
class _Person:
    """Where the order goes, and who gives it."""

    line: TableLine
    keys: KeySource | None
    """Whose answers count; None: nobody has said."""
    key: Callable[[], Signer | AgentKey]
    role: str
    dry_run: bool
    yes: bool


@application.callback()
def common(
    ctx: typer.Context,
    table: Annotated[str, typer.Option(metavar="NAME", help="The table.")] = "",
    role: Annotated[str, typer.Option(metavar="ROLE", help=f"{', '.join(ROLES)}.")] = "",
    config: Annotated[
        Path | None, typer.Option(metavar="F", help="The daemon's configuration: brokers, site, [desk].")
    ] = None,
    broker: Annotated[
        list[str] | None, typer.Option(metavar="HOST:PORT", help="Or a broker; several are tried in turn ...")
    ] = None,
    site: Annotated[str, typer.Option(metavar="SITE", help="... and the site.")] = "",
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Your private key (PEM, mode 0600).")
    ] = None,
    agent: Annotated[
        Path | None,
        typer.Option(metavar="SOCKET", envvar="SSH_AUTH_SOCK", help="Or the agent that has it."),
    ] = None,
    kid: Annotated[
        str, typer.Option(metavar="KID", help="Which of the agent's keys, where it has several.")
    ] = "",
    keys: Annotated[
        Path | None,
        typer.Option("--keys", metavar="JWKS", help="Check the answer: the nodes' keys (a JWK set)."),
    ] = None,
    trust: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Or the site's trust file; that of --config unless given ..."),
    ] = None,
    root: Annotated[str, typer.Option(metavar="KID", help="... and the root that it is signed under.")] = "",
    ca_file: Annotated[str, typer.Option(metavar="FILE", help="TLS: who vouches for the broker.")] = "",
    cert_file: Annotated[str, typer.Option(metavar="FILE", help="TLS: your certificate.")] = "",
    key_file: Annotated[str, typer.Option(metavar="FILE", help="TLS: the key of that certificate.")] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be signed; sign and send nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether to sign.")] = False,
) -> None:
    """Give a signed order to a table, and print its answer. These options stand before or behind the order.

    The answer must be signed by the table's node: by --keys or --trust, or the trust file of --config.

    Exit code 0: done; 1: refused, or no answer; 78: wrong use.
    """
    tls = {"ca_file": ca_file, "cert_file": cert_file, "key_file": key_file}
    # Judged when an order is given: whoever asks for help need not say who they are.
    ctx.obj = lambda: _Person(
        _line(config, broker or [], site, table, tls),
        keys_of_site(config, keys, trust, root),
        lambda: _key(key, agent, kid),
        _role(role),
        dry_run,
        yes,
    )


@application.command("open")
def open_table(
    ctx: typer.Context,
    check: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=TEXT", help="What was checked before, and how it was found; repeat it."),
    ] = None,
) -> None:
    """Open the table for play."""
    checks = {}
    for text in check or []:
        name, equals, found = text.partition("=")
        if not equals:
            remedy = "give one like --check wheel=level"
            raise ConfigError("dollyd table", "--check", f"{text!r} is no check", remedy)
        checks[name] = found
    _give(ctx, Order.OPEN, checks=checks)


@application.command("close")
def close(ctx: typer.Context) -> None:
    """Close the table."""
    _give(ctx, Order.CLOSE)


@application.command("no-more-bets")
def no_more_bets(ctx: typer.Context, round_number: RoundOption = 0) -> None:
    """No more bets."""
    _give(ctx, Order.NO_MORE_BETS, round_number)


@application.command("void")
def void(
    ctx: typer.Context,
    reason: Reason,
    round_number: RoundOption = 0,
    judged_by: Annotated[
        str, typer.Option(metavar="ID", help="Who judged it, where that was another person ...")
    ] = "",
    judged_role: Annotated[str, typer.Option(metavar="ROLE", help="... and in which role.")] = "",
) -> None:
    """Declare the round void."""
    _give(ctx, Order.VOID, round_number, reason=reason, judged_by=judged_by, judged_role=judged_role)


@application.command("confirm")
def confirm(ctx: typer.Context, round_number: RoundOption = 0) -> None:
    """Confirm the outcome that the devices have read."""
    _give(ctx, Order.CONFIRM, round_number)


@application.command("permit")
def permit(ctx: typer.Context, round_number: RoundOption = 0) -> None:
    """Permit the throw (dice)."""
    _give(ctx, Order.PERMIT, round_number)


@application.command("reject-throw")
def reject_throw(ctx: typer.Context, reason: Reason, round_number: RoundOption = 0) -> None:
    """Do not accept the throw (dice); the round goes on."""
    _give(ctx, Order.REJECT_THROW, round_number, reason=reason)


@application.command("seat")
def seat(
    ctx: typer.Context,
    seats: Annotated[list[str], typer.Argument(metavar="SEAT...", help="Seats in play, clockwise.")],
) -> None:
    """Say which seats take part (Tuplanoppa)."""
    _give(ctx, Order.SEAT, seats=seats)


@application.command("decline")
def decline(ctx: typer.Context) -> None:
    """The player whose turn it is passes the dice on (Tuplanoppa)."""
    _give(ctx, Order.DECLINE)


@application.command("inspected")
def inspected(ctx: typer.Context) -> None:
    """What a rule wants inspected was found good."""
    _give(ctx, Order.INSPECTED)


@application.command("none-imprisoned")
def none_imprisoned(ctx: typer.Context) -> None:
    """No stake is imprisoned: the version may change."""
    _give(ctx, Order.NONE_IMPRISONED)


@application.command("enter")
def enter(ctx: typer.Context, value: ValueArgument, reason: Reason, round_number: RoundOption = 0) -> None:
    """Propose a result by hand for the round in progress; a second person approves it."""
    _give(ctx, Order.ENTER, round_number, value=value, reason=reason)


@application.command("correct")
def correct(
    ctx: typer.Context,
    reason: Reason,
    round_number: Annotated[
        int, typer.Option("--round", metavar="N", min=1, help="The round that was published wrong.")
    ],
    value: Annotated[list[str] | None, typer.Argument(metavar="VALUE...", help="What really came.")] = None,
    as_void: Annotated[bool, typer.Option("--void", help="The round does not count.")] = False,
) -> None:
    """Propose the correction of a published round; a second person approves it."""
    if bool(value) == as_void:
        remedy = "give what really came, or --void"
        raise ConfigError("dollyd table correct", "VALUE", "neither or both given", remedy)
    _give(ctx, Order.CORRECT, round_number, value=value or [], reason=reason)


@application.command("approve")
def approve(
    ctx: typer.Context,
    proposal: Annotated[
        str, typer.Option(metavar="DIGEST", help="Only this one; the one that waits unless given.")
    ] = "",
) -> None:
    """Approve, as the second person, the result or correction that waits."""
    _give(ctx, Order.APPROVE, proposal=proposal)


# --- what they share -------------------------------------------------------------------------------


def _give(ctx: typer.Context, order: Order, round_number: int | None = None, **members: Any) -> None:
    """Show, ask, sign, send, and print the answer."""
    person: _Person = ctx.obj()
    try:
        key = None if person.dry_run else person.key()
        state = asyncio.run(person.line.state())
        say(f"table {state.table}: {state.game} {state.variant}, {state.phase}, last round {state.round}")
        if round_number is not None:
            members["round"] = round_number or state.round
        if order is Order.APPROVE:
            members = _pending(state, members["proposal"])
        payload = _payload(person, order, state, members)
        if key is None:
            say("would be signed:", payload.decode())
            return
        if not person.yes and not typer.confirm("Sign and send?"):
            raise typer.Exit(EXIT_REFUSED)
        envelope = key.sign(payload, COMMAND_TYP)
        answer = asyncio.run(person.line.ask(envelope, person.keys))
    except (NoAnswerError, SigningError) as error:
        say(f"no: {error}")
        raise typer.Exit(EXIT_REFUSED) from None
    if person.keys is None:
        say("answer not checked: no keys given")
    _tell(answer, order, read_command(envelope).digest)


def _payload(person: _Person, order: Order, state: Shown, members: dict[str, Any]) -> bytes:
    """What is to be signed, shown in clear text; from now on it is good for a minute."""
    now_ns = time.time_ns()
    head = {
        "v": COMMAND_VERSION,
        "site": person.line.site,
        "table": person.line.table,
        "chain": state.chain,
        "order": order,
        "role": person.role,
        "nonce": secrets.token_hex(16),
        "issued": iso_utc(now_ns),
        "expires": iso_utc(now_ns + LIFETIME_MAX_S * NS_PER_S),
    }
    try:
        command = make_command(head | {name: value for name, value in members.items() if value})
        payload = encode_command(command)
    except EnvelopeError as error:
        remedy = "correct what was given"
        raise ConfigError("dollyd table", str(order), error.detail, remedy) from error
    say(*text_of(command).split("\n"))
    return payload


def _pending(state: Shown, wanted: str) -> dict[str, Any]:
    """What an approval says of the proposal that waits."""
    waits = state.proposal
    if waits is None or wanted not in ("", waits.digest):
        remedy = "have a first person give `enter` or `correct`"
        raise ConfigError("dollyd table", "approve", "no such proposal waits", remedy)
    first = _proposed(state, waits)
    say(f"what {waits.by} is said to have signed, and you approve:")
    say(*(f"  {line}" for line in text_of(first).split("\n")))
    return {"round": first.round, "value": list(first.value), "proposal": waits.digest}


def _proposed(state: Shown, waits: Pending) -> Command:
    """The first person's command, out of what was signed: the state around it is anybody's word."""
    try:
        signed = read_command(waits.command.encode())
    except EnvelopeError as error:
        raise NoAnswerError(f"the table shows no signed command behind the proposal: {error}") from error
    first = signed.command
    if signed.digest != waits.digest:
        raise NoAnswerError("the command behind the proposal is not the one whose digest is shown")
    if (first.table, first.chain) != (state.table, state.chain) or first.order not in PROPOSALS:
        raise NoAnswerError("the command behind the proposal is none of this table")
    return first


def _tell(answer: Answer, order: Order, digest: str) -> None:
    if answer.answer != "done":
        say(f"refused: {answer.why}")
        raise typer.Exit(EXIT_REFUSED)
    say("done")
    for record in answer.records:
        say(f"  {record['kind']}, round {record['round']}")
    if order in PROPOSALS:
        say(f"  proposal {digest} waits for a second person")


def _role(role: str) -> str:
    if role not in ROLES:
        raise ConfigError("dollyd table", "--role", f"no role {role!r}", f"choose among {', '.join(ROLES)}")
    return role


def _line(
    config: Path | None, brokers: list[str], site: str, table: str, tls: Mapping[str, str]
) -> TableLine:
    """Which table, and by which brokers."""
    link = site_link("table", config, brokers, site, tls)
    if not table and link.settings is not None and len(link.settings.tables) == 1:
        (table,) = link.settings.tables
    check_option("table", "--table", table)
    return TableLine(link.mqtt, link.site, table)


def _key(file: Path | None, agent: Path | None, kid: str) -> Signer | AgentKey:
    if file is not None:
        return load_signer(file, config_file="--key", key="")
    if agent is None:
        remedy = "give --key FILE, or --agent SOCKET"
        raise ConfigError("dollyd table", "--key", "missing, and no agent is known", remedy)
    keys = [key for key in agent_keys(agent) if kid in ("", key.kid)]
    if len(keys) != 1:
        problem = f"the agent has {len(keys)} Ed25519 keys that could be meant"
        remedy = f"choose one by --kid among {', '.join(key.kid for key in agent_keys(agent)) or 'none'}"
        raise ConfigError("dollyd table", "--kid", problem, remedy)
    return keys[0]
