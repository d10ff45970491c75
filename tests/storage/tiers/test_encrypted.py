"""Segments that the classes of Aiven's plugin encrypted, beside the same segments as they were."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from pyspark_commitlog.storage import Isolation, LogManager
from pyspark_commitlog.storage.errors import CorruptionError, InvalidConfigError
from pyspark_commitlog.storage.tiers.address import tier_address
from pyspark_commitlog.storage.tiers.opening import open_tier
from pyspark_commitlog.storage.tiers.port import BESIDE, TierSegment
from tests.support.kafka.broker_dirs import rows
from tests.support.tiers import GOLDEN, broker, store_with


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the tier and the key."""
    folder = tmp_path_factory.mktemp("encrypted")
    with tarfile.open(GOLDEN / "aiven-encrypted.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return folder


def first_segments(tier: Path, *keys: str) -> dict[int, TierSegment]:
    found = open_tier(str(tier), keys)
    partition = next(each for each in found.partitions() if each.topic == "t-txn")
    return {each.start_offset: each for each in found.segments(partition).whole}


def test_segments_and_their_small_files_are_decrypted(encrypted: Path, tmp_path: Path) -> None:
    key, plain = str(encrypted / "private.pem"), broker("aiven", tmp_path).tier
    expected = first_segments(plain)
    tiers = open_tier(str(encrypted / "tier"), [key]), open_tier(str(plain))
    tiers[1].segments(expected[0].partition)
    found = first_segments(encrypted / "tier", key)
    assert len(found) == 4
    tiers[0].segments(found[0].partition)
    for start, segment in found.items():
        one, other = tiers[0].read(segment, 0, segment.size), tiers[1].read(expected[start], 0, segment.size)
        assert bytes(one) == bytes(other)
        assert bytes(tiers[0].content(segment).read(1500, 1000)) == bytes(one)[1500:2500]
        for kind in BESIDE:
            assert tiers[0].beside(segment, kind) == tiers[1].beside(expected[start], kind)


def test_records_are_those_of_the_consumer(encrypted: Path, tmp_path: Path) -> None:
    address = tier_address(str(encrypted / "tier"), None, [str(encrypted / "private.pem")])
    with LogManager.open(str(address)) as manager:
        found = rows(manager.open_reader("t-txn", 0))
    consumed = broker("aiven", tmp_path).rows("t-txn", Isolation.READ_UNCOMMITTED)
    assert found == [row for row in consumed if row[0] < 213]


def test_without_a_key_that_fits_the_key_pair_is_named(encrypted: Path, tmp_path: Path) -> None:
    with pytest.raises(
        InvalidConfigError, match="encrypted with the key pair 'key1': give the file with the private key"
    ):
        first_segments(encrypted / "tier")
    other = tmp_path / "other.pem"
    other.write_bytes(another_key())
    with pytest.raises(InvalidConfigError, match=rf"key pair 'key1': none of {other} fits"):
        first_segments(encrypted / "tier", str(other))
    other.write_text("no key")
    with pytest.raises(InvalidConfigError, match=r"other\.pem: this is no private key in PEM"):
        first_segments(encrypted / "tier", str(other))


def another_key() -> bytes:
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415 - of the extra
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat  # noqa: PLC0415

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def test_a_chunk_that_was_changed_is_named(encrypted: Path) -> None:
    store = store_with(encrypted / "tier")
    tier = open_tier("", [str(encrypted / "private.pem")], store=store)
    [partition] = tier.partitions()
    segment = tier.segments(partition).whole[1]
    data = bytearray(store.objects[segment.name])
    data[3000] ^= 1
    store.objects[segment.name] = bytes(data)
    with pytest.raises(CorruptionError, match=rf"{segment.name}, position 2076: the encrypted bytes are not those"):
        tier.read(segment, 0, segment.size)
    assert len(tier.read(segment, 0, 2048)) == 2048
