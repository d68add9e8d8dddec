from __future__ import annotations

from pathlib import Path

from dollyd.daemon.link.retained import Retained
from dollyd.daemon.link.retained_book import RetainedBook
from dollyd.wire.topics import Topics

TOPICS = Topics("hall")
WHEEL, ODDS = TOPICS.device("r1", "wheel"), TOPICS.device("r1", "odds")
STATE, OTHER = TOPICS.state("r1"), TOPICS.state("r2")


def begun(journal: Path, *own: str) -> tuple[RetainedBook, Retained]:
    book, retained = RetainedBook(journal), Retained(TOPICS)
    book.begin(set(own), retained)
    return book, retained


def test_n8_what_a_renamed_device_and_a_removed_table_said_is_taken_back_at_the_next_start(
    tmp_path: Path,
) -> None:
    journal = tmp_path / "journal.db"
    assert begun(journal, STATE, WHEEL, ODDS, OTHER)[1].waiting == ()
    book, retained = begun(journal, STATE, WHEEL)
    assert {topic: retained.payload(topic) for topic in retained.waiting} == {ODDS: b"", OTHER: b""}
    # The broker was away all the time: the next life still knows.
    book, retained = begun(journal, STATE, WHEEL)
    assert set(retained.waiting) == {ODDS, OTHER}
    for topic in retained.waiting:
        retained.published(topic, retained.payload(topic))
    book.look({STATE, WHEEL}, retained, connected=True)
    assert begun(journal, STATE, WHEEL)[1].waiting == ()


def test_n8_a_file_that_cannot_be_read_or_is_of_another_site_clears_nothing(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    file = tmp_path / "journal.db.retained"
    file.write_bytes(
        b"\xff\x00nonsense\nx\ndolly/v1/hall/+/state\ndolly/v1/hall/r1/last\ndolly/v1/elsewhere/r1/state\n"
    )
    assert begun(journal, STATE)[1].waiting == ()
    file.unlink()
    file.mkdir()
    assert begun(journal, STATE)[1].waiting == ()
