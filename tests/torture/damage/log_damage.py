"""What happens to the files of a partition, and to those beside it: bits, blocks, batches and whole files go wrong."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from pyspark_commitlog.storage.format.constants import LENGTH_AT, LOG_OVERHEAD
from pyspark_commitlog.storage.format.files import checkpoints, file_names
from tests.support.disk.frozen_filesystem import Changes
from tests.torture.damage.damaging import damage, set_a_number, spoil_a_run
from tests.torture.damage.sound_logs import Batch, SoundLog

HEADER_BYTES = 61  # of magic 2; what begins an older message is shorter
SIDE_FILES = (file_names.INDEX, file_names.TIME_INDEX, file_names.TXN_INDEX, file_names.SNAPSHOT)
FIELDS = (  # of a header of magic 2: position, bytes
    (0, 8), (8, 4), (12, 4), (16, 1), (17, 4), (21, 2), (23, 4), (27, 8), (35, 8), (43, 8), (51, 2), (53, 4), (57, 4),
)  # fmt: skip


class Damaged(NamedTuple):
    """What was done to a log's files."""

    what: str
    changes: Changes


def damaged(log: SoundLog, chance: Random) -> Damaged:
    """One piece of damage mostly; a second one, to another file, now and then."""
    first = _one(log, chance)
    if chance.random() < 0.9:
        return first
    second = _one(log, chance)
    return Damaged(f"{first.what} and {second.what}", {**first.changes, **second.changes})


def _one(log: SoundLog, chance: Random) -> Damaged:
    drawn = chance.random()
    if drawn < 0.68:
        return _log_file(log, chance)
    if drawn < 0.86 or not log.root_files:
        return _side_file(log, chance)
    if drawn < 0.93:
        return _whole_segment(log, chance)
    return _root_file(log, chance)


# The .log


def _log_file(log: SoundLog, chance: Random) -> Damaged:
    batch = chance.choice(log.batches)
    data = bytearray(log.disk.files[batch.path])
    way = chance.choice(LOG_WAYS)
    way(chance, data, batch, [each for each in log.batches if each.path == batch.path])
    name = batch.path.rpartition("/")[2]
    return Damaged(f"{way.__name__} in {name} at the batch at {batch.position}", {batch.path: bytes(data)})


def a_bit_of_a_header(chance: Random, data: bytearray, batch: Batch, batches: list[Batch]) -> None:
    data[batch.position + chance.randrange(min(HEADER_BYTES, batch.end - batch.position))] ^= 1 << chance.randrange(8)


def a_bit(chance: Random, data: bytearray, batch: Batch, batches: list[Batch]) -> None:
    data[chance.randrange(batch.position, batch.end)] ^= 1 << chance.randrange(8)


def a_field(chance: Random, data: bytearray, batch: Batch, batches: list[Batch]) -> None:
    """Is another: one off, the neighbour's, or the worst there is."""
    position, size = chance.choice(FIELDS)
    at = batch.position + position
    if at + size > batch.end:
        return
    before = int.from_bytes(data[at : at + size], "big")
    other = chance.choice(batches).position + position
    neighbours = int.from_bytes(data[other : other + size], "big")
    worst = chance.choice((0, 1, 2 ** (8 * size) - 1, 2 ** (8 * size - 1)))
    value = chance.choice((before + 1, before - 1, before + chance.randint(2, 50), neighbours, worst))
    data[at : at + size] = (value % 2 ** (8 * size)).to_bytes(size, "big")


def some_bytes(chance: Random, data: bytearray, batch: Batch, batches: list[Batch]) -> None:
    part = data[batch.position : batch.end]
    spoil_a_run(chance, part)
    data[batch.position : batch.end] = part


def a_number(chance: Random, data: bytearray, batch: Batch, batches: list[Batch]) -> None:
    part = data[batch.position : batch.end]
    set_a_number(chance, part)
    data[batch.position : batch.end] = part


def a_block_of_zeros(chance: Random, data: bytearray, batch: Batch, batches: list[Batch]) -> None:
    size = chance.choice((16, 64, 512, 4096))
    at = batch.position // size * size
    data[at : at + size] = bytes(len(data[at : at + size]))


def cut(chance: Random, data: bytearray, batch: Batch, batches: list[Batch]) -> None:
    del data[chance.randint(batch.position, batch.end) :]


def cut_between_batches(chance: Random, data: bytearray, batch: Batch, batches: list[Batch]) -> None:
    del data[batch.position :]


def zeros_from_here_on(chance: Random, data: bytearray, batch: Batch, batches: list[Batch]) -> None:
    at = chance.randint(batch.position, batch.end)
    data[at:] = bytes(len(data) - at)


def more_at_the_end(chance: Random, data: bytearray, batch: Batch, batches: list[Batch]) -> None:
    data += chance.choice((bytes(chance.randint(1, 100)), chance.randbytes(chance.randint(1, 100)),
                           data[batch.position : batch.end], data[batch.position : batch.position + 30]))  # fmt: skip


