from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.support.broker import Line, Mosquitto, free_port, listening, until

from dollyd.daemon.link.address import Address, parse_broker
from dollyd.daemon.link.mqtt import INBOX_MAX, Cause, LinkError, MqttLink, MqttSettings, Will
from dollyd.daemon.link.mqtt_client import MqttClient


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as running:
        yield running


def settings(broker: Mosquitto, protocol: Literal["5", "3.1.1"] = "5") -> MqttSettings:
    return MqttSettings(brokers=(broker.address,), client_id="node-1", protocol=protocol, ack_deadline_s=0.5)


def link_to(broker: Mosquitto, protocol: Literal["5", "3.1.1"] = "5", will: Will | None = None) -> MqttLink:
    return MqttLink(settings(broker, protocol), broker.address, will)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("broker", Address("broker", 1883, tls=False)),
        ("broker:1884", Address("broker", 1884, tls=False)),
        ("mqtt://10.0.0.1:1883", Address("10.0.0.1", 1883, tls=False)),
        ("mqtts://broker.example", Address("broker.example", 8883, tls=True)),
        ("mqtts://[::1]:8884", Address("::1", 8884, tls=True)),
    ],
)
def test_broker_addresses(text: str, address: Address) -> None:
    assert parse_broker(text) == address


@pytest.mark.parametrize(
    "text", ["", ":1883", "http://b", "b:port", "b:70000", "b/topic", "u:p@b", "mqtt://", "a b:1"]
)
def test_broker_addresses_that_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_broker(text)


def test_the_password_is_in_no_log() -> None:
    assert "geheim" not in repr(MqttSettings(("b",), "c", username="u", password="geheim"))


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
async def test_what_is_published_arrives_byte_for_byte(
    broker: Mosquitto, protocol: Literal["5", "3.1.1"]
) -> None:
    payload = bytes(range(256)) * 40
    async with MqttLink(
        replace(settings(broker, protocol), client_id="reader"), broker.address, keep_session=False
    ) as reader:
        await reader.subscribe("a/+")
        async with link_to(broker, protocol) as link:
            await link.publish("a/b", payload)
            message = await anext(aiter(reader.messages()))
    assert (message.topic, message.payload, message.retain) == ("a/b", payload, False)


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
async def test_a_broker_that_forgot_us_is_known_by_the_session(
    broker: Mosquitto, protocol: Literal["5", "3.1.1"]
) -> None:
    async with link_to(broker, protocol) as first:
        assert not first.session_present
    async with link_to(broker, protocol) as second:
        assert second.session_present
    broker.kill()
    broker.start()
    async with link_to(broker, protocol) as third:
        assert not third.session_present


async def test_the_will_speaks_after_an_error_and_not_after_a_goodbye(broker: Mosquitto) -> None:
    async with listening(broker, "w") as listener:
        async with link_to(broker, will=Will("w", b"polite")) as link:
            await link.publish("w", b"hello")
        with pytest.raises(KeyError):
            async with link_to(broker, will=Will("w", b"broken")):
                raise KeyError
        await until(lambda: b"broken" in listener.payloads())
    assert b"polite" not in listener.payloads()


async def test_nobody_listens() -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    with pytest.raises(LinkError) as caught:
        async with MqttLink(MqttSettings((nowhere,), "node-1"), nowhere):
            pass
    assert caught.value.cause is Cause.REFUSED


async def test_wrong_password_is_told() -> None:
    with Mosquitto() as broker:
        broker.stop()
        (broker.directory / "passwords").write_text("")
        broker.configure(f"password_file {broker.directory}/passwords", allow_anonymous=False)
        broker.start()
        with pytest.raises(LinkError) as caught:
            async with link_to(broker):
                pass
    assert caught.value.cause is Cause.REJECTED


async def test_b26_every_publish_ends_when_the_broker_dies(broker: Mosquitto) -> None:
    async with link_to(broker) as link:
        publishes = [asyncio.create_task(link.publish("a", b"%d" % number)) for number in range(1000)]
        await asyncio.sleep(0.01)
        broker.kill()
        done, pending = await asyncio.wait(publishes, timeout=30)
        assert not pending
        errors = {task.exception().cause for task in done if isinstance(task.exception(), LinkError)}  # type: ignore[union-attr]  # just checked
        assert errors == {Cause.CLOSED}
        with pytest.raises(LinkError):
            await link.wait_lost()


