"""CreateTopics 0 and 1, DeleteTopics 0, DescribeConfigs 0, WriteTxnMarkers 0."""

from __future__ import annotations

from .shapes import BOOL, ERROR, INT8, INT16, INT32, INT64, MS, NULLABLE_STRING, STRING, Nullable, struct

_CREATED = struct(
    "CreatableTopic",
    name=STRING,
    num_partitions=INT32,
    replication_factor=INT16,
    assignments=[struct("CreatableReplicaAssignment", partition_index=INT32, broker_ids=[INT32])],
    configs=[struct("CreatableTopicConfig", name=STRING, value=NULLABLE_STRING)],
)
CREATE_TOPICS_REQUEST_0 = struct("CreateTopicsRequest", topics=[_CREATED], timeout=MS)
CREATE_TOPICS_REQUEST_1 = struct("CreateTopicsRequest", topics=[_CREATED], timeout=MS, validate_only=BOOL)
CREATE_TOPICS_ANSWER_0 = struct(
    "CreateTopicsResponse", topics=[struct("CreatableTopicResult", name=STRING, error_code=ERROR)]
)
CREATE_TOPICS_ANSWER_1 = struct(
    "CreateTopicsResponse",
    topics=[struct("CreatableTopicResult", name=STRING, error_code=ERROR, error_message=NULLABLE_STRING)],
)

DELETE_TOPICS_ANSWER_0 = struct(
    "DeleteTopicsResponse", responses=[struct("DeletableTopicResult", name=STRING, error_code=ERROR)]
)

_ASKED = struct(
    "DescribeConfigsResource", resource_type=INT8, resource_name=STRING, configuration_keys=Nullable([STRING])
)
_CONFIG = struct(
    "DescribeConfigsResourceResult",
    name=STRING,
    value=NULLABLE_STRING,
    read_only=BOOL,
    is_default=BOOL,
    is_sensitive=BOOL,
)
_DESCRIBED = struct(
    "DescribeConfigsResult",
    error_code=ERROR,
    error_message=NULLABLE_STRING,
    resource_type=INT8,
    resource_name=STRING,
    configs=[_CONFIG],
)
DESCRIBE_CONFIGS_REQUEST_0 = struct("DescribeConfigsRequest", resources=[_ASKED])
DESCRIBE_CONFIGS_ANSWER_0 = struct("DescribeConfigsResponse", throttle_time=MS, results=[_DESCRIBED])

_MARKER = struct(
    "WritableTxnMarker",
    producer_id=INT64,
    producer_epoch=INT16,
    transaction_result=BOOL,
    topics=[struct("WritableTxnMarkerTopic", name=STRING, partition_indexes=[INT32])],
    coordinator_epoch=INT32,
)
_MARKED = struct("WritableTxnMarkerPartitionResult", partition_index=INT32, error_code=ERROR)
_MARKER_RESULT = struct(
    "WritableTxnMarkerResult",
    producer_id=INT64,
    topics=[struct("WritableTxnMarkerTopicResult", name=STRING, partitions=[_MARKED])],
)
WRITE_TXN_MARKERS_REQUEST_0 = struct("WriteTxnMarkersRequest", markers=[_MARKER])
WRITE_TXN_MARKERS_ANSWER_0 = struct("WriteTxnMarkersResponse", markers=[_MARKER_RESULT])
