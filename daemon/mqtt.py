"""One connection to one broker. The only module that imports aiomqtt (2.5, on paho).

A link is built, used and thrown away: the first thing that goes wrong ends it, with one `LinkError` that
says why. Nothing is ever published twice inside a link: a missing acknowledgement means "unknown", and the
library may still hold the message. Whoever needs certainty builds a new link and sends from the journal.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import urlsplit

import aiomqtt
from aiomqtt.types import PahoSocket
from paho.mqtt.client import MQTT_ERR_SUCCESS, Client, ConnectFlags
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from dollyd.daemon.errors import DollydError, ensure

SESSION_EXPIRY_S = 86_400
"""How long a broker keeps our session: by its absence we learn that the broker has lost its memory."""
INBOX_MAX = 1000
"""Messages received and not yet taken; later ones are dropped, and their senders miss an answer."""

_V5_KEEP_ALIVE_TIMEOUT = 141
_V5_SESSION_TAKEN_OVER = 142
_RECEIVE_MAXIMUM_DEFAULT = 65_535
"""MQTT 5, 3.2.2.3.3: where CONNACK does not say it."""

# The causes of trouble are told once, by whoever owns the link; the library's line per retry is not wanted.
_LIBRARY_LOG = logging.getLogger("dollyd.mqtt.library")
_LIBRARY_LOG.addHandler(logging.NullHandler())
_LIBRARY_LOG.propagate = False
_LIBRARY_LOG.setLevel(logging.CRITICAL)


class Cause(StrEnum):
    """Why a link could not be built, or ended."""

    UNREACHABLE = "unreachable"
    """No connection: no route, no such name."""
    REFUSED = "refused"
    """The host is there, nobody listens: the broker is down."""
    TLS = "tls"
    """A certificate or key file cannot be used, or the broker's is not trusted."""
    REJECTED = "rejected"
    """The broker does not want us: password, protocol, client id."""
    CLOSED = "closed"
    """The broker, or something on the way, closed the connection."""
    TAKEN_OVER = "taken-over"
    """Another client uses our client id."""
    SILENT = "silent"
    """No answer to a connect, or no sign of life within the keepalive time."""
    UNACKNOWLEDGED = "unacknowledged"
    """A publish was not acknowledged in time: whether it arrived is unknown."""
    DENIED = "denied"
    """The broker acknowledged a publish with an error: access list or quota (MQTT 5 only)."""
    LEFT = "left"
    """We disconnected."""


class LinkError(DollydError):
    """A link could not be built or has ended. Expected: build the next one after a pause."""

    def __init__(self, cause: Cause, detail: str = "") -> None:
        super().__init__(f"{cause}: {detail}" if detail else str(cause))
        self.cause = cause
        self.detail = detail


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
class Address:
    """Where one broker listens."""

    host: str
    port: int
    tls: bool


def parse_broker(text: str) -> Address:
    """Read `host:port`, optionally after `mqtt://` or `mqtts://`; raises ValueError saying what is wrong."""
    parts = urlsplit(text if "://" in text else f"mqtt://{text}")
    if parts.scheme not in {"mqtt", "mqtts"}:
        raise ValueError(f"scheme {parts.scheme!r} is neither mqtt nor mqtts")
    if parts.path or parts.query or parts.fragment or parts.username is not None:
        raise ValueError("only host and port belong here")
    tls = parts.scheme == "mqtts"
    if not parts.hostname or " " in parts.hostname:
        raise ValueError("the host is missing")
    return Address(parts.hostname, parts.port or (8883 if tls else 1883), tls)


@dataclass(frozen=True, slots=True)
class Will:
    """What the broker publishes, retained, when the link ends without a word."""

    topic: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Message:
    """One message received. `response_topic` and `correlation` are empty where the sender gave none."""

    topic: str
    payload: bytes
    retain: bool
    response_topic: str
    correlation: bytes


@dataclass(frozen=True, slots=True)
class _Unacknowledged:
    sent_s: float
    acked: Callable[[], None]


