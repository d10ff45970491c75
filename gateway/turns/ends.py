"""The ends of turns: a log directory, or a log on an object store."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..figures import Figures
from ..partitions.appender import Appender
from ..partitions.appending import Appending
from ..partitions.bucket.appender import BucketAppender
from ..partitions.bucket.partition import BucketPartition
from ..partitions.file_partition import FilePartition
from .appends import End
from .commits import TurnCommits
from .transactions import OpenTransactions
from .writing import TurnWrites


def end_of(appender: Appending, figures: Figures, transactions: OpenTransactions) -> End[Any]:
    """Returns the end to which an appender appends."""
    if isinstance(appender, BucketAppender):
        begin = partial(TurnCommits, appender=appender, figures=figures)
        return End(BucketPartition, begin, takes_large=False)
    assert isinstance(appender, Appender)
    writes = partial(TurnWrites, appender=appender, figures=figures, transactions=transactions)
    return End(FilePartition, writes, takes_large=True)
