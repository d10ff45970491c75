"""Which settings file ``commitlog ingest`` takes, and which input it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.jobs.ingest import _parser, main


def test_without_a_settings_file_here_the_one_of_the_package_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = Path(_parser(None).parse_args([]).config)
    assert (found.name, found.is_file()) == ("local.toml", True)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/local.toml").touch()
    assert _parser(None).parse_args([]).config == Path("conf/local.toml")


def test_input_that_is_not_there_is_named_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pyspark_commitlog.pipeline.job.session.job_session", None)
    assert main([]) == 2
    said = "ingest: --input data/flights: no such directory; name the folder of the CSV files\n"
    assert capsys.readouterr() == ("", said)
    assert list(tmp_path.iterdir()) == []
