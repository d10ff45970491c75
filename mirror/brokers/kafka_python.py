"""The names used from kafka-python, which implements the protocol and comes with the extra ``kafka``.

Its consumer and producer handle records. Mirrors need whole record batches, so they send requests over its connections.
"""

from __future__ import annotations

from ...storage import needs_extra

with needs_extra("mirroring", extra="kafka"):
    from kafka import KafkaAdminClient
    from kafka.admin import ConfigFilterType, ConfigResource, ConfigResourceType
    from kafka.errors import KafkaError, NoError, OffsetOutOfRangeError, TopicAlreadyExistsError, for_code
    from kafka.net.compat import KafkaNetClient
    from kafka.net.manager import KafkaConnectionManager
    from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
    from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest
    from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest, ProduceRequest
    from kafka.structs import OffsetAndMetadata, TopicPartition as KafkaPartition

__all__ = [
    "AddPartitionsToTxnRequest",
    "ConfigFilterType",
    "ConfigResource",
    "ConfigResourceType",
    "EndTxnRequest",
    "FetchRequest",
    "FindCoordinatorRequest",
    "InitProducerIdRequest",
    "KafkaAdminClient",
    "KafkaConnectionManager",
    "KafkaError",
    "KafkaNetClient",
    "KafkaPartition",
    "ListOffsetsRequest",
    "MetadataRequest",
    "NoError",
    "OffsetAndMetadata",
    "OffsetOutOfRangeError",
    "ProduceRequest",
    "TopicAlreadyExistsError",
    "for_code",
]
