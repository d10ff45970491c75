"""Open transactions in commits and checkpoints: read as written, and refused if they cannot be."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import Any

import pytest
import zstandard

from pyspark_commitlog.storage.bucket.commits import checkpoints, codec
from pyspark_commitlog.storage.bucket.commits.applying import apply
from pyspark_commitlog.storage.bucket.commits.commit import (
    Change,
    ClientTransaction,
    Commit,
    DataChange,
    EndChange,
    GroupOffset,
    OpenChange,
    StageChange,
    StagedObject,
    StagedOffsets,
    SwapChange,
    TransactionEnd,
)
from pyspark_commitlog.storage.bucket.commits.frames import encode_frame
from pyspark_commitlog.storage.bucket.commits.state import State
from pyspark_commitlog.storage.errors import CorruptionError
from tests.support.stores.commits import TOPIC_ID, create_topic, data, follow, hex_id, segment, state_of

X = ClientTransaction("__transaction.x", 1, 0, 7, 3, 60_000)
EMPTY_BYTES = 61


def added(write: int, *records: int, transaction: ClientTransaction = X, **fields: Any) -> DataChange:
    """A write in a transaction, whose last slice is in none."""
    change = data(write, *records, **fields)
    (part,), (object_,) = change.parts, change.objects
    part.slices[:, 1] += range(0, EMPTY_BYTES * len(records), EMPTY_BYTES)
    part = replace(part, transactions=[0] * (len(records) - 1) + [-1])
    sized = object_._replace(size=object_.size + EMPTY_BYTES * len(records))
    return replace(change, parts=[part], objects=[sized], transactions=[transaction])


def ended(epoch: int = 1, version: int = 0, *, is_commit: bool = True) -> EndChange:
    return EndChange([TransactionEnd(X.app, epoch, version, is_commit)])


OPENED = (create_topic(), OpenChange(X.app, 1), added(1, 3, 4))
STAGED = StageChange(
    [StagedOffsets(X, "g", {"t-0": GroupOffset(5, "ä")}), StagedOffsets(X, "h", {"u-0": GroupOffset(0, "")})]
)
CHANGES: dict[str, Change] = {
    "data": added(1, 3, 4),
    "stage": STAGED,
    "commit": ended(),
    "abort": ended(is_commit=False),
}


def content_of(change: Change) -> dict[str, Any]:
    frame = codec.encode_commit(Commit(7, hex_id(7), hex_id(6), 5, "", change))
    found: dict[str, Any] = json.loads(zstandard.ZstdDecompressor().decompress(frame[16:]))
    return found


def decoded(content: object) -> Commit:
    return codec.decode_commit(encode_frame(codec.MAGIC, json.dumps(content).encode()))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_commit_is_read_as_it_was_written_and_older_versions_refuse_it(change: Change) -> None:
    content = content_of(change)
    assert content["v"] == 2
    read = decoded(content).change
    assert content_of(read) == content
    assert type(read) is type(change)


def test_a_log_without_transactions_is_still_open_to_older_versions() -> None:
    state = state_of(create_topic(), data(1, 3))
    assert content_of(data(1, 3))["v"] == head_of(state)[0]["v"] == 1
    for change in (OpenChange(X.app, 1), added(2, 3, 4, base=3)):
        apply(state, follow(state, change))
    assert head_of(state)[0]["v"] == 2
    apply(state, follow(state, ended(is_commit=False)))
    assert head_of(state)[0]["v"] == 1


BAD_FIELDS: dict[str, dict[str, Any]] = {
    "no list of transactions": {"transactions": 1},
    "a transaction of texts": {"transactions": [["x", "1", 0, 7, 3, 5]]},
    "a transaction with a number too few": {"transactions": [["x", 1, 0, 7, 3]]},
    "a negative epoch": {"transactions": [["x", -1, 0, 7, 3, 5]]},
    "a transaction that slices name is missing": {"transactions": []},
}


@pytest.mark.parametrize("bad", BAD_FIELDS.values(), ids=BAD_FIELDS)
def test_a_field_that_no_writer_wrote_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(CorruptionError):
        decoded({**content_of(added(1, 3, 4)), **bad})


@pytest.mark.parametrize("bad", [1, [1], [["x", 1, 0]], [["x", 1, 0, 2]], [["x", 1, True, 1]], [["x", 1, 0, 1]] * 2])
def test_ends_that_no_writer_wrote_are_refused(bad: Any) -> None:
    with pytest.raises(CorruptionError):
        decoded({**content_of(ended()), "ends": bad})


@pytest.mark.parametrize("bad", [[0], [0, 0, 0], [0, -2], [0, True], "x"])
def test_slices_need_a_transaction_each(bad: Any) -> None:
    content = content_of(added(1, 3, 4))
    content["parts"][0]["transactions"] = bad
    with pytest.raises(CorruptionError):
        decoded(content)


REFUSED: dict[str, Change] = {
    "records of another epoch": added(2, 1, 1, base=7, transaction=X._replace(epoch=2)),
    "records of another number": added(2, 1, 1, base=7, transaction=X._replace(version=1)),
    "records of another producer": added(2, 1, 1, base=7, transaction=X._replace(producer_id=8)),
    "records of an unknown id": added(2, 1, 1, base=7, transaction=X._replace(app="y")),
    "records without room for the empty batch": replace(added(2, 1, 1, base=7), objects=[StagedObject(0, 7, 0, 100)]),
    "offsets of another epoch": StageChange([StagedOffsets(X._replace(epoch=2), "g", {})]),
    "offsets of two producers of one id": StageChange(
        [StagedOffsets(X, "g", {}), StagedOffsets(X._replace(producer_id=8), "g", {})]
    ),
    "the end of another epoch": ended(epoch=2),
    "the end of another number": ended(version=1),
    "a segment over an open transaction": SwapChange(TOPIC_ID, 0, segment(0, 7)),
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_a_commit_that_cannot_follow_is_refused_and_changes_nothing(change: Change) -> None:
    state = state_of(*OPENED)
    before = checkpoints.encode_checkpoint(state)
    with pytest.raises(CorruptionError):
        apply(state, follow(state, change))
    assert checkpoints.encode_checkpoint(state) == before


def head_of(state: State) -> tuple[dict[str, Any], bytes]:
    payload = zstandard.ZstdDecompressor().decompress(checkpoints.encode_checkpoint(state)[16:])
    (length,) = struct.unpack_from(">I", payload)
    return json.loads(payload[4 : 4 + length]), payload[4 + length :]


def from_head(head: dict[str, Any], tables: bytes) -> State:
    text = json.dumps(head).encode()
    return checkpoints.decode_checkpoint(encode_frame(checkpoints.MAGIC, struct.pack(">I", len(text)) + text + tables))


BAD_OPEN: dict[str, Any] = {
    "a number": 1,
    "no list of slices": [[[*X], 3, 5, 1, []]],
    "no bases": [[[*X], 3, 5, [[TOPIC_ID, 0, []]], []]],
    "bases of texts": [[[*X], 3, 5, [[TOPIC_ID, 0, ["0"]]], []]],
    "a partition that is not there": [[[*X], 3, 5, [["u" * 22, 0, [0]]], []]],
    "another epoch": [[[X.app, 2, *X[2:]], 3, 5, [], []]],
    "no time": [[[*X], 3, None, [], []]],
    "one twice": [[[*X], 3, 5, [], []]] * 2,
    "offsets without a commit": [[[*X], 3, 5, [], [["g", "t-0", 5, ""]]]],
}


@pytest.mark.parametrize("bad", BAD_OPEN.values(), ids=BAD_OPEN)
def test_an_open_transaction_that_cannot_be_in_a_checkpoint_is_refused(bad: Any) -> None:
    head, tables = head_of(state_of(*OPENED, STAGED))
    assert from_head(head, tables).open == state_of(*OPENED, STAGED).open
    with pytest.raises(CorruptionError):
        from_head({**head, "open": bad}, tables)
