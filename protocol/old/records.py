"""Produce 0 to 2 and Fetch 0 to 3, for our own clients; the gateway reads and writes these without classes."""

from __future__ import annotations

from typing import Any

from .shapes import BYTES, ERROR, INT16, INT32, INT64, MS, STRING, struct

_DATA = struct("PartitionProduceData", index=INT32, records=BYTES)
PRODUCE_REQUEST = struct(
    "ProduceRequest",
    acks=INT16,
    timeout=MS,
    topic_data=[struct("TopicProduceData", name=STRING, partition_data=[_DATA])],
)


def produce_answer(version: int) -> type[Any]:
    """Returns the class of the answer of version 0, 1 or 2."""
    partition = struct(
        "PartitionProduceResponse",
        index=INT32,
        error_code=ERROR,
        base_offset=INT64,
        **({"log_append_time": INT64} if version >= 2 else {}),
    )
    topic = struct("TopicProduceResponse", name=STRING, partition_responses=[partition])
    return struct("ProduceResponse", responses=[topic], **({"throttle_time": MS} if version >= 1 else {}))


_ASKED = struct("FetchPartition", partition=INT32, fetch_offset=INT64, partition_max_bytes=INT32)
_FETCHED = struct("PartitionData", partition_index=INT32, error_code=ERROR, high_watermark=INT64, records=BYTES)


def fetch_request(version: int) -> type[Any]:
    """Returns the class of the request of version 0 to 3."""
    return struct(
        "FetchRequest",
        replica_id=INT32,
        max_wait=MS,
        min_bytes=INT32,
        **({"max_bytes": INT32} if version >= 3 else {}),
        topics=[struct("FetchTopic", topic=STRING, partitions=[_ASKED])],
    )


def fetch_answer(version: int) -> type[Any]:
    """Returns the class of the answer of version 0 to 3."""
    topic = struct("FetchableTopicResponse", topic=STRING, partitions=[_FETCHED])
    return struct("FetchResponse", **({"throttle_time": MS} if version >= 1 else {}), responses=[topic])
