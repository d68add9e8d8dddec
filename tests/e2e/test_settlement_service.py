"""The example service settles each bet exactly once, whatever is killed."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import aiomqtt
import pytest
from tests.support.broker import Mosquitto, listening, until
from tests.support.chains import ChainMaker, signer
from tests.support.daemon import Consumer, Daemon, Installation, journaled
from tests.support.simulated_table import SimulatedTable
from tools.settlement_soak import BROKER, PLACED, PREFIX, Evening, Service, judge, service

from dollyd.daemon.core.record import Kind
from dollyd.daemon.journal import Journal

ROUNDS, KILLS = 60, 6
BETS_UNTIL = 1000
"""Bets lie on more rounds than are played."""


@pytest.mark.slow
async def test_each_bet_is_settled_once_whatever_is_killed(tmp_path: Path) -> None:
    with Mosquitto(BROKER, persistence=True) as broker:
        at = Installation(tmp_path, broker.address)
        async with listening(broker, "dolly/#") as listener, SimulatedTable(tmp_path) as table:
            consumer = Consumer(listener)
            with Daemon(at) as daemon:
                await daemon.started()
                with service(broker, at.jwks, tmp_path, at.journal) as settling:
                    await settling.settling()
                    settling.place(journaled(at)[0].chain, range(1, BETS_UNTIL))
                    broker.save()
                    await until(lambda: consumer.status("odds") == "ready")
                    table.play()
                    await play_and_kill(table, broker, daemon, settling)
                    table.end_play()
                    await until(lambda: settling.watermark() == len(journaled(at)), 20)
                    assert await daemon.stop() == 0
                    await until(lambda: settling.watermark() == len(journaled(at)), 20)
                    settling.kill()
                    assert judge(settling, journaled(at)) > ROUNDS // 2


async def play_and_kill(table: SimulatedTable, broker: Mosquitto, daemon: Daemon, settling: Service) -> None:
    """Kill the service, and by turns the broker or the daemon with it, at any moment of play."""
    random = Random(5)
    for kill in range(KILLS):
        await played(table, ROUNDS * (kill + 1) // (KILLS + 1))
        await asyncio.sleep(random.uniform(0, 0.2))
        if kill % 3 == 0:
            broker.kill()
            await asyncio.to_thread(broker.start)
        elif kill % 3 == 1:
            daemon.kill()
            daemon.start()
            await daemon.started()
        settling.kill()
        settling.start()
    await played(table, ROUNDS)


async def played(table: SimulatedTable, games: int) -> None:
    await until(lambda: len(table.completed) >= games, 30)


# --- a gap, a forged record, a late bet ------------------------------------------------------------


def chain_of(rounds: int) -> ChainMaker:
    evening = Evening(Random(1))
    evening.play(1, rounds)
    return evening.chain


@pytest.mark.slow
async def test_a_gap_stops_the_service_until_a_journal_closes_it(tmp_path: Path) -> None:
    chain, keys = chain_of(3), tmp_path / "keys"
    keys.write_text(json.dumps({"keys": [signer().jwk]}))
    journal = Journal.open(tmp_path / "journal.db")
    journal.append(chain.entries)
    journal.close()
    forged = chain_of(1)
    forged.signer = signer(2)
    with Mosquitto() as broker, service(broker, keys, tmp_path) as settling:
        await settling.settling()
        settling.place(chain.chain, range(1, 5))
        async with aiomqtt.Client(broker.host, broker.port) as client:
            for envelope in (*chain.envelopes[:4], forged.add(Kind.RESULT, 1), *chain.envelopes[5:]):
                await client.publish(f"{PREFIX}/record/any", envelope, qos=1)
        await until(lambda: "GAP" in settling.said)
        assert "NOT A RECORD" in settling.said
        assert "records 5 to 5 are missing" in settling.said
        assert settling.watermark() == 4
        assert len(settling.rows("SELECT * FROM payout")) == len(PLACED)
        with pytest.raises(sqlite3.IntegrityError, match="no more bets"):
            settling.place(chain.chain, range(1, 2))
        settling.kill()
        settling.start("--journal", str(tmp_path / "journal.db"))
        await until(lambda: settling.watermark() == 10)
        assert settling.code is None
        assert len(settling.rows("SELECT * FROM payout")) == 3 * len(PLACED)
        held = settling.rows("SELECT DISTINCT reason FROM payout WHERE verdict = 'held'")
        assert len(held) == 3


@pytest.mark.slow
async def test_payouts_and_watermark_are_one_transaction(tmp_path: Path) -> None:
    """The data base refuses the watermark after the payouts were written: then there were none."""
    chain, keys, journal = chain_of(1), tmp_path / "keys", tmp_path / "journal.db"
    keys.write_text(json.dumps({"keys": [signer().jwk]}))
    opened = Journal.open(journal)
    opened.append(chain.entries)
    opened.close()
    with Mosquitto() as broker, service(broker, keys, tmp_path) as settling:
        await settling.settling()
        settling.place(chain.chain, range(1, 2))
        with closing(sqlite3.connect(settling.data)) as database:
            database.execute(
                "CREATE TRIGGER full BEFORE INSERT ON watermark WHEN NEW.seq = 4"
                " BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
            )
        settling.kill()
        settling.start("--journal", str(journal))
        await until(lambda: settling.code is not None)
        assert settling.code == 1
        assert "the disk is full" in settling.said
        assert settling.watermark() == 3
        assert settling.rows("SELECT * FROM payout") == []
        with closing(sqlite3.connect(settling.data)) as database:
            database.execute("DROP TRIGGER full")
        settling.start("--journal", str(journal))
        await until(lambda: settling.watermark() == 4)
        assert len(settling.rows("SELECT * FROM payout")) == len(PLACED)