class MqttLink:
    """A connection as an async context manager. Left by an exception, it drops the line and the will speaks.

    `keep_session`: ask the broker to remember us (`session_present` then tells whether it did). A link that
    receives commands must not, or old ones arrive after an outage.
    """

    def __init__(
        self, settings: MqttSettings, broker: str, will: Will | None = None, *, keep_session: bool = True
    ) -> None:
        self.error: LinkError | None = None
        self.session_present = False
        self.window = settings.in_flight_max
        """Publishes that may be unacknowledged at a time: ours or the broker's limit, the smaller one."""
        self._settings = settings
        self._address = parse_broker(broker)
        self._will = will
        self._keep_session = keep_session
        self._loop = asyncio.get_running_loop()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._unacknowledged: dict[int, _Unacknowledged] = {}  # by packet id, oldest first
        self._deadline: asyncio.TimerHandle | None = None
        self._turn = asyncio.Lock()
        self._room = asyncio.Event()
        self._client: _Client

    async def __aenter__(self) -> Self:
        """Connect; raises `LinkError`."""
        tls = await asyncio.to_thread(_tls_context, self._settings) if self._address.tls else None
        self._client = _Client(
            self._settings, self._address, self._will, tls, keep_session=self._keep_session
        )
        # The library cannot be interrupted while a thread connects for it, and leaves a failed socket open.
        connecting = asyncio.ensure_future(self._client.__aenter__())
        try:
            await asyncio.shield(connecting)
        except asyncio.CancelledError:
            await asyncio.wait({connecting})
            _ = connecting.exception()
            await self._client.abort()
            raise
        except aiomqtt.MqttError as error:
            closed = isinstance(error.__context__, TimeoutError) and self._client.dropped
            await self._client.abort()
            raise LinkError(Cause.CLOSED if closed else _connect_cause(error), str(error)) from error
        if self._client.dropped:
            await self._client.abort()
            raise LinkError(Cause.CLOSED, "right after the connect")
        self._client.acknowledged = self._acknowledged
        self._client.disconnected.add_done_callback(self._disconnected)
        self.session_present = self._client.session_present
        self.window = min(self._settings.in_flight_max, self._client.receive_maximum)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect, politely only if no exception is on its way."""
        if kind is None:
            await self.disconnect()
        self._fail(Cause.LEFT)
        await self._client.abort()

    async def disconnect(self) -> None:
        """Say goodbye, so that the will is not published. The link ends with `Cause.LEFT`."""
        if self.error is None:
            self._fail(Cause.LEFT)
            await self._client.leave()

    @property
    def room(self) -> int:
        """How many publishes may be sent now."""
        return self.window - len(self._unacknowledged)

    def send(self, topic: str, payload: bytes, *, retain: bool = False, acked: Callable[[], None]) -> None:
        """Write a QoS 1 publish to the socket now; needs `room`. `acked` is called in the loop at its PUBACK.

        Never raises for a broken line: `wait_lost` does, and `acked` is then never called.
        """
        if self.error is not None:
            return
        ensure(self.room > 0, "no more publishes in flight than the window")
        packet_id = self._client.send(topic, payload, retain=retain)
        if packet_id is None:
            self._fail(Cause.CLOSED)
            return
        self._unacknowledged[packet_id] = _Unacknowledged(self._loop.time(), acked)
        if self._deadline is None:
            self._check_progress()

    async def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Publish with QoS 1 and wait for the PUBACK; raises `LinkError` when the link ends before it."""
        acked: asyncio.Future[None] = self._loop.create_future()
        async with self._turn:  # first come, first served, also while the window is full
            while self.room <= 0 and self.error is None:
                self._room.clear()
                await self._room.wait()
            self.send(topic, payload, retain=retain, acked=lambda: _resolve(acked))
        await asyncio.wait({acked, self._lost}, return_when=asyncio.FIRST_COMPLETED)
        if not acked.done():
            raise self._reason()

    async def subscribe(self, topic_filter: str) -> None:
        """Subscribe with QoS 1; raises `LinkError`, with `Cause.DENIED` if the broker says no."""
        try:
            granted = await self._client.subscribe(topic_filter, qos=1, timeout=self._settings.ack_deadline_s)
        except aiomqtt.MqttError as error:
            self._fail(Cause.UNACKNOWLEDGED, f"subscribe {topic_filter}")
            raise self._reason() from error
        if any((code.value if isinstance(code, ReasonCode) else code) >= 128 for code in granted):
            self._fail(Cause.DENIED, f"subscribe {topic_filter}")
            raise self._reason()

    async def messages(self) -> AsyncIterator[Message]:
        """What comes in, until the link ends with its `LinkError`."""
        try:
            async for message in self._client.messages:
                yield _message(message)
        except aiomqtt.MqttError:
            await asyncio.wait({self._lost})
            raise self._reason() from None

    async def wait_lost(self) -> None:
        """Wait for the end of the link and raise its `LinkError`."""
        await asyncio.wait({self._lost})
        raise self._reason()

    def _reason(self) -> LinkError:
        return self.error or LinkError(Cause.CLOSED)

    def _fail(self, cause: Cause, detail: str = "") -> None:
        """End the link; only the first cause counts."""
        if self.error is not None:
            return
        self.error = LinkError(cause, detail)
        self._unacknowledged.clear()
        if self._deadline is not None:
            self._deadline.cancel()
        self._room.set()
        self._lost.set_result(None)
        if cause is not Cause.LEFT:
            self._client.drop()

    def _acknowledged(self, packet_id: int, reason: ReasonCode) -> None:
        sent = self._unacknowledged.pop(packet_id, None)
        if sent is None:
            return
        self._room.set()
        # Not now: the library holds locks here, and would wait for itself for ever.
        if reason.is_failure:
            self._loop.call_soon(self._fail, Cause.DENIED, str(reason))
        else:
            self._loop.call_soon(sent.acked)

    def _check_progress(self) -> None:
        """End a link whose oldest publish has waited too long, however alive it seems."""
        self._deadline = None
        oldest = next(iter(self._unacknowledged.values()), None)
        if oldest is None:
            return
        left_s = oldest.sent_s + self._settings.ack_deadline_s - self._loop.time()
        if left_s <= 0:
            self._fail(Cause.UNACKNOWLEDGED, f"for {self._settings.ack_deadline_s} s")
        else:
            self._deadline = self._loop.call_later(left_s, self._check_progress)

    def _disconnected(self, disconnected: asyncio.Future[None]) -> None:
        error = disconnected.exception()
        reason = error.rc if isinstance(error, aiomqtt.MqttCodeError) else None
        code = reason.value if isinstance(reason, ReasonCode) else reason
        causes = {_V5_SESSION_TAKEN_OVER: Cause.TAKEN_OVER, _V5_KEEP_ALIVE_TIMEOUT: Cause.SILENT}
        self._fail(causes.get(code or 0, Cause.CLOSED), str(error) if error else "")


