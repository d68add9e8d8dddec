"""`dollyd status`: what a site shows of itself, once."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Annotated

import typer

from dollyd.daemon.cli.site_link import SiteLink, keys_of_site, site_link
from dollyd.daemon.commands.line import NoAnswerError
from dollyd.daemon.host.terminal import say, say_json
from dollyd.daemon.site.hearing import HeardSite, hear_site
from dollyd.daemon.site.lines import in_lines
from dollyd.daemon.site.status import site_status
from dollyd.wire.topics import Topics

EXIT_NOT_GOOD = 1
_DENIED = (
    "the user of this link ({}) may not read it, or no daemon has run there; come as the user `desk`:"
    " cert_file and key_file below [desk] of the configuration, or --cert-file and --key-file"
)


def status(
    config: Annotated[
        Path | None, typer.Option(metavar="F", help="A node's configuration: brokers, site, tables.")
    ] = None,
    broker: Annotated[
        list[str] | None, typer.Option(metavar="HOST:PORT", help="Or a broker; several are tried in turn ...")
    ] = None,
    site: Annotated[str, typer.Option(metavar="SITE", help="... and the site.")] = "",
    keys: Annotated[
        Path | None, typer.Option("--keys", metavar="JWKS", help="Check the last records: the nodes' keys.")
    ] = None,
    trust: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Or the site's trust file; that of --config unless given ..."),
    ] = None,
    root: Annotated[str, typer.Option(metavar="KID", help="... and the root that it is signed under.")] = "",
    ca_file: Annotated[str, typer.Option(metavar="FILE", help="TLS: who vouches for the broker.")] = "",
    cert_file: Annotated[str, typer.Option(metavar="FILE", help="TLS: your certificate.")] = "",
    key_file: Annotated[str, typer.Option(metavar="FILE", help="TLS: the key of that certificate.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Show tables, what blocks them, last outcomes, devices and nodes of a site, and how old each word is.

    It is what the broker keeps: only the last record of a table is signed. Ages are by this machine's clock.

    Exit code 0: nothing is blocked, stale or missing; 1: something is, or no broker answers; 78: wrong use.
    """
    tls = {"ca_file": ca_file, "cert_file": cert_file, "key_file": key_file}
    link = site_link("status", config, broker or [], site, tls)
    trusted = keys_of_site(config, keys, trust, root)
    topics = Topics(link.site)
    wanted = _wanted(link, topics)
    try:
        heard = asyncio.run(hear_site(link.mqtt, topics, wanted.keys()))
    except NoAnswerError as error:
        say(f"no: {error}")
        raise typer.Exit(EXIT_NOT_GOOD) from None
    said = site_status(link.site, heard.broker, heard.payloads, time.time_ns(), trusted)
    said.missing = _missing(link, heard, wanted)
    if as_json:
        say_json(said)
    else:
        say(*in_lines(said))
    if not said.good:
        raise typer.Exit(EXIT_NOT_GOOD)


def _wanted(link: SiteLink, topics: Topics) -> dict[str, str]:
    """What a configuration says must be there, by topic, in words."""
    if link.settings is None:
        return {}
    node = link.settings.node
    wanted = {
        topics.node_status(node): f"status of node {node}",
        topics.node_health(node): f"health of node {node}",
    }
    for name, table in link.settings.tables.items():
        wanted[topics.state(name)] = f"state of table {name}"
        wanted |= {topics.device(name, one): f"device {one} of table {name}" for one in table.devices}
    return wanted


def _missing(link: SiteLink, heard: HeardSite, wanted: dict[str, str]) -> list[str]:
    user = link.mqtt.cert_file or link.mqtt.username or "no certificate"
    absent = [words for topic, words in wanted.items() if not heard.payloads.get(topic)]
    if not wanted and not any(heard.payloads.values()):
        absent = [f"anything of site {link.site}"]
    return [f"{', '.join(absent)}: {_DENIED.format(user)}"] if absent else []
