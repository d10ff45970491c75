"""What jobs print of an error, with and without the frames of Java and Python."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from pyspark_commitlog.jobs import ingest
from pyspark_commitlog.pipeline.job import frames

SPARKS = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted
  File "border.py", line 41, in called
pyspark_commitlog.storage.errors.CorruptRecordError: /log/t-0, position 7: wrong
\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:581)"""


@pytest.fixture
def py4j() -> Iterator[logging.Logger]:
    logger = logging.getLogger("py4j")
    before = logger.level
    logger.setLevel(logging.NOTSET)
    yield logger
    logger.setLevel(before)


def test_the_cause_is_our_error_without_the_frames_around_it(
    monkeypatch: pytest.MonkeyPatch, py4j: logging.Logger
) -> None:
    monkeypatch.delenv(frames.VARIABLE, raising=False)
    frames.hide_frames()
    assert py4j.level == logging.CRITICAL
    assert frames.cause(ValueError(SPARKS)) == "/log/t-0, position 7: wrong"
    assert frames.cause(ValueError("not ours")) == "not ours"


def test_frames_are_shown_to_those_who_ask(monkeypatch: pytest.MonkeyPatch, py4j: logging.Logger) -> None:
    monkeypatch.setenv(frames.VARIABLE, "full")
    frames.hide_frames()
    assert py4j.level == logging.NOTSET
    assert frames.cause(ValueError(SPARKS)) == SPARKS


def test_ingest_names_wrong_settings_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert ingest.main(["--config", "nowhere.toml"]) == 2
    assert capsys.readouterr().err.startswith("ingest: settings file nowhere.toml: ")
