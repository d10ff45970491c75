"""OLD: the bodies of versions that kio does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..apis import ApiKey
from . import acls, admin, offsets, records


class Layouts(NamedTuple):
    """The classes of a request and its answer; a number: use kio's classes of that version."""

    request: type[Any] | int
    answer: type[Any] | int


OLD: Mapping[tuple[int, int], Layouts] = {
    **{(ApiKey.PRODUCE, each): Layouts(records.PRODUCE_REQUEST, records.produce_answer(each)) for each in range(3)},
    **{(ApiKey.FETCH, each): Layouts(records.fetch_request(each), records.fetch_answer(each)) for each in range(4)},
    (ApiKey.LIST_OFFSETS, 0): Layouts(offsets.LIST_OFFSETS_REQUEST_0, offsets.LIST_OFFSETS_ANSWER_0),
    (ApiKey.OFFSET_COMMIT, 0): Layouts(offsets.OFFSET_COMMIT_REQUEST_0, 2),
    (ApiKey.OFFSET_COMMIT, 1): Layouts(offsets.OFFSET_COMMIT_REQUEST_1, 2),
    (ApiKey.OFFSET_FETCH, 0): Layouts(1, 1),
    (ApiKey.CREATE_TOPICS, 0): Layouts(admin.CREATE_TOPICS_REQUEST_0, admin.CREATE_TOPICS_ANSWER_0),
    (ApiKey.CREATE_TOPICS, 1): Layouts(admin.CREATE_TOPICS_REQUEST_1, admin.CREATE_TOPICS_ANSWER_1),
    (ApiKey.DELETE_TOPICS, 0): Layouts(1, admin.DELETE_TOPICS_ANSWER_0),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, 0): Layouts(
        offsets.OFFSET_FOR_LEADER_EPOCH_REQUEST_0, offsets.OFFSET_FOR_LEADER_EPOCH_ANSWER_0
    ),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, 1): Layouts(
        offsets.OFFSET_FOR_LEADER_EPOCH_REQUEST_0, offsets.OFFSET_FOR_LEADER_EPOCH_ANSWER_1
    ),
    (ApiKey.WRITE_TXN_MARKERS, 0): Layouts(admin.WRITE_TXN_MARKERS_REQUEST_0, admin.WRITE_TXN_MARKERS_ANSWER_0),
    (ApiKey.DESCRIBE_ACLS, 0): Layouts(acls.DESCRIBE_ACLS_REQUEST_0, acls.DESCRIBE_ACLS_ANSWER_0),
    (ApiKey.CREATE_ACLS, 0): Layouts(acls.CREATE_ACLS_REQUEST_0, acls.CREATE_ACLS_ANSWER_0),
    (ApiKey.DELETE_ACLS, 0): Layouts(acls.DELETE_ACLS_REQUEST_0, acls.DELETE_ACLS_ANSWER_0),
    (ApiKey.ALTER_REPLICA_LOG_DIRS, 0): Layouts(1, 1),
    (ApiKey.DESCRIBE_CONFIGS, 0): Layouts(admin.DESCRIBE_CONFIGS_REQUEST_0, admin.DESCRIBE_CONFIGS_ANSWER_0),
    (ApiKey.DESCRIBE_LOG_DIRS, 0): Layouts(1, 1),
}
