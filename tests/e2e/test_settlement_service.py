"""The example service settles each bet exactly once, whatever is killed; its book has tests of its own."""

from __future__ import annotations

import json
from pathlib import Path

import aiomqtt
import pytest
from tests.support.broker import Mosquitto, until
from tests.support.chains import ChainMaker, signer
from tests.support.commands import ROOT, trust_bytes
from tests.support.daemon import TOPICS
from tests.support.site_broker import site_of
from tools.settlement_soak import Service, arguments, service, soak

from dollyd.daemon.link.mqtt import MqttLink
from dollyd.wire.record import Kind


@pytest.mark.long
async def test_each_bet_is_settled_once_whatever_is_killed() -> None:
    figures = await soak(arguments("--rounds=40", "--kills=2", "--seed=3"))
    assert "cash" in figures


@pytest.mark.long
async def test_a_forged_record_stops_its_table_and_is_not_settled(tmp_path: Path) -> None:
    chain, jwks = ChainMaker().begin(), tmp_path / "keys"
    jwks.write_text(json.dumps({"keys": [signer().jwk]}))
    closed, result = Kind.BETS_CLOSED, Kind.RESULT
    chain.add(Kind.ROUND, 1)
    chain.add(closed, 1)
    genuine = chain.add(result, 1)
    start = genuine.index(b'"signature":"') + len(b'"signature":"')
    forged = genuine[:start] + b"AAAA" + genuine[start + 4 :]
    with Mosquitto() as broker, service(broker, jwks, tmp_path) as settling:
        await until(lambda: "broker_connected" in settling.said, 20)
        async with aiomqtt.Client(broker.host, broker.port) as client:
            for kind, envelope in zip((Kind.KEY, Kind.ROUND, closed), chain.envelopes, strict=False):
                await client.publish(TOPICS.record("r1", kind), envelope, qos=1)
            await until(lambda: settling.watermarks() == {chain.chain: 3})
            await client.publish(TOPICS.record("r1", result), forged, qos=1)
            await until(lambda: "STOPPED: table r1" in settling.said)
        assert settling.code is None
        assert settling.watermarks() == {chain.chain: 3}
        assert settling.rows("SELECT * FROM final") == []


async def test_attack_10_the_service_runs_at_the_shipped_broker_with_the_trust_file(tmp_path: Path) -> None:
    chain = ChainMaker().begin()
    chain.add(Kind.ROUND, 1)
    with Mosquitto(started=False) as broker:
        site, kept = site_of(broker), tmp_path / "trust"
        broker.start()
        at = site.settings("settlement")
        options = [f"--broker={site.address}", f"--ca={at.ca_file}", f"--cert={at.cert_file}"]
        options += [f"--key={at.key_file}", f"--trust={kept}", f"--root={ROOT.kid}"]
        service = Service(broker, kept, tmp_path, options=options)
        service.start()
        try:
            await until(lambda: "broker_connected" in service.said, 30)
            async with MqttLink(site.settings("box1"), site.address) as link:
                await link.publish(TOPICS.trust(), trust_bytes(), retain=True)
                await until(kept.exists, 30)
                for kind, envelope in zip((Kind.KEY, Kind.ROUND), chain.envelopes, strict=True):
                    await link.publish(TOPICS.record("r1", kind), envelope)
                await until(lambda: service.watermarks() == {chain.chain: 2}, 30)
        finally:
            service.kill()
