"""A mirror from a log into itself, which would write all records again."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.mirror.settings import SourceSettings, TargetSettings
from pyspark_commitlog.storage import InvalidConfigError
from tests.mirror.support import contents, fill, mirrored, numbered, place, topics


def test_a_directory_is_not_mirrored_into_itself_by_any_of_its_names(tmp_path: Path) -> None:
    there, pairs = tmp_path / "there", numbered(0, 5)
    fill(there, "flights", pairs)
    (tmp_path / "link").symlink_to(there)
    target = TargetSettings.parse({"log.dir": str(there)})
    for name in (str(there), f"{there}/", f"{tmp_path}/x/../there", str(tmp_path / "link"), f"file:{there}"):
        with pytest.raises(InvalidConfigError, match=r"is the target .* itself: .*name another target"):
            mirrored([SourceSettings.parse({"group.id": "one", "log.dir": name})], target)
    assert contents(there, "flights") == {0: pairs}
    assert topics(there) == ["flights"]


def test_a_cluster_is_not_mirrored_into_itself_by_any_of_its_names(tmp_path: Path) -> None:
    pairs = numbered(0, 5)
    fill(tmp_path / "there", "flights", pairs)
    with place(tmp_path / "there") as there:
        port = there.bootstrap.rpartition(":")[2]
        for name in (there.bootstrap, f"localhost:{port}"):
            source = SourceSettings.parse({"group.id": "one", "bootstrap.servers": name})
            with pytest.raises(InvalidConfigError, match=r"is the target .* itself"):
                mirrored([source], there.target())
    assert contents(tmp_path / "there", "flights") == {0: pairs}
    assert topics(tmp_path / "there") == ["flights"]