class _Client(aiomqtt.Client):
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
    ) -> None:
        v5 = settings.protocol == "5"
        properties = Properties(PacketTypes.CONNECT) if v5 else None  # type: ignore[no-untyped-call]  # paho
        if properties is not None and keep_session:
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
            max_queued_incoming_messages=INBOX_MAX,
            max_inflight_messages=0,  # the link's window governs; paho's own counter has stuck before
            socket_options=((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),),
            logger=_LIBRARY_LOG,
        )
        self._client.connect_timeout = settings.ack_deadline_s
        self.session_present = False
        self.receive_maximum = _RECEIVE_MAXIMUM_DEFAULT
        self.acknowledged: Callable[[int, ReasonCode], None] = lambda _packet_id, _reason: None

    @property
    def disconnected(self) -> asyncio.Future[None]:
        """Done when the connection has ended."""
        return self._disconnected

    @property
    def dropped(self) -> bool:
        """Whether the socket is gone already."""
        return self._client.socket() is None

    def send(self, topic: str, payload: bytes, *, retain: bool) -> int | None:
        """Hand a QoS 1 publish to the socket; gives the packet id, None where there is no connection."""
        info = self._client.publish(topic, payload, qos=1, retain=retain)
        return info.mid if info.rc == MQTT_ERR_SUCCESS else None

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
        super()._on_connect(client, userdata, flags, reason_code, properties)

    def _on_publish(
        self,
        client: Client,  # noqa: ARG002  paho's signature
        userdata: Any,  # noqa: ARG002  paho's signature
        mid: int,
        reason_code: ReasonCode,
        properties: Properties,  # noqa: ARG002  paho's signature
    ) -> None:
        self.acknowledged(mid, reason_code)

    def _on_socket_register_write(self, client: Client, userdata: Any, sock: PahoSocket) -> None:
        # In the loop's thread: write now, not two rounds of the loop later. Only a full socket has to wait.
        if self._connected.done():
            client.loop_write()
            if sock.fileno() < 0 or not client.want_write():
                return
        super()._on_socket_register_write(client, userdata, sock)


class _TlsSocket(ssl.SSLSocket):
    """Closes itself when the handshake fails; paho would leave that to the garbage collector."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except OSError:
            self.close()
            raise


def _tls_context(settings: MqttSettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
        context.sslsocket_class = _TlsSocket
        if settings.cert_file is not None:
            context.load_cert_chain(settings.cert_file, settings.key_file)
    except OSError as error:  # ssl.SSLError is one
        raise LinkError(Cause.TLS, str(error)) from error
    return context


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():  # its waiter may have been cancelled
        future.set_result(None)


def _connect_cause(error: aiomqtt.MqttError) -> Cause:
    if isinstance(error, aiomqtt.MqttCodeError):
        return Cause.REJECTED
    below = error.__context__  # the library hides it from the traceback, not from us
    if isinstance(below, ConnectionRefusedError):
        return Cause.REFUSED
    if isinstance(below, ssl.SSLError):
        return Cause.TLS
    if isinstance(below, OSError) and not isinstance(below, TimeoutError):
        return Cause.UNREACHABLE
    return Cause.SILENT


def _message(message: aiomqtt.Message) -> Message:
    payload = message.payload
    ensure(isinstance(payload, bytes), "what paho receives is bytes")
    return Message(
        topic=str(message.topic),
        payload=bytes(payload),
        retain=message.retain,
        response_topic=getattr(message.properties, "ResponseTopic", ""),
        correlation=getattr(message.properties, "CorrelationData", b""),
    )
