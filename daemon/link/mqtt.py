"""One connection to one broker. With `mqtt_client` the only module that knows aiomqtt.

A link is built, used and thrown away: the first thing that goes wrong ends it, with one `LinkError` that
says why. Nothing is ever published twice inside a link: a missing acknowledgement means "unknown", and the
library may still hold the message. Whoever needs certainty builds a new link and sends from the journal.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

import aiomqtt
from paho.mqtt.client import MQTTMessage
from paho.mqtt.reasoncodes import ReasonCode

from dollyd.daemon.link.address import Address, parse_broker
from dollyd.daemon.link.certificates import LinkContext, tls_context
from dollyd.daemon.link.link_error import Cause, LinkError, Unanswered
from dollyd.daemon.link.mqtt_client import (
    CONSUMER_PACKET_MAX,
    INBOX_MAX,
    INBOX_PACKET_MAX,
    PACKET_MAX,
    ClosedEarlyError,
    MqttClient,
    MqttSettings,
    Will,
)
from dollyd.daemon.link.trouble import ANOTHER_NODE, explain_plain, explain_tls
from dollyd.wire.errors import ensure

__all__ = [
    "CONSUMER_PACKET_MAX",
    "INBOX_MAX",
    "INBOX_PACKET_MAX",
    "PACKET_MAX",
    "Cause",
    "LinkError",
    "Message",
    "MqttLink",
    "MqttSettings",
    "Unanswered",
    "Will",
]

_T = TypeVar("_T")

_TAKEN_AT_ONCE = 16
"""Messages given in one round of the loop: more than come in one, too few to hold up others."""
_V5_KEEP_ALIVE_TIMEOUT = 141
_V5_SESSION_TAKEN_OVER = 142
_V5_OVER_A_MESSAGE = frozenset({149, 151, 153, 154, 155})
"""Reasons of a DISCONNECT that speak of one message: too large, quota, payload, retain, QoS."""
_PROTOCOL_ERROR = 130
"""So the library ends a link itself, for instance where a PUBACK has a reason that it does not know."""


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
    publish: Unanswered
    acked: Callable[[], None]
    denied: Callable[[str], None] | None


class MqttLink:
    """A connection as an async context manager. Left by an exception, it drops the line and the will speaks.

    `keep_session`: ask the broker to remember us (`session_present` then tells whether it did). A link that
    receives commands must not, or old ones arrive after an outage. `packet_max`: larger packets the broker
    keeps to itself (MQTT 5; for 3.1.1 only its own limit counts).
    """

    def __init__(
        self,
        settings: MqttSettings,
        broker: str,
        will: Will | None = None,
        *,
        keep_session: bool = True,
        packet_max: int = CONSUMER_PACKET_MAX,
    ) -> None:
        self.error: LinkError | None = None
        self.session_present = False
        self.takes_bytes = PACKET_MAX
        """The largest packet that the broker says it takes; what is longer is denied without being sent."""
        self.window = settings.in_flight_max
        """Publishes that may be unacknowledged at a time: ours or the broker's limit, the smaller one."""
        self._settings = settings
        self._address = parse_broker(broker)
        self._will = will
        self._keep_session = keep_session
        self._packet_max = packet_max
        self._loop = asyncio.get_running_loop()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._unacknowledged: dict[int, _Unacknowledged] = {}  # by packet id, oldest first
        self._deadline: asyncio.TimerHandle | None = None
        self._turn = asyncio.Lock()
        self._room = asyncio.Event()
        self._client: MqttClient

    async def __aenter__(self) -> Self:
        """Connect; raises `LinkError`."""
        tls = await asyncio.to_thread(_tls_context, self._settings) if self._address.tls else None
        self._client = MqttClient(
            self._settings,
            self._address,
            self._will,
            tls,
            keep_session=self._keep_session,
            packet_max=self._packet_max,
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
            silent = isinstance(error.__context__, TimeoutError)
            closed = isinstance(error, ClosedEarlyError) or (silent and self._client.dropped)
            await self._client.abort()
            cause = Cause.CLOSED if closed else _connect_cause(error)
            raise await asyncio.to_thread(_explained, cause, error, self._address, tls) from error
        if self._client.dropped:
            await self._client.abort()
            raise LinkError(Cause.CLOSED, "right after the connect")
        self._client.acknowledged = self._acknowledged
        self._client.disconnected.add_done_callback(self._disconnected)
        self.session_present = self._client.session_present
        self.takes_bytes = self._client.takes_bytes
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
    def peer_certificate(self) -> bytes | None:
        """The broker's certificate (DER) while the link stands; None without TLS."""
        return self._client.peer_certificate

    @property
    def inbox_dropped(self) -> int:
        """Messages received on this link and dropped because `INBOX_MAX` others had not been taken."""
        return self._client.inbox_dropped

    @property
    def room(self) -> int:
        """How many publishes may be sent now."""
        return self.window - len(self._unacknowledged)

    def too_long(self, topic: str, payload: bytes, correlation: bytes = b"", response_topic: str = "") -> str:
        """Why the broker does not take a publish of that size; empty where it does."""
        packet_bytes = self._client.packet_bytes(topic, payload, correlation, response_topic)
        return f"the broker takes {self.takes_bytes} bytes" if packet_bytes > self.takes_bytes else ""

    def send(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool = False,
        correlation: bytes = b"",
        response_topic: str = "",
        acked: Callable[[], None],
        denied: Callable[[str], None] | None = None,
    ) -> None:
        """Write a QoS 1 publish to the socket now; needs `room`. `acked` is called in the loop at its PUBACK.

        Where the PUBACK says no, or the broker takes no packet of that size, `denied` is called with the
        reason; without it, that ends the link. Never raises for a broken line: `wait_lost` does, and then
        neither of them is called.
        """
        if self.error is not None:
            return
        ensure(self.room > 0, "no more publishes in flight than the window")
        sent = _Unacknowledged(self._loop.time(), Unanswered(topic, payload), acked, denied)
        if why := self.too_long(topic, payload, correlation, response_topic):
            self._loop.call_soon(self._tell, sent, why)
            return
        packet_id = self._client.send(
            topic, payload, retain=retain, correlation=correlation, response_topic=response_topic
        )
        if packet_id is None:
            self._fail(Cause.CLOSED)
            return
        self._unacknowledged[packet_id] = sent
        if self._deadline is None:
            self._check_progress()

    async def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Publish with QoS 1 and wait for the PUBACK; raises `LinkError` when the link ends before it."""
        acked = await self.hand_over(topic, payload, retain=retain)
        await asyncio.wait({acked, self._lost}, return_when=asyncio.FIRST_COMPLETED)
        if not acked.done():
            raise self._reason()

    async def offer(self, topic: str, payload: bytes, *, retain: bool = False) -> str:
        """As `publish`, but a broker that says no does not end the link: gives why, empty for a yes."""
        said: asyncio.Future[str] = self._loop.create_future()
        answer = partial(_resolve, said)
        await self._in_turn(
            partial(self.send, topic, payload, retain=retain, acked=partial(answer, ""), denied=answer)
        )
        ends: set[asyncio.Future[Any]] = {said, self._lost}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not said.done():
            raise self._reason()
        return said.result()

    async def hand_over(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool = False,
        correlation: bytes = b"",
        response_topic: str = "",
        denied: Callable[[str], None] | None = None,
    ) -> asyncio.Future[None]:
        """`send` when there is room; the future is done at the PUBACK.

        Never where the link ends before, or where `denied` is called.
        """
        acked: asyncio.Future[None] = self._loop.create_future()
        await self._in_turn(
            partial(
                self.send,
                topic,
                payload,
                retain=retain,
                correlation=correlation,
                response_topic=response_topic,
                acked=partial(_resolve, acked, None),
                denied=denied,
            )
        )
        return acked

    async def _in_turn(self, send: Callable[[], None]) -> None:
        """Send when there is room: first come, first served, also while the window is full."""
        async with self._turn:
            while self.room <= 0 and self.error is None:
                self._room.clear()
                await self._room.wait()
            send()

    async def subscribe(self, topic_filter: str) -> None:
        """Subscribe with QoS 1; raises `LinkError`, with `Cause.DENIED` if the broker says no."""
        if not await self.may_subscribe(topic_filter):
            self._fail(Cause.DENIED, f"subscribe {topic_filter}")
            raise self._reason()

    async def may_subscribe(self, topic_filter: str) -> bool:
        """As `subscribe`, but a broker that says no does not end the link: tells whether it said yes."""
        try:
            granted = await self._client.subscribe(topic_filter, qos=1, timeout=self._settings.ack_deadline_s)
        except aiomqtt.MqttError as error:
            self._fail(Cause.UNACKNOWLEDGED, f"subscribe {topic_filter}")
            raise self._reason() from error
        return all((code.value if isinstance(code, ReasonCode) else code) < 128 for code in granted)

    async def retained(self, topic: str, within_s: float) -> bytes | None:
        """What the broker keeps at a topic; None where it keeps nothing, does not let us see, or is slow.

        For a link that has nothing else to hear. Raises `LinkError` where the link ends.
        """
        with suppress(aiomqtt.MqttError, TimeoutError):
            async with asyncio.timeout(within_s):
                await self._client.subscribe(topic, qos=0, timeout=self._settings.ack_deadline_s)
                async for message in self.messages():
                    if message.topic == topic and message.retain:
                        await self._client.unsubscribe(topic, timeout=self._settings.ack_deadline_s)
                        return message.payload
        if self.error is not None:
            raise self.error
        with suppress(aiomqtt.MqttError):
            await self._client.unsubscribe(topic, timeout=self._settings.ack_deadline_s)
        return None

    async def messages(self) -> AsyncIterator[Message]:
        """What comes in, until the link ends with its `LinkError`. One reader at a time."""
        inbox, arrived = self._client.inbox, self._client.arrived
        while True:
            for _ in range(min(len(inbox), _TAKEN_AT_ONCE)):
                yield _message(inbox.popleft())
            if inbox:
                await asyncio.sleep(0)
            elif self.error is not None:
                raise self._reason()
            else:
                arrived.clear()
                await arrived.wait()

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
        oldest = next(iter(self._unacknowledged.values()), None)
        self.error = LinkError(cause, detail, oldest.publish if oldest is not None else None)
        self._unacknowledged.clear()
        if self._deadline is not None:
            self._deadline.cancel()
        self._room.set()
        self._client.arrived.set()
        self._lost.set_result(None)
        if cause is not Cause.LEFT:
            self._client.drop()

    def _acknowledged(self, packet_id: int, reason: ReasonCode) -> None:
        sent = self._unacknowledged.pop(packet_id, None)
        if sent is None:
            return
        self._room.set()
        # Not now: the library holds locks here, and would wait for itself for ever.
        self._loop.call_soon(self._tell, sent, str(reason) if reason.is_failure else "")

    def _tell(self, sent: _Unacknowledged, problem: str) -> None:
        if self.error is not None:
            return  # what the link carried behind its end is unknown, as all that is in flight
        if not problem:
            sent.acked()
        elif sent.denied is not None:
            sent.denied(problem)
        else:
            self._fail(Cause.DENIED, f"{sent.publish.topic}: {problem}")

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
        causes |= dict.fromkeys(_V5_OVER_A_MESSAGE | {_PROTOCOL_ERROR}, Cause.MESSAGE_REFUSED)
        cause = causes.get(code or 0, Cause.CLOSED)
        said = ANOTHER_NODE if cause is Cause.TAKEN_OVER else str(error) if error else ""
        self._fail(cause, said)


def _tls_context(settings: MqttSettings) -> LinkContext:
    try:
        return tls_context(settings.ca_file, settings.cert_file, settings.key_file)
    except OSError as error:  # ssl.SSLError is one
        raise LinkError(Cause.TLS, str(error)) from error


def _explained(
    cause: Cause, error: aiomqtt.MqttError, address: Address, tls: LinkContext | None
) -> LinkError:
    """Why there is no link, with its remedy. May ask the port what it speaks: not in the loop's thread."""
    below = error.__context__ if isinstance(error.__context__, OSError) else None
    trouble = None
    if tls is not None and (tls.refused or cause is Cause.TLS or isinstance(below, ConnectionResetError)):
        trouble = explain_tls(below, address, tls.refused)
    elif tls is None and cause in {Cause.CLOSED, Cause.SILENT, Cause.UNREACHABLE}:
        trouble = explain_plain(address)
    if trouble is None:
        return LinkError(cause, str(error))
    return LinkError(Cause.TLS, trouble.what, remedy=trouble.remedy)


def _resolve(future: asyncio.Future[_T], result: _T) -> None:
    if not future.done():  # its waiter may have been cancelled
        future.set_result(result)


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


def _message(message: MQTTMessage) -> Message:
    return Message(
        topic=message.topic,
        payload=bytes(message.payload),
        retain=message.retain,
        response_topic=getattr(message.properties, "ResponseTopic", ""),
        correlation=getattr(message.properties, "CorrelationData", b""),
    )
