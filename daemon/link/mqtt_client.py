"""The MQTT library (aiomqtt 2.5, on paho) with what it keeps to itself. For `mqtt.py` only."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import aiomqtt
from aiomqtt.types import PahoSocket
from paho.mqtt.client import MQTT_ERR_SUCCESS, Client, ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from dollyd.daemon.link.address import Address

SESSION_EXPIRY_S = 86_400
"""How long a broker keeps our session: by its absence we learn that the broker has lost its memory."""
INBOX_MAX = 1000
"""Messages received and not yet taken; later ones are dropped and counted: their senders miss an answer."""

INBOX_PACKET_MAX = 32 * 1024
"""Largest packet that a node takes: no command, request or watermark comes near it."""
CONSUMER_PACKET_MAX = (1 << 20) + (1 << 16)
"""Largest packet that a consumer takes: a trust file or an envelope of 1 MiB, and its headers."""

_RECEIVE_MAXIMUM_DEFAULT = 65_535
"""MQTT 5, 3.2.2.3.3: where CONNACK does not say it."""
PACKET_MAX = 268_435_460
"""The largest packet that MQTT can write (2.1.4), where CONNACK does not say less (3.2.2.3.6)."""

# The causes of trouble are told once, by whoever owns the link; the library's line per retry is not wanted.
_LIBRARY_LOG = logging.getLogger("dollyd.mqtt.library")
_LIBRARY_LOG.addHandler(logging.NullHandler())
_LIBRARY_LOG.propagate = False
_LIBRARY_LOG.setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class MqttSettings:
    """How to reach the brokers.

    `brokers`: tried in order, each `host:port`, `mqtt://host:port` or `mqtts://host:port` (TLS). `password`
    is the password itself; the caller reads it from its file. The three TLS files are read again at each
    connect, so that a renewed certificate is used without a restart; without `ca_file` the system's
    authorities count.
    """

    brokers: tuple[str, ...]
    client_id: str
    protocol: Literal["5", "3.1.1"] = "5"
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    keepalive_s: int = 10
    ack_deadline_s: float = 5.0
    """Oldest age of an unacknowledged publish, and the time a connect may take."""
    in_flight_max: int = 20
    """Publishes handed to the broker and not yet acknowledged."""


@dataclass(frozen=True, slots=True)
class Will:
    """What the broker publishes, retained, when the link ends without a word."""

    topic: str
    payload: bytes


class ClosedEarlyError(aiomqtt.MqttError):
    """The broker, or something on the way, closed the connection instead of answering the connect."""


class MqttClient(aiomqtt.Client):
    """Adds what aiomqtt 2.5 keeps to itself: the session flag, the reason in a PUBACK, an end that cleans up.

    It leans on names that aiomqtt and paho mark as private; pyproject pins aiomqtt below 3 for that.
    """

    def __init__(
        self,
        settings: MqttSettings,
        address: Address,
        will: Will | None,
        tls: ssl.SSLContext | None,
        *,
        keep_session: bool,
        packet_max: int,
    ) -> None:
        v5 = settings.protocol == "5"
        properties = Properties(PacketTypes.CONNECT) if v5 else None  # type: ignore[no-untyped-call]  # paho
        if properties is not None:
            properties.MaximumPacketSize = packet_max
            if keep_session:
                properties.SessionExpiryInterval = SESSION_EXPIRY_S
        super().__init__(
            address.host,
            address.port,
            identifier=settings.client_id,
            protocol=aiomqtt.ProtocolVersion.V5 if v5 else aiomqtt.ProtocolVersion.V311,
            clean_session=None if v5 else not keep_session,
            clean_start=not keep_session if v5 else 3,  # 3: paho's "not an MQTT 5 connection"
            properties=properties,
            username=settings.username,
            password=settings.password,
            tls_context=tls,
            keepalive=settings.keepalive_s,
            timeout=settings.ack_deadline_s,
            will=None if will is None else aiomqtt.Will(will.topic, will.payload, qos=1, retain=True),
            max_inflight_messages=0,  # the link's window governs; paho's own counter has stuck before
            socket_options=((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),),
            logger=_LIBRARY_LOG,
        )
        # The library forgets one that failed right after the connect; asyncio would log that nobody asked.
        self._disconnected.add_done_callback(asyncio.Future.exception)
        self._client.connect_timeout = settings.ack_deadline_s
        self._v5 = v5
        self.session_present = False
        self.receive_maximum = _RECEIVE_MAXIMUM_DEFAULT
        self.takes_bytes = PACKET_MAX
        """The largest packet that the broker takes."""
        self.inbox: deque[MQTTMessage] = deque()
        self.inbox_dropped = 0
        self.arrived = asyncio.Event()
        self.acknowledged: Callable[[int, ReasonCode], None] = lambda _packet_id, _reason: None

    @property
    def disconnected(self) -> asyncio.Future[None]:
        """Done when the connection has ended."""
        return self._disconnected

    @property
    def dropped(self) -> bool:
        """Whether the socket is gone already."""
        return self._client.socket() is None

    @property
    def peer_certificate(self) -> bytes | None:
        """What the broker showed of itself, None without TLS."""
        line = self._client.socket()
        return line.getpeercert(binary_form=True) if isinstance(line, ssl.SSLSocket) else None

    def send(
        self, topic: str, payload: bytes, *, retain: bool, correlation: bytes, response_topic: str
    ) -> int | None:
        """Hand a QoS 1 publish to the socket; gives the packet id, None where there is no connection."""
        properties = None
        if self._v5 and (correlation or response_topic):
            properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho
            if correlation:
                properties.CorrelationData = correlation
            if response_topic:
                properties.ResponseTopic = response_topic
        info = self._client.publish(topic, payload, qos=1, retain=retain, properties=properties)
        return info.mid if info.rc == MQTT_ERR_SUCCESS else None

    def packet_bytes(self, topic: str, payload: bytes, correlation: bytes, response_topic: str) -> int:
        """How long a publish is on the line, a few bytes more at most (MQTT 5, 3.3)."""
        properties = sum(3 + len(text) for text in (correlation, response_topic.encode()) if text)
        return 1 + 4 + 2 + len(topic.encode()) + 2 + (4 + properties if self._v5 else 0) + len(payload)

    async def leave(self) -> None:
        """Send DISCONNECT."""
        if not self._disconnected.done():
            await super().__aexit__(None, None, None)

    def drop(self) -> None:
        """Close the socket without DISCONNECT."""
        self._client._sock_close()  # noqa: SLF001  paho has no public way to close at once
        if not self._disconnected.done():
            self._disconnected.set_result(None)

    async def abort(self) -> None:
        """Close the socket and end the library's task, whatever state they are in."""
        self._client._sock_close()  # noqa: SLF001  see `drop`
        if self._misc_task is not None:
            self._misc_task.cancel()
            await asyncio.wait({self._misc_task})

    def _on_connect(
        self,
        client: Client,
        userdata: Any,
        flags: ConnectFlags,
        reason_code: ReasonCode,
        properties: Properties | None = None,
    ) -> None:
        self.session_present = flags.session_present
        self.receive_maximum = getattr(properties, "ReceiveMaximum", _RECEIVE_MAXIMUM_DEFAULT)
        self.takes_bytes = getattr(properties, "MaximumPacketSize", PACKET_MAX)
        super()._on_connect(client, userdata, flags, reason_code, properties)

    def _on_disconnect(
        self,
        client: Client,
        userdata: Any,
        flags: DisconnectFlags,
        reason_code: ReasonCode,
        properties: Properties | None = None,
    ) -> None:
        if not self._connected.done():
            # The library would go on waiting for an answer, up to its deadline.
            self._connected.set_exception(ClosedEarlyError("before it answered the connect"))
            return
        super()._on_disconnect(client, userdata, flags, reason_code, properties)

    def _on_message(self, client: Client, userdata: Any, message: MQTTMessage) -> None:  # noqa: ARG002  paho's
        _ = message.topic  # raises where it is no UTF-8: a broker that sends that has broken the link
        # Not into the library's queue: it takes three rounds of the loop for a message that comes in one.
        if len(self.inbox) >= INBOX_MAX:
            self.inbox_dropped += 1
        else:
            self.inbox.append(message)
            self.arrived.set()

    def _on_socket_open(self, client: Client, userdata: Any, sock: PahoSocket) -> None:  # noqa: ARG002  paho's
        # The library asks for its own reader here, even of a socket that is closed again before its turn.
        self._loop.call_soon_threadsafe(self._begin_reading, sock)

    def _begin_reading(self, sock: PahoSocket) -> None:
        if self._client.socket() is sock and (number := sock.fileno()) >= 0:  # type: ignore[union-attr]  # paho
            self._loop.add_reader(number, self._read)
            self._misc_task = self._loop.create_task(self._misc_loop())

    def _read(self) -> None:
        """Read a packet, and what TLS still holds in later rounds of the loop.

        The library reads on as long as more comes, and nobody else has a turn to take the messages: the inbox
        would overflow although its owner is quick.
        """
        try:
            self._client.loop_read()
        except Exception as error:  # noqa: BLE001  callback of the loop: whatever it was, the link has ended
            if not self._disconnected.done():
                self._disconnected.set_exception(error)
            return
        line = self._client.socket()
        if isinstance(line, ssl.SSLSocket) and line.pending():
            self._loop.call_soon(self._read)

    def _on_publish(
        self,
        client: Client,  # noqa: ARG002  paho's signature
        userdata: Any,  # noqa: ARG002  paho's signature
        mid: int,
        reason_code: ReasonCode,
        properties: Properties,  # noqa: ARG002  paho's signature
    ) -> None:
        self.acknowledged(mid, reason_code)

    def _on_socket_register_write(self, client: Client, userdata: Any, sock: PahoSocket) -> None:  # noqa: ARG002
        # In the loop's thread: write now, not two rounds of the loop later. Only a full socket has to wait.
        if self._connected.done():
            client.loop_write()
            if sock.fileno() < 0 or not client.want_write():
                return
        self._loop.call_soon_threadsafe(self._begin_writing, sock)

    def _begin_writing(self, sock: PahoSocket) -> None:
        if self._client.want_write() and (number := sock.fileno()) >= 0:
            self._loop.add_writer(number, self._write)

    def _write(self) -> None:
        try:
            self._client.loop_write()
        except Exception as error:  # noqa: BLE001  callback of the loop, as `_read`
            if not self._disconnected.done():
                self._disconnected.set_exception(error)

    def _on_socket_unregister_write(self, client: Client, userdata: Any, sock: PahoSocket) -> None:
        if sock.fileno() >= 0:
            super()._on_socket_unregister_write(client, userdata, sock)
