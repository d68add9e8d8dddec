"""The example service settles each bet exactly once, whatever is killed; its book has tests of its own."""

from __future__ import annotations

import json
from pathlib import Path

import aiomqtt
import pytest
from tests.support.broker import Mosquitto, until
from tests.support.chains import ChainMaker, signer
from tests.support.daemon import TOPICS
from tools.settlement_soak import arguments, service, soak

from dollyd.daemon.core.record import Kind


@pytest.mark.slow
async def test_each_bet_is_settled_once_whatever_is_killed() -> None:
    figures = await soak(arguments("--rounds=40", "--kills=2", "--seed=3"))
    assert "cash" in figures


@pytest.mark.slow
async def test_a_forged_record_stops_the_service_and_is_not_settled(tmp_path: Path) -> None:
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
            await until(lambda: settling.code is not None)
        assert settling.code == 1
        assert "STOPPED: table r1" in settling.said
        assert settling.watermarks() == {chain.chain: 3}
        assert settling.rows("SELECT * FROM final") == []
