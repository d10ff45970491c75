"""The settings of a producer that choose the partitioner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import cast

from ....storage import InvalidConfigError, Option, create_by_name, number_or_text
from .own import Partitioner

PARTITIONER = "partitioner.class"
IGNORE_KEYS = "partitioner.ignore.keys"
OPTION = "partitioner.option."  # before the name of an argument of the class

_LEAST_BYTES = "pyspark_commitlog:LeastBytesPartitioner"


class KafkasPartitioner(Enum):
    """Rules to choose a partition for a row that names none: values of ``partitioner.class``."""

    DEFAULT = "default"  # by murmur2 of the key; rows without a key that are encoded together get the same partition
    ROUND_ROBIN = "RoundRobinPartitioner"  # one partition after the other, whatever the key
    MURMUR2_RANDOM = "murmur2_random"  # librdkafka's name: by murmur2 of the key; each row without a key at random
    RANDOM = "random"  # librdkafka's name: each row at random, whatever the key
    COLUMN = "column"  # no partition is chosen: each row must name its own


@dataclass(frozen=True)
class OwnPartitioner:
    """A partitioner of a user's own: the name and the arguments of its class, which each task loads."""

    path: str  # package.module:Class
    options: tuple[tuple[str, Option], ...] = ()

    def __str__(self) -> str:
        return f"{PARTITIONER} = {self.path}"

    def create(self) -> Partitioner:
        """Raises InvalidConfigError if there is no such class, if it cannot be created, or is no partitioner."""
        created = create_by_name(str(self), self.path, dict(self.options), example=_LEAST_BYTES)
        if not callable(getattr(created, "place", None)):
            raise InvalidConfigError(
                f"{self}: is no partitioner; it needs place(rows, destination), or partition(key, partitions) and the "
                "base class RowPartitioner"
            )
        return cast(Partitioner, created)


_KNOWN = {each.value.lower(): each for each in KafkasPartitioner} | {
    "defaultpartitioner": KafkasPartitioner.DEFAULT,
    "uniformstickypartitioner": KafkasPartitioner.DEFAULT,
}
_WITHOUT_KEYS = {
    KafkasPartitioner.DEFAULT: KafkasPartitioner.ROUND_ROBIN,
    KafkasPartitioner.MURMUR2_RANDOM: KafkasPartitioner.RANDOM,
}


def parse_partitioner(settings: Mapping[str, object]) -> KafkasPartitioner | OwnPartitioner:
    """Parses the name of a partitioner of Kafka, with or without package, or of a user's class, which is loaded.

    Raises InvalidConfigError for any other name, for a class that cannot be created, and for ``partitioner.option.…``
    without a class.
    """
    text = str(settings.get(PARTITIONER, KafkasPartitioner.DEFAULT.value))
    options = {
        name.removeprefix(OPTION): number_or_text(str(value))
        for name, value in settings.items()
        if name.startswith(OPTION)
    }
    ignores_keys = _ignores_keys(settings)  # has no effect on a user's class, as in Kafka
    name = text.rsplit(".", 1)[-1].lower()
    if name == "leastbytespartitioner":
        text = _LEAST_BYTES
    if ":" in text:
        own = OwnPartitioner(text, tuple(sorted(options.items())))
        own.create()  # raises
        return own
    if name not in _KNOWN:
        listed = ", ".join(each.value for each in KafkasPartitioner)
        raise InvalidConfigError(
            f"{PARTITIONER} = {text!r}: must be one of {listed}, LeastBytesPartitioner, or a class of your own as "
            "package.module:Class"
        )
    if options:
        given = ", ".join(OPTION + name for name in options)
        raise InvalidConfigError(f"{given}: needs a {PARTITIONER} of the form package.module:Class, not {text!r}")
    return _WITHOUT_KEYS.get(_KNOWN[name], _KNOWN[name]) if ignores_keys else _KNOWN[name]


def _ignores_keys(settings: Mapping[str, object]) -> bool:
    text = str(settings.get(IGNORE_KEYS, "false")).lower()
    if text not in ("true", "false"):
        raise InvalidConfigError(f"{IGNORE_KEYS} = {text!r}: must be true or false")
    return text == "true"
