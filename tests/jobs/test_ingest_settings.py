"""Which settings file ``commitlog ingest`` takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.jobs.ingest import _parser


def test_without_a_settings_file_here_the_one_of_the_package_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = Path(_parser(None).parse_args([]).config)
    assert (found.name, found.is_file()) == ("local.toml", True)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/local.toml").touch()
    assert _parser(None).parse_args([]).config == Path("conf/local.toml")
