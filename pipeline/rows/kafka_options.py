"""Options of Spark's Kafka source and sink that have no effect here, because they are for talking to brokers.

They are accepted, and a single notice says that they change nothing. Names are compared ignoring case, as in Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from functools import cache

from ...storage import InvalidConfigError, did_you_mean

KAFKAS = "kafka."  # the prefix of a consumer's or producer's settings
# Options of Spark's Kafka source that say how to talk to brokers.
BROKERS = ("fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs", "groupIdPrefix")
# Options that Spark reads itself and passes to every source and sink as well.
_SPARKS = ("checkpointLocation", "queryName", "outputMode", "triggerInterval")

logger = logging.getLogger(__name__)


def check_names(options: Iterable[str], ours: Collection[str], user: str, *passed: str) -> None:
    """Raises InvalidConfigError for an option that is neither in ``ours`` or ``passed`` nor one of Kafka or Spark.

    ``user`` names, in the message, the part of this package that has the options ``ours``.
    """
    known = {name.lower() for name in (*ours, *BROKERS, *_SPARKS, *passed)}
    for name in options:
        if name.lower() not in known and not name.lower().startswith(KAFKAS):
            hint = did_you_mean(name, ours)
            raise InvalidConfigError(f"unknown option {name!r}{hint}; {user} knows {', '.join(ours)}")


def notice_of(unused: Iterable[str]) -> list[str]:
    """Returns a list with one notice that these options change nothing; [] if there are no such options."""
    names = ", ".join(sorted(unused))
    return [f"options that only a broker needs change nothing here: {names}"] if names else []


@cache
def log_once(notice: str) -> None:
    """Logs a notice once per process."""
    logger.warning(notice)
