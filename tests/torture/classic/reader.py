"""Prints what it reads, as Kafka's console consumer: ``reader SETTINGS WHITELIST STREAMS``, until SIGTERM."""

from __future__ import annotations

import json
import signal
import sys
import threading
from types import FrameType

from pyspark_commitlog.classic.streams import ConsumerConnector, KafkaStream
from pyspark_commitlog.classic.topic_filters import Whitelist


def main(settings: str, whitelist: str, streams: str) -> None:
    ended = threading.Event()

    def end(_signal: int, _frame: FrameType | None) -> None:
        ended.set()

    signal.signal(signal.SIGTERM, end)
    with ConsumerConnector.create(json.loads(settings)) as connector:
        made = connector.create_message_streams_by_filter(Whitelist(whitelist), int(streams))
        threads = [threading.Thread(target=show, args=[each]) for each in made]
        for thread in threads:
            thread.start()
        ended.wait()
    for thread in threads:
        thread.join()


def show(stream: KafkaStream[bytes, bytes]) -> None:
    for each in stream:
        sys.stdout.write((each.message or b"").decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
