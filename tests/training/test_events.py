"""Event files: TensorBoard reads them, and a disk that is full does not end a training."""

import resource

import pytest

from similis.training.events import Events


def test_tensorboard_reads_what_was_written_at_once(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with Events(tmp_path / "select") as events:
        for step in (1, 2, 3):
            events.scalar("loss", 4.0 / step, step)
        events.scalar("recall@1", 0.25, 3)
        read = accumulator.EventAccumulator(str(tmp_path / "select"))
        read.Reload()  # before the file is closed
    assert [(event.step, event.value) for event in read.Scalars("loss")] == [
        (1, 4.0),
        (2, 2.0),
        (3, pytest.approx(4 / 3)),
    ]
    assert [(event.step, event.value) for event in read.Scalars("recall@1")] == [(3, 0.25)]


def test_a_full_disk_ends_the_events_and_nothing_else(tmp_path, caplog):
    pytest.importorskip("tensorboard")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Events(tmp_path / "select") as events:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, before[1]))
        try:
            for step in range(100):
                events.scalar("loss", 1.0, step)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [record.getMessage().partition(" (")[2] for record in caplog.records] == [
        "File too large); metrics.jsonl has all"
    ]


def test_a_place_that_is_no_folder_is_done_without(tmp_path, caplog):
    (tmp_path / "events").touch()
    with Events(tmp_path / "events" / "select") as events:
        events.scalar("loss", 1.0, 1)
    assert "no more TensorBoard events" in caplog.text
