"""Keys of an erasure: files of keys, salted hashes, and finding them among many."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import pytest

from pyspark_commitlog.storage.erasure import keys as module
from pyspark_commitlog.storage.erasure.keys import AskedKeys, KeyFinder, SaltedKeys
from pyspark_commitlog.storage.errors import InvalidConfigError
from pyspark_commitlog.storage.format.compaction_view import Keyed
from pyspark_commitlog.storage.format.tables import BinaryColumn
from pyspark_commitlog.storage.kernels.compaction.offset_map import hash_all

ODD = b"\x00\nnot a line"


def written(path: Path, *lines: bytes) -> str:
    (path / "keys").write_bytes(b"\n".join(lines))
    return str(path / "keys")


def test_a_file_has_a_key_on_each_line_and_spaces_belong_to_it(tmp_path: Path) -> None:
    path = written(tmp_path, b"ann", b" ida ", b"", "größe".encode() + b"\r", b"ann", b"")
    assert AskedKeys.read(path).keys == {b"ann", b" ida ", "größe".encode()}


def test_bytes_that_are_no_line_are_given_as_hex_or_base64(tmp_path: Path) -> None:
    assert AskedKeys.read(written(tmp_path, ODD.hex().encode()), "hex").keys == {ODD}
    assert AskedKeys.read(written(tmp_path, base64.b64encode(ODD)), "base64").keys == {ODD}


@pytest.mark.parametrize("form", ["hex", "base64"])
def test_a_line_that_is_no_such_key_is_named(form: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match=f"keys, line 2: is not {form}"):
        AskedKeys.read(written(tmp_path, b"abcd", b"x!"), form)


def test_a_file_without_keys_or_with_too_many_bytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidConfigError, match="has no keys"):
        AskedKeys.read(written(tmp_path, b"", b""))
    monkeypatch.setattr(module, "KEYS_FILE_BYTES_MAX", 10)
    with pytest.raises(InvalidConfigError, match="more than 10 bytes; erase its keys in parts"):
        AskedKeys.read(written(tmp_path, b"0123456789a"))


def test_salted_hashes_name_the_same_keys_and_differ_each_time() -> None:
    asked = AskedKeys(frozenset([b"ann", ODD]))
    salted = asked.salted()
    there = [b"ida", ODD, None, b"ann"]
    assert SaltedKeys.from_json(salted.to_json()).among(there) == asked.among(there) == {b"ann", ODD}
    assert asked.salted(salted.salt) == salted
    assert not asked.salted().digests & salted.digests


@pytest.mark.parametrize("count", [1, 2, 3, 1000, 5000])
def test_of_any_number_of_keys_each_is_found_and_no_other(count: int) -> None:
    finder = KeyFinder(AskedKeys(frozenset(b"%d" % n for n in range(count))))
    keys: list[bytes | None] = [None, *(b"%d" % n for n in range(2 * count))]
    hashes = hash_all(BinaryColumn.from_list(keys), finder.secret)
    there = np.array([key is not None for key in keys])
    records = Keyed(hashes, np.arange(len(keys)), there, there, np.array([len(keys)]))
    assert finder.find(records).tolist() == [False, *[True] * count, *[False] * count]