def a_batch_less(chance: Random, data: bytearray, batch: Batch, batches: list[Batch]) -> None:
    del data[batch.position : batch.end]


def a_batch_twice(chance: Random, data: bytearray, batch: Batch, batches: list[Batch]) -> None:
    at = chance.choice([batch.end, batch.end, *(each.end for each in batches)])
    data[at:at] = data[batch.position : batch.end]


def two_batches_in_each_others_place(chance: Random, data: bytearray, batch: Batch, batches: list[Batch]) -> None:
    first, second = sorted((batch, chance.choice(batches)), key=lambda each: each.position)
    if first is not second:
        between = data[first.end : second.position]
        moved = data[second.position : second.end] + between + data[first.position : first.end]
        data[first.position : second.end] = moved


def a_batch_instead_of_another(chance: Random, data: bytearray, batch: Batch, batches: list[Batch]) -> None:
    other = chance.choice(batches)
    data[batch.position : batch.end] = data[other.position : other.end]


def a_longer_batch(chance: Random, data: bytearray, batch: Batch, batches: list[Batch]) -> None:
    """Its length takes in the next ones."""
    last = chance.choice([each for each in batches if each.position >= batch.position])
    length = last.end - batch.position - LOG_OVERHEAD
    data[batch.position + LENGTH_AT : batch.position + LOG_OVERHEAD] = length.to_bytes(4, "big")


def anything(chance: Random, data: bytearray, batch: Batch, batches: list[Batch]) -> None:
    data[:] = damage(chance, bytes(data))


LOG_WAYS: tuple[Callable[[Random, bytearray, Batch, list[Batch]], None], ...] = (
    a_bit_of_a_header, a_bit_of_a_header, a_bit_of_a_header, a_bit_of_a_header, a_bit_of_a_header, a_bit, a_bit,
    a_field, a_field, a_field, some_bytes, a_number, a_block_of_zeros, cut, cut_between_batches, zeros_from_here_on,
    more_at_the_end, a_batch_less, a_batch_twice, two_batches_in_each_others_place, a_batch_instead_of_another,
    a_longer_batch, anything,
)  # fmt: skip


# Files beside the .log


def _side_file(log: SoundLog, chance: Random) -> Damaged:
    """Lost, emptied, harmed, or as it was earlier, which an older file of its kind stands for."""
    paths = [path for path in log.files if not path.endswith(file_names.LOG)]
    if not paths:
        return _log_file(log, chance)
    path = chance.choice(paths)
    name = path.rpartition("/")[2]
    same_kind = [each for each in paths if each.rpartition(".")[2] == path.rpartition(".")[2]]
    drawn = chance.random()
    if drawn < 0.2:
        return Damaged(f"{name} lost", {path: None})
    if drawn < 0.25:
        return Damaged(f"{name} emptied", {path: b""})
    if drawn < 0.4:
        other = chance.choice(same_kind)
        return Damaged(f"{name} as {other.rpartition('/')[2]}", {path: log.disk.files[other]})
    return Damaged(f"{name} harmed", {path: damage(chance, log.disk.files[path])})


def _whole_segment(log: SoundLog, chance: Random) -> Damaged:
    """Its files are lost, or its log alone, or another segment's log lies in its place."""
    logs = [path for path in log.files if path.endswith(file_names.LOG)]
    path = chance.choice([*logs, logs[-1], logs[0]])
    stem = path.removesuffix(file_names.LOG)
    name = path.rpartition("/")[2]
    drawn = chance.random()
    if drawn < 0.5:
        kinds = (file_names.LOG, *SIDE_FILES) if chance.random() < 0.5 else (file_names.LOG, *SIDE_FILES[:3])
        return Damaged(f"{name} lost with {', '.join(kinds[1:])}", {stem + kind: None for kind in kinds})
    if drawn < 0.7:
        return Damaged(f"{name} lost alone", {path: None})
    if drawn < 0.85:
        return Damaged(f"{name} emptied", {path: b""})
    other = chance.choice(logs)
    return Damaged(f"{name} as {other.rpartition('/')[2]}", {path: log.disk.files[other]})


# Files at the root


def _root_file(log: SoundLog, chance: Random) -> Damaged:
    """Lost, emptied, harmed, or set back."""
    path = chance.choice(log.root_files)
    name = path.rpartition("/")[2]
    drawn = chance.random()
    if drawn < 0.3:
        return Damaged(f"{name} lost", {path: None})
    if drawn < 0.4:
        return Damaged(f"{name} emptied", {path: b""})
    if drawn < 0.6 and name in file_names.OFFSET_CHECKPOINTS:
        before = checkpoints.decode_offsets(log.disk.files[path])
        after = {key: chance.randint(0, offset) for key, offset in before.items()}
        return Damaged(f"{name} set back", {path: checkpoints.encode_offsets(after)})
    return Damaged(f"{name} harmed", {path: damage(chance, log.disk.files[path])})
