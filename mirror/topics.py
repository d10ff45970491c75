"""Which topics are mirrored, and to which partitions their records go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..classic.topic_filters import TopicFilter
from ..classic.upgrade.forwarding import PositionAnswer, forwarded_messages
from ..storage import FetchAnswer, Forwarded, InvalidConfigError, Records, forwarded, forwarded_by, partitions_of
from .progress import PREFIX
from .sources.port import BrokerPartition, SourcePartition
from .targets.port import Taking

KEPT, BY_KEY = "kept", "by-key"


@dataclass(frozen=True)
class TopicChoice:
    """The topics of a mirror, and the settings of those that it creates."""

    filter: TopicFilter
    partitions: str = KEPT  # KEPT: those of the source; BY_KEY: by the hash of the key, as Kafka's producer does it
    configs: Mapping[str, str] = field(default_factory=dict)  # of new topics, instead of the source's
    partition_count: int | None = None  # of new topics; None: as many as in the source

    def __post_init__(self) -> None:
        if self.partitions not in (KEPT, BY_KEY):
            raise InvalidConfigError(f"--partitions is {self.partitions!r}; it must be {KEPT} or {BY_KEY}")
        if self.partitions == KEPT and self.partition_count is not None:
            raise InvalidConfigError(f"--partition-count is only for --partitions {BY_KEY}")

    def allows(self, topic: str) -> bool:
        """Whether a topic is mirrored. Progress topics never are."""
        return not topic.startswith(PREFIX) and self.filter.allows(topic)


class TargetTopic(NamedTuple):
    """A topic of the target that gets records of a source."""

    taking: Taking
    by_key: bool

    def placed(self, source: SourcePartition, answer: FetchAnswer | PositionAnswer) -> Forwarded:
        """Returns the batches for each partition of the target, and the source's next offset.

        A record of a partition that the target does not have goes to the one whose number is the remainder of a
        division by the number of partitions. Raises errors like :func:`forwarded`, and with Kafka 0.7 like
        :func:`forwarded_messages`.
        """
        count, size_max, codec = self.taking
        kept = source.partition % count
        if isinstance(answer, FetchAnswer) and not self.by_key:
            return forwarded(answer, batch_size_max=size_max, codec=codec, share=kept)

        def placing(records: Records) -> npt.NDArray[np.int32]:
            return self._by_key(source, records) if self.by_key else np.full(len(records), kept, dtype=np.int32)

        if isinstance(answer, FetchAnswer):
            return forwarded_by(placing, answer, count=count, batch_size_max=size_max, codec=codec)
        return forwarded_messages(placing, answer, count=count, batch_size_max=size_max, codec=codec)

    def _by_key(self, source: SourcePartition, records: Records) -> npt.NDArray[np.int32]:
        """Returns the target partition of each record.

        Records without a key stay in one partition, to keep their order.
        """
        assert records.keys is not None
        chosen = partitions_of(records.keys, self.taking.partitions)
        chosen[chosen < 0] = number_of(source) % self.taking.partitions
        return chosen


def number_of(source: SourcePartition) -> int:
    """Returns a number that spreads partitions, those of the brokers of Kafka 0.7 too."""
    return source.partition + (source.broker if isinstance(source, BrokerPartition) else 0)
