"""What the node does for those who read its records: replays, watermarks, a quiet table's last result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiomqtt
from tests.support.broker import Mosquitto, listening, until
from tests.support.chains import ChainMaker
from tests.support.daemon import NODE, TOPICS, Consumer, Daemon, Installation, journaled, verified
from tests.support.simulated_table import SimulatedTable, playing

from dollyd.daemon.journal.store import Journal
from dollyd.daemon.keys.signing import load_signer
from dollyd.daemon.link.publisher import REPUBLISH
from dollyd.wire.record import Kind


async def tell(broker: Mosquitto, topic: str, members: dict[str, Any], *, retain: bool = False) -> None:
    async with aiomqtt.Client(broker.host, broker.port, identifier="settlement") as client:
        await client.publish(topic, json.dumps(members), qos=1, retain=retain)


def services(consumer: Consumer) -> dict[str, Any]:
    return dict(consumer.latest(TOPICS.node_health(NODE)).get("services", {}))


async def test_a_consumer_is_answered_and_watched_while_play_goes_on(
    broker: Mosquitto, installation: Installation, table: SimulatedTable, consumer: Consumer
) -> None:
    installation.reconfigure("[mqtt]\n", "[mqtt]\nlag_records = 5\n")
    with Daemon(installation) as daemon:
        await daemon.started()
        await playing(table, consumer, results=2)
        chain, upto = consumer.records[-1].chain, consumer.records[-1].seq
        asked = {"chain": chain, "from": 1, "to": upto, "id": "q1"}
        played = len(table.completed)
        await tell(broker, TOPICS.replay_ask("r1", "settlement"), asked)
        answers = TOPICS.replay_answer("r1", "settlement")
        await until(lambda: b'"end":"q1"' in (consumer.listener.payloads(answers) or [b""])[-1])
        _, *records, end = consumer.listener.payloads(answers)  # the first one is the question
        assert records == [record.envelope for record in journaled(installation)][:upto]
        assert json.loads(end) | {"sent": upto, "problem": ""} == json.loads(end)

        ack = {"consumer": "settlement", "chain": chain, "seq": 1, "time": "now"}
        await tell(broker, TOPICS.ack("r1", "settlement"), ack, retain=True)
        await until(lambda: "settlement-lags" in [r.body["what"] for r in consumer.of("incident")])
        await until(lambda: services(consumer).get("consumers", {}).get("lagging") == 1, 15)
        assert services(consumer)["replay"]["requests"] == {"answered": 1}
        await until(lambda: len(table.completed) >= played + 2, 20)
        table.end_play()
        assert await daemon.stop() == 0
    assert len(daemon_errors(daemon)) == 0
    assert verified(installation)["ok"]


def daemon_errors(daemon: Daemon) -> list[str]:
    return [line for line in daemon.log if "level=error" in line]


async def test_the_last_result_of_a_quiet_table_outlives_the_brokers_memory(
    tmp_path: Path, broker: Mosquitto
) -> None:
    installation = Installation(tmp_path, broker.address, ("busy", "quiet"))
    signer = load_signer(installation.signing_key, config_file="", key="")
    quiet = ChainMaker("quiet", "a" * 32, signer).begin()
    last = quiet.add(Kind.VOID, 1, {"rule": "x"})
    busy = ChainMaker("busy", "b" * 32, signer).begin()
    for number in range(REPUBLISH):
        busy.add(Kind.INCIDENT, body={"what": str(number)})
    journal = Journal.open(installation.journal)
    journal.append(quiet.entries + busy.entries)
    journal.set_cursor("publisher", journal.last_id)
    journal.close()
    async with listening(broker, TOPICS.every_last()) as listener:
        with Daemon(installation) as daemon:
            await daemon.started()
            await until(lambda: bool(listener.heard))
            assert await daemon.stop() == 0
    assert [(heard.topic, heard.payload) for heard in listener.heard] == [(TOPICS.last("quiet"), last)]
