"""Whether a running broker really has what the guarantees need: proved by behaviour, on scratch topics.

It may run beside the daemon: it uses client ids of its own, and topics that nobody else reads. That a broker
saves to disk takes a restart to prove: see `persistence`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import msgspec
from cryptography import x509

from dollyd.daemon.brokers.finding import Finding, Level
from dollyd.daemon.brokers.persistence import judge, take_look
from dollyd.daemon.host.clock import Clock
from dollyd.daemon.link.certificates import WARN_DAYS, days_left
from dollyd.daemon.link.mqtt import (
    CONSUMER_PACKET_MAX,
    PACKET_MAX,
    Cause,
    LinkError,
    Message,
    MqttLink,
    MqttSettings,
)
from dollyd.daemon.link.trouble import ANOTHER_NODE, RENAME
from dollyd.wire.decoding import from_json
from dollyd.wire.stamp import NS_PER_S, iso_utc
from dollyd.wire.topics import Topics

ABSENT_RECORDS = 1500
"""What a broker must keep for one subscriber that is away: some minutes of a large site. Mosquitto's default
is 1000, and it drops the rest without a word."""
RECORD_BYTES = 2000
"""About the size of a signed result."""
LARGEST_BYTES = 128 * 1024
"""No record, state or health of ours is larger; trust files are."""
SILENCE_S = 1.0
"""A broker that has said nothing for so long has no more to say."""
CLOCK_AHEAD_S = 2

_LARGER = f"set max_packet_size {CONSUMER_PACKET_MAX} and no message_size_limit, or a larger one"
_DROPPED = "$SYS/broker/publish/messages/dropped"


class _Status(msgspec.Struct, frozen=True):
    """What is needed of the payload of `node/<node>/status`."""

    node: str
    time: str
    taken_over: int = 0


class BrokerCheck:
    """One check of one broker. Takes a few seconds; leaves no session and one retained topic, the marker."""

    def __init__(
        self,
        mqtt: MqttSettings,
        broker: str,
        topics: Topics,
        node: str,
        clock: Clock,
        sizes: Mapping[str, int] | None = None,
        *,
        restarted: bool = False,
    ) -> None:
        """`sizes`: bytes of what this node has to publish, by what it is, as far as it is known.

        `restarted`: a person says that the broker was restarted since the last check.
        """
        self._restarted = restarted
        self._sizes = {"any record": LARGEST_BYTES, **(sizes or {})}
        self._ours = replace(mqtt, client_id=f"{mqtt.client_id}-check")
        self._absent = replace(mqtt, client_id=f"{mqtt.client_id}-check-absent")
        self._broker = broker
        self._topics = topics
        self._node = node
        self._clock = clock
        self._scratch = topics.node_check(node, "scratch")
        self._marker = topics.node_check(node, "marker")

    async def run(self) -> list[Finding]:
        """Everything that could be found out; a broker that cannot be reached is one finding."""
        findings: list[Finding] = []
        parts = {
            "reach": self._reach,
            "size": self._carry_large,
            "retained": self._retain,
            "queue": self._keep_queue,
            "access": self._refuse,
            "surroundings": self._look_around,
            "persistence": self._prove_persistence,
        }
        for what, part in parts.items():
            try:
                findings += await part()
            except LinkError as error:
                findings.append(Finding(Level.WRONG, what, str(error), error.remedy))
                if error.cause in {Cause.REFUSED, Cause.UNREACHABLE, Cause.TLS, Cause.REJECTED}:
                    break
        return findings

    async def _reach(self) -> list[Finding]:
        async with self._link() as link:
            await link.publish(self._scratch, b"reached")
            certificate = link.peer_certificate
        reached = Finding(Level.GOOD, "reach", f"{self._broker} acknowledges QoS 1")
        if certificate is None:
            remedy = "name it mqtts://..., unless it is on this machine"
            return [reached, Finding(Level.WARNING, "tls", "this connection is not encrypted", remedy)]
        days = days_left(x509.load_der_x509_certificate(certificate), self._clock.stamp().utc_ns)
        return [reached, certificate_finding("the broker's certificate", days)]

    async def _carry_large(self) -> list[Finding]:
        """What is as large as the largest of ours must come back: an acknowledgement alone proves nothing."""
        findings = []
        for what, size in self._sizes.items():
            text = f"{what} may be {size} bytes" if what == "any record" else f"{what} has {size} bytes"
            if problem := await self._does_not_carry(size):
                findings.append(Finding(Level.WRONG, "size", f"{text}: {problem}", _LARGER))
        async with self._link() as link:
            limit = link.takes_bytes
        if not findings:
            largest = max(self._sizes.values())
            findings.append(Finding(Level.GOOD, "size", f"{largest} bytes come back as they were sent"))
        if limit == PACKET_MAX:
            v5, remedy = self._ours.protocol == "5", f"set max_packet_size {CONSUMER_PACKET_MAX}"
            text = "the broker tells none: a client that takes all it is sent can be flooded"
            if not v5:
                text = "MQTT 3.1.1 does not tell how large a packet may be"
            findings.append(Finding(Level.WARNING if v5 else Level.UNKNOWN, "limit", text, remedy))
        return findings

    async def _does_not_carry(self, size: int) -> str:
        """What becomes of a message of so many bytes; empty where it comes back."""
        payload = b"x" * size
        try:
            async with self._link() as link:
                await link.subscribe(self._scratch)
                if why := await link.offer(self._scratch, payload):
                    return why
                heard = await _heard(link, 1)
        except LinkError as error:
            if error.cause not in {Cause.MESSAGE_REFUSED, Cause.CLOSED}:
                raise
            return str(error)
        return "" if heard and heard[0].payload == payload else "acknowledged, and thrown away"

    async def _retain(self) -> list[Finding]:
        async with self._link() as link:
            await link.publish(self._scratch, b"kept", retain=True)
        async with self._link() as link:
            await link.subscribe(self._scratch)
            heard = await _heard(link, 1)
            await link.publish(self._scratch, b"", retain=True)
        if heard and heard[0].retain and heard[0].payload == b"kept":
            return [Finding(Level.GOOD, "retained", "kept for those who come later")]
        return [Finding(Level.WRONG, "retained", "not kept", "set retain_available true")]

    async def _keep_queue(self) -> list[Finding]:
        """Leave a session, publish into it while it is away, come back and count."""
        async with MqttLink(self._absent, self._broker, keep_session=False):
            pass  # an earlier check that was interrupted left nothing behind
        try:
            async with MqttLink(self._absent, self._broker) as link:
                await link.subscribe(self._scratch)
            async with self._link() as link:
                payloads = [b"%d".ljust(RECORD_BYTES) % number for number in range(ABSENT_RECORDS)]
                await asyncio.gather(*(link.publish(self._scratch, payload) for payload in payloads))
            async with MqttLink(self._absent, self._broker) as link:
                if not link.session_present:
                    remedy = (
                        "set persistent_client_expiration to some days, and give dollyd its own client id"
                    )
                    return [Finding(Level.WRONG, "session", "forgotten across a reconnect", remedy)]
                heard = [message.payload for message in await _heard(link, ABSENT_RECORDS)]
        finally:
            async with MqttLink(self._absent, self._broker, keep_session=False):
                pass
        kept = Finding(Level.GOOD, "session", "kept across a reconnect")
        if heard == payloads:
            return [kept, Finding(Level.GOOD, "queue", f"{len(heard)} records kept in order for who is away")]
        text = f"of {ABSENT_RECORDS} records for one who was away {len(set(heard))} were kept"
        remedy = "set max_queued_messages 20000 and max_queued_bytes 100000000"
        return [kept, Finding(Level.WRONG, "queue", text, remedy)]

    async def _refuse(self) -> list[Finding]:
        remedy = "name config/mosquitto.acl as acl_file of every listener, and allow_anonymous false"
        if self._ours.protocol != "5":
            return [Finding(Level.UNKNOWN, "access", "MQTT 3.1.1 tells nobody that it was refused", remedy)]
        try:
            async with self._link() as link:
                await link.publish(self._topics.forbidden(), b"a check: nobody may publish this")
        except LinkError as error:
            if error.cause is Cause.DENIED:
                return [Finding(Level.GOOD, "access", "a topic that is not this node's is refused")]
            raise
        return [Finding(Level.WRONG, "access", "this node may publish what is not its own", remedy)]

    async def _look_around(self) -> list[Finding]:
        async with self._link() as link:
            await link.subscribe(_DROPPED)
            await link.subscribe(self._topics.every_node_status())
            heard = await _heard(link, 1000)
        return [*self._drops(heard), *self._clocks(heard), *self._rivals(heard)]

    async def _prove_persistence(self) -> list[Finding]:
        async with self._link() as link:
            look = await take_look(link, self._marker, self._clock.stamp().utc_ns)
        return [judge(look, restarted=self._restarted)]

    def _drops(self, heard: list[Message]) -> list[Finding]:
        counts = [message.payload for message in heard if message.topic == _DROPPED]
        if not counts or not counts[-1].isdigit():
            remedy = "set sys_interval 10 and let this node read $SYS/broker/#"
            return [Finding(Level.UNKNOWN, "drops", "the broker does not tell its drops", remedy)]
        dropped = int(counts[-1])
        if not dropped:
            return [Finding(Level.GOOD, "drops", "none since the broker's start")]
        remedy = "see which subscriber was away or slow; it must fetch what it missed by replay"
        return [Finding(Level.WARNING, "drops", f"{dropped} messages since the broker's start", remedy)]

    def _clocks(self, heard: list[Message]) -> list[Finding]:
        """A node that speaks later than now has another clock; one that spoke earlier may be dead."""
        findings = []
        quality, now_ns = self._clock.quality(), self._clock.stamp().utc_ns
        if not quality.synchronised:
            remedy = "have the host follow a time server"
            findings.append(Finding(Level.WARNING, "clock", "this host's is not synchronised", remedy))
        latest = iso_utc(now_ns + CLOCK_AHEAD_S * NS_PER_S)
        for message in heard:
            with suppress(msgspec.DecodeError):  # who writes nonsense there has no clock to compare
                status = from_json(message.payload, _Status)
                if status.time > latest:
                    text = f"{status.node} said at {status.time} what is {iso_utc(now_ns)} here"
                    findings.append(
                        Finding(Level.WARNING, "clock", text, "have both hosts follow a time server")
                    )
        return findings or [Finding(Level.GOOD, "clock", "synchronised, and no node is ahead of it")]

    def _rivals(self, heard: list[Message]) -> list[Finding]:
        """Two nodes of one name throw each other off the broker, and each of them says so of itself."""
        for message in heard:
            with suppress(msgspec.DecodeError):
                status = from_json(message.payload, _Status)
                if status.node == self._node and status.taken_over:
                    text = f"{ANOTHER_NODE} ({status.taken_over} times thrown off)"
                    return [Finding(Level.WRONG, "name", text, RENAME)]
        return []

    def _link(self) -> MqttLink:
        return MqttLink(self._ours, self._broker, keep_session=False)


def certificate_finding(what: str, days: int) -> Finding:
    """How long a certificate is still good for."""
    first, _, last = WARN_DAYS
    level = Level.GOOD if days >= first else Level.WARNING if days >= last else Level.WRONG
    text = f"{what} ends in {days} days" if days >= 0 else f"{what} has expired"
    return Finding(level, "tls", text, "" if level is Level.GOOD else "renew it")


async def _heard(link: MqttLink, most: int) -> list[Message]:
    """What comes, until it is `most` messages or nothing comes for `SILENCE_S`. Raises `LinkError`."""
    heard: list[Message] = []

    async def read() -> None:
        async for message in link.messages():
            heard.append(message)
            if len(heard) == most:
                return

    reading = asyncio.create_task(read())
    before = -1
    while not reading.done() and len(heard) > before:
        before = len(heard)
        await asyncio.wait({reading}, timeout=SILENCE_S)
    reading.cancel()
    await asyncio.wait({reading})
    if not reading.cancelled():
        reading.result()
    return heard