async def test_b28_no_acknowledgement_means_unknown_and_ends_the_link(broker: Mosquitto) -> None:
    async with listening(broker, "a") as listener:
        async with link_to(broker) as link:
            await link.publish("a", b"0")
            broker.pause()
            with pytest.raises(LinkError) as caught:
                await link.publish("a", b"1")
            assert caught.value.cause is Cause.UNACKNOWLEDGED
            broker.resume()
            with pytest.raises(LinkError):
                await link.publish("a", b"2")
        async with link_to(broker) as link:
            await link.publish("a", b"3")
        await until(lambda: b"3" in listener.payloads())
    assert listener.payloads() == [b"0", b"1", b"3"]


async def test_b33_a_takeover_has_a_name() -> None:
    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(bytes.fromhex("20 03 00 00 00"))  # CONNACK: success
        await asyncio.sleep(0.05)
        writer.write(bytes.fromhex("e0 01 8e"))  # DISCONNECT: session taken over (Mosquitto 2.0 only closes)
        writer.close()

    async with await asyncio.start_server(broker, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with MqttLink(MqttSettings((address,), "node-1"), address) as link:
            with pytest.raises(LinkError) as caught:
                await link.wait_lost()
    assert caught.value.cause is Cause.TAKEN_OVER


@contextmanager
def forbidding() -> Iterator[Mosquitto]:
    """A broker where one may publish to `allowed`."""
    with Mosquitto(started=False) as broker:
        (broker.directory / "acl").write_text("topic write allowed\n")
        broker.configure(f"acl_file {broker.directory}/acl")
        broker.start()
        yield broker


async def test_a_publish_that_the_broker_refuses_is_no_success() -> None:
    with forbidding() as broker:
        async with link_to(broker) as link:
            await link.publish("allowed", b"x")
            with pytest.raises(LinkError) as caught:
                await link.publish("forbidden", b"x")
    assert caught.value.cause is Cause.DENIED


async def test_a_refusal_names_its_topic_and_nothing_behind_it_counts() -> None:
    with forbidding() as broker:
        acked: list[str] = []
        async with link_to(broker) as link:
            for topic in ("allowed", "forbidden", "allowed"):
                link.send(topic, b"x", acked=partial(acked.append, topic))
            with pytest.raises(LinkError) as caught:
                await link.wait_lost()
            await asyncio.sleep(0.05)
    assert caught.value.cause is Cause.DENIED
    assert "forbidden" in caught.value.detail
    assert acked == ["allowed"]


async def test_an_offer_that_is_refused_leaves_the_link_up() -> None:
    with forbidding() as broker:
        async with link_to(broker) as link:
            assert await link.offer("forbidden", b"x") == "Not authorized"
            assert await link.offer("allowed", b"x") == ""
            broker.kill()
            with pytest.raises(LinkError):
                await link.offer("allowed", b"x")


async def test_a_topic_that_is_no_utf8_ends_the_link() -> None:
    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(bytes.fromhex("20 03 00 00 00"))  # CONNACK: success
        await asyncio.sleep(0.05)
        writer.write(bytes.fromhex("30 05 00 02 ff ff 00"))  # PUBLISH
        await reader.read()
        writer.close()

    async with await asyncio.start_server(broker, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with MqttLink(MqttSettings((address,), "node-1"), address) as link:
            with pytest.raises(LinkError):
                await asyncio.wait_for(anext(link.messages()), 5)


async def test_the_window_of_the_broker_is_kept_and_order_too() -> None:
    with Mosquitto("max_inflight_messages 3") as broker:
        async with listening(broker, "a") as listener, link_to(broker) as link:
            assert link.window == 3
            publishes = [asyncio.create_task(link.publish("a", b"%d" % number)) for number in range(50)]
            await asyncio.sleep(0)
            assert link.room == 0
            await asyncio.gather(*publishes)
            await until(lambda: len(listener.heard) == 50)
    assert listener.payloads() == [b"%d" % number for number in range(50)]


async def test_messages_end_with_the_link(broker: Mosquitto) -> None:
    async with link_to(broker) as link:
        broker.kill()
        with pytest.raises(LinkError):
            async for _message in link.messages():
                pass


async def test_a_connect_that_is_never_answered_ends_and_leaves_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        impatient = MqttSettings((address,), "node-1", ack_deadline_s=0.2)
        with pytest.raises(LinkError) as caught:
            async with MqttLink(impatient, address):
                pass
        assert caught.value.cause is Cause.SILENT
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1), MqttLink(impatient, address):
                pass
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_line_closed_instead_of_an_answer_is_not_waited_for() -> None:
    async def hang_up(_: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        out.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        patient = MqttSettings((address,), "node-1", ack_deadline_s=60)
        with pytest.raises(LinkError) as caught:
            async with asyncio.timeout(20), MqttLink(patient, address):
                pass
    assert caught.value.cause is Cause.CLOSED


async def test_b36_a_dead_line_is_found_by_the_keepalive(broker: Mosquitto) -> None:
    async with Line(broker) as line:
        address = f"127.0.0.1:{line.port}"
        async with MqttLink(replace(settings(broker), keepalive_s=1), address) as link:
            line.open.clear()
            with pytest.raises(LinkError) as caught:
                await asyncio.wait_for(link.wait_lost(), 5)
        line.open.set()
    assert caught.value.cause is Cause.SILENT


def certificate(directory: Path, name: str) -> None:
    """A self-signed certificate for 127.0.0.1, as `<name>.crt` and `<name>.key`."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    (directory / f"{name}.crt").write_bytes(built.public_bytes(serialization.Encoding.PEM))
    (directory / f"{name}.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


async def test_b37_certificates_are_read_again_at_each_connect(tmp_path: Path) -> None:
    certificate(tmp_path, "broker")
    certificate(tmp_path, "other")
    tls_lines = f"certfile {tmp_path}/broker.crt\nkeyfile {tmp_path}/broker.key"
    trusted = tmp_path / "trusted.crt"
    with Mosquitto(tls_lines) as broker:
        address = f"mqtts://{broker.address}"
        tls = replace(settings(broker), brokers=(address,), ca_file=str(trusted), ack_deadline_s=2)

        async def cause() -> Cause | None:
            try:
                async with MqttLink(tls, address) as link:
                    await link.publish("a", b"x" * 100_000)
            except LinkError as error:
                return error.cause
            return None

        assert await cause() is Cause.TLS  # the file is missing
        trusted.write_bytes((tmp_path / "other.crt").read_bytes())
        assert await cause() is Cause.TLS
        trusted.write_bytes((tmp_path / "broker.crt").read_bytes())
        assert await cause() is None


async def test_a_backlog_larger_than_the_inbox_arrives_whole() -> None:
    """A reader that keeps up loses nothing, however much the broker has kept for it."""
    backlog = [b"%d" % number for number in range(3000)]
    with Mosquitto("max_queued_messages 5000") as patient:
        reader = replace(settings(patient), client_id="reader", ack_deadline_s=5)
        async with MqttLink(reader, patient.address) as link:
            await link.subscribe("a")
        async with MqttLink(replace(reader, client_id="writer"), patient.address) as link:
            await asyncio.gather(*(link.publish("a", payload) for payload in backlog))
        async with MqttLink(reader, patient.address) as link:
            messages = link.messages()
            async with asyncio.timeout(20):
                heard = [(await anext(messages)).payload for _ in backlog]
            assert (link.session_present, link.inbox_dropped) == (True, 0)
    assert heard == backlog


async def test_b27_an_inbox_that_nobody_reads_is_bounded_and_counted(broker: Mosquitto) -> None:
    async with MqttLink(replace(settings(broker), client_id="reader"), broker.address) as reader:
        await reader.subscribe("a")
        async with link_to(broker) as link:
            await asyncio.gather(*(link.publish("a", b"x") for _ in range(INBOX_MAX + 200)))
            await until(lambda: reader.inbox_dropped == 200)


async def test_a_socket_that_is_closed_before_its_turn_leaves_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A broker that refuses a certificate closes the line while the library still wants to read and write."""
    client = MqttClient(
        MqttSettings(("127.0.0.1:1",), "x"), Address("127.0.0.1", 1, tls=False), None, None,
        keep_session=False, packet_max=1000,
    )  # fmt: skip
    line = socket.socket()
    client._on_socket_open(client._client, None, line)
    client._on_socket_register_write(client._client, None, line)
    line.close()
    client._on_socket_unregister_write(client._client, None, line)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await client.abort()
    assert [one.getMessage() for one in caplog.records if one.name == "asyncio"] == []
