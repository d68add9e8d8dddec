"""`dollyd selftest`: the shipped spin through the whole chain, and what it says when a part is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.broker import Mosquitto, listening
from tests.support.daemon import NODE, TOPICS, Installation

from dollyd.daemon import selftest as chain
from dollyd.daemon.cli.selftest import _played
from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.link.mqtt import MqttSettings
from dollyd.daemon.selftest import SELFTEST_TYP, Stage, selftest
from dollyd.wire.jws import EnvelopeError, parse_envelope

ROOT = Path(__file__).parents[2]


async def stages(installation: Installation) -> list[Stage]:
    return [stage async for stage in selftest(installation.config, SystemClock())]


async def test_the_spin_goes_through_every_stage_and_is_no_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Mosquitto() as broker:
        installation = Installation(tmp_path, broker.address)
        async with listening(broker, "dolly/#") as listener:
            assert await _played(installation.config)
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 8
    assert all(line.startswith("good") and " ms" in line for line in said)
    (heard,) = listener.heard
    assert heard.topic == TOPICS.node_check(NODE, "scratch")
    assert not heard.retain
    with pytest.raises(EnvelopeError):
        parse_envelope(heard.payload)  # as a consumer would
    body = json.loads(parse_envelope(heard.payload, SELFTEST_TYP).payload)["body"]
    assert body["outcome"]["pocket"] == "17"
    assert not installation.journal.exists()


async def test_a_broker_that_is_away_ends_it_at_its_stage(tmp_path: Path) -> None:
    *good, last = await stages(Installation(tmp_path, "127.0.0.1:1"))
    assert [stage.problem for stage in good] == [""] * 5
    assert (last.name, last.problem[:7]) == ("broker and back", "refused")
    assert not await _played(tmp_path / "dollyd.toml")


async def test_a_wrong_number_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "NUMBER", "18")
    last = (await stages(Installation(tmp_path, "127.0.0.1:1")))[-1]
    assert (last.name, last.problem) == ("driver and round", "the spin shows 18, the result is 17")


async def test_a_wrong_configuration_is_its_first_stage(tmp_path: Path) -> None:
    installation = Installation(tmp_path, "127.0.0.1:1")
    installation.reconfigure(f'site = "{TOPICS.site}"', 'site = "No Name"')
    (only,) = await stages(installation)
    assert "site" in only.problem


def test_the_shipped_spin_is_that_of_the_simulated_wheel(capsys: pytest.CaptureFixture[str]) -> None:
    from tools import selftest_spin

    selftest_spin.main()
    shipped = (ROOT / "config" / "selftest" / "roulette-spin.jsonl").read_text("utf-8")
    assert capsys.readouterr().out == shipped


async def test_what_comes_back_altered_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def altered(_mqtt: MqttSettings, _topic: str, payload: bytes) -> bytes:
        return payload.replace(b"e", b"f", 1)

    monkeypatch.setattr(chain, "_there_and_back", altered)
    last = (await stages(Installation(tmp_path, "127.0.0.1:1")))[-1]
    assert (last.name, last.problem) == ("signature verified", "another text came back than was sent")
