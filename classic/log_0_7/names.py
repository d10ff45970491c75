"""Names of files and directories of 0.7, and of its topics."""

from __future__ import annotations

import re

from ...storage.config import INT64_MAX
from ...storage.errors import InvalidTopicError, NotALogDirError

SUFFIX = ".kafka"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"  # the directory was closed in order; missing while a process writes
LOCK_FILE = ".lock"
TOPIC_LENGTH_MAX = 255  # UTF-16 units

_PARTITION = re.compile(r"[0-9]{1,10}")
_ILLEGAL = re.compile("[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")


def segment_name(start: int) -> str:
    """Returns the name of the file whose first entry is at position ``start``: 20 digits, as Kafka writes it."""
    return f"{start:020}{SUFFIX}"


def segment_start(name: str, directory: str) -> int | None:
    """Returns the start of a file by its name, of any width; None for a file that is no segment.

    Raises NotALogDirError for a name that ends like a segment's, but with no position before it.
    """
    digits = name.removesuffix(SUFFIX)
    if digits == name:
        return None
    if not re.fullmatch(r"[0-9]+", digits) or int(digits) > INT64_MAX:
        raise NotALogDirError(
            f"{directory}/{name}: a segment's name is the position of its first message; move the file elsewhere"
        )
    return int(digits)


def partition_of(name: str) -> tuple[str, int] | None:
    """Returns topic and partition of a directory's name: ``topic-0``, or ``topic_0`` as some documents write it.

    None for another name.
    """
    for separator in "-_":
        topic, found, number = name.rpartition(separator)
        if found and topic and _PARTITION.fullmatch(number) and int(number) < 2**31:
            return topic, int(number)
    return None


def directory_name(topic: str, partition: int) -> str:
    """Returns the name of a partition's directory, as Kafka writes it."""
    return f"{topic}-{partition}"


def check_topic(topic: str) -> None:
    """Raises InvalidTopicError for a name that 0.7 refuses."""
    if not topic:
        raise InvalidTopicError("the name of a topic is empty")
    if len(topic.encode("utf-16-le", "surrogatepass")) // 2 > TOPIC_LENGTH_MAX:
        raise InvalidTopicError(f"the name of a topic has more than {TOPIC_LENGTH_MAX} characters: {topic[:40]}…")
    if topic in (".", "..") or _ILLEGAL.search(topic):
        raise InvalidTopicError(f"{topic!r} is not a name for a topic")
