"""Bodies as our decoder reads them: as kio does, and with tagged fields that are known or not."""

from __future__ import annotations

import pytest

from pyspark_commitlog.protocol.apis import APIS, ApiKey
from pyspark_commitlog.protocol.bodies import read_answer, write_answer
from pyspark_commitlog.protocol.headers import answer_header_bytes
from pyspark_commitlog.protocol.reading import MalformedRequestError
from tests.support.recorded_wire import GOLDEN, head_of, paired, recording, whole_answer


@pytest.mark.parametrize("name", [path.name.removesuffix(".json.xz") for path in sorted(GOLDEN.glob("*.json.xz"))])
def test_recorded_answers_are_read_as_kio_reads_them(name: str) -> None:
    events = recording(name)
    for asked, answered in paired(events):
        head, frame = head_of(events[asked].frame), events[answered].frame[4:]
        if head.key in APIS:
            at = answer_header_bytes(head.key, head.version)
            assert read_answer(head.key, head.version, frame, at) == whole_answer(frame, 4, head.key, head.version)


def test_tagged_fields_are_read_where_they_are_known_and_passed_over_where_they_are_not() -> None:
    place = {"partition_index": 1, "records": None, "diverging_epoch": {"epoch": 3, "end_offset": 7}}
    written = write_answer(ApiKey.FETCH, 12, {"responses": [{"topic": "t", "partitions": [place]}]})
    found = read_answer(ApiKey.FETCH, 12, written, 0)
    (partition,) = found.responses[0].partitions
    assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == (3, 7)
    assert partition.current_leader.leader_id == -1
    assert written.endswith(b"\0")
    assert read_answer(ApiKey.FETCH, 12, written[:-1] + b"\x01\x7f\x02ab", 0) == found
    for rest in (b"", b"\x01\x7f\x03ab", b"\0\0", b"\xff\xff\xff\xff\x0f"):
        with pytest.raises(MalformedRequestError):
            read_answer(ApiKey.FETCH, 12, written[:-1] + rest, 0)
