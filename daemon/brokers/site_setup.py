"""Everything that a site's broker and its users need: configuration, access list, certificates, scripts.

What is made is told by name and content; `daemon/cli/broker_setup.py` writes it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files

from dollyd.daemon.brokers.acl import ROLES, node_acl, user_acl
from dollyd.daemon.brokers.authority import Authority, Pair
from dollyd.wire.topics import Topics

PORT = 8883
AUTHORITY, BROKER = "site-ca", "broker"
"""Names of pairs of files that no user may have."""
CONFIGURATION, ACCESS_LIST = "dollyd.conf", "dollyd.acl"

_HEAD = """\
# Who may do what at the broker. Install as /etc/mosquitto/dollyd.acl, name it in mosquitto.conf (acl_file),
# and send the broker SIGHUP after each change.
#
# A user is the common name of a client certificate (use_identity_as_username). What is not allowed here is
# refused: an MQTT 5 client is told (reason 135), an older one is not, and a message without right is not
# passed on. Nothing is said by pattern: the rights of each user can be read in one place.
#
# Site "{site}". `dollyd broker-setup` writes such a file, and the certificates, for the users of any site.

# --- nodes ------------------------------------------------------------------------------------------------
#
# One block a node, as `dollyd check --config F --acl` prints it from the node's own configuration: a node may
# publish its own topics and those of its own tables, and read what is asked of them. One of them publishes
# the site's trust file, all others have `signing.publish_trust = false`: who can publish there can put an
# older version back.
"""
_OTHERS = """\
# --- everybody else ---------------------------------------------------------------------------------------
#
# Who follows the records publishes two things, each under its own name: how far it has come, and requests to
# send records again. So nobody asks in the name of another, and each has the same share of what a node sends
# again. Instances of the archive share the records and one acknowledgement, that of their group. Commands are
# signed by the operator's own key: the right to send them changes nothing at a table.
"""
_BROKER_SCRIPT = """\
#!/bin/sh
# On the broker's machine, as root. DESTDIR=/some/where lays the files out there and starts nothing.
set -eu
cd "$(dirname "$0")"
etc="${DESTDIR:-}/etc/mosquitto"
install -D -m 644 dollyd.conf "$etc/conf.d/dollyd.conf"
install -D -m 640 dollyd.acl "$etc/dollyd.acl"
install -D -m 644 site-ca.crt "$etc/certs/site-ca.crt"
install -D -m 644 broker.crt "$etc/certs/broker.crt"
install -D -m 600 broker.key "$etc/certs/broker.key"
[ -z "${DESTDIR:-}" ] || exit 0
chgrp mosquitto "$etc/dollyd.acl"
chown mosquitto: "$etc/certs/broker.key" # it is read again on SIGHUP, when the broker is no longer root
systemctl restart mosquitto
"""
_NODE_SCRIPT = """\
#!/bin/sh
# On node {node}, as root. DESTDIR=/some/where lays the files out there.
set -eu
cd "$(dirname "$0")"
etc="${{DESTDIR:-}}/etc/dollyd"
install -D -m 644 site-ca.crt "$etc/site-ca.crt"
install -D -m 644 {node}.crt "$etc/mqtt.crt"
install -D -m 600 {node}.key "$etc/credentials/mqtt.key"
"""
NODE_LINES = """\
[mqtt]
brokers = ["mqtts://{host}:8883"]
ca_file = "/etc/dollyd/site-ca.crt"
cert_file = "/etc/dollyd/mqtt.crt"
key_file = "/run/credentials/dollyd.service/dollyd_mqtt.key"
"""
"""What a node's configuration says of the files that its script installs."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the site, and the tables that it may speak for."""

    name: str
    tables: tuple[str, ...]
    publishes_trust: bool


@dataclass(frozen=True, slots=True)
class Site:
    """Who comes to the broker, and where it is."""

    name: str
    nodes: tuple[Node, ...]
    users: Mapping[str, str]
    """Name to role (`acl.ROLES`)."""
    hosts: tuple[str, ...]
    """Names and addresses of the broker's machine."""


def plain_files(site: Site) -> dict[str, bytes]:
    """What is no secret and can be made again at any time: configuration, access list, scripts."""
    scripts = {f"install-{node.name}.sh": _NODE_SCRIPT.format(node=node.name) for node in site.nodes}
    shipped = files("dollyd").joinpath("config", "mosquitto.conf").read_text("utf-8")
    texts = {CONFIGURATION: shipped, ACCESS_LIST: site_acl(site), "install-broker.sh": _BROKER_SCRIPT}
    return {name: text.encode() for name, text in {**texts, **scripts}.items()}


def pair_names(site: Site) -> Iterator[str]:
    """Who has a certificate and a key: the broker, and every user."""
    yield BROKER
    yield from (node.name for node in site.nodes)
    yield from site.users


def new_pair(site: Site, name: str, authority: Authority, now: dt.datetime, until: dt.datetime) -> Pair:
    """Certificate and key of one of `pair_names`. Raises ValueError for a host that is no name."""
    if name == BROKER:
        return authority.server((*site.hosts, "localhost"), now, until)  # to be tried on its own machine
    return authority.client(name, now, until)


def site_acl(site: Site) -> str:
    """The access list of a site."""
    topics = Topics(site.name)
    blocks = [_HEAD.format(site=site.name)]
    blocks += [
        node_acl(topics, node.name, node.tables, publishes_trust=node.publishes_trust) for node in site.nodes
    ]
    blocks.append(_OTHERS)
    for name, role in site.users.items():
        blocks.append(f"# {ROLES[role].about}\n{user_acl(topics, name, role)}")
    return "\n".join(blocks)
