"""The ends of turns: a log directory."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..figures import Figures
from ..partitions.appender import Appender
from ..partitions.appending import Appending
from ..partitions.file_partition import FilePartition
from .appends import End
from .transactions import OpenTransactions
from .writing import TurnWrites


def end_of(appender: Appending, figures: Figures, transactions: OpenTransactions) -> End[Any]:
    """Returns the end to which an appender appends."""
    assert isinstance(appender, Appender)
    writes = partial(TurnWrites, appender=appender, figures=figures, transactions=transactions)
    return End(FilePartition, writes, takes_large=True)
