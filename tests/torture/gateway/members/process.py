"""A member of a group, in a process of its own: it notes what it does, and when, in a file.

A note is a line, a JSON array such as ``[12.5, "read", "topic", 0, 17, 4]``: the machine's monotonic time in seconds, a
kind, and what it is about (topic, partition, offset, value). Commands are read from its input: ``rest SECONDS`` keeps
it from polling, ``leave`` ends it. What it has read is committed now and then, when nothing is left to read, and
before it gives a partition up. After a fatal error, such as of a static member that comes back before the session of
its dead predecessor is over, it goes on with another consumer.
"""

from __future__ import annotations

import json
import os
import queue
import random
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

MARK_EVERY_S = 0.1
COMMIT_CHANCE = 0.05  # after a record


class Member:
    """A consumer and its notes."""

    def __init__(self, path: str, settings: dict[str, Any], topics: list[str], seed: int) -> None:
        self._notes = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        self._chance = random.Random(seed)
        self._next: dict[tuple[str, int], int] = {}  # what is to be committed
        self._marked_s = 0.0
        self._settings, self._topics = settings, topics
        self._consumer = self._entered()

    def _entered(self) -> Consumer:
        consumer = Consumer(self._settings)
        consumer.subscribe(self._topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        return consumer

    def live(self, commands: queue.Queue[list[str]]) -> None:
        """Reads until it is to leave."""
        while True:
            with suppress(queue.Empty):
                match commands.get_nowait():
                    case ["rest", seconds]:
                        self._rest(float(seconds))
                    case _:
                        break
            self._mark()
            self._read()
        self._consumer.close()
        self._note("end")

    def _read(self) -> None:
        message = self._consumer.poll(MARK_EVERY_S)
        error = None if message is None else message.error()
        if error is not None and error.fatal():
            self._replace_consumer(error.str())
        elif message is not None and error is None:
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            self._note("read", topic, partition, offset, int(message.value()))
            self._next[topic, partition] = offset + 1
        if message is None or self._chance.random() < COMMIT_CHANCE:
            self._commit([*self._next])

    def _replace_consumer(self, reason: str) -> None:
        self._note(f"fatal: {reason}")
        self._consumer.close()
        time.sleep(MARK_EVERY_S)
        self._consumer = self._entered()

    def _rest(self, seconds: float) -> None:
        self._note("rest")
        time.sleep(seconds)
        self._note("go on")

    def _commit(self, places: list[tuple[str, int]]) -> None:
        asked = [TopicPartition(*each, self._next[each]) for each in places if each in self._next]
        if not asked:
            return
        for each in asked:
            self._note("ask", each.topic, each.partition, each.offset)
        try:
            answered = self._consumer.commit(offsets=asked, asynchronous=False)
        except KafkaException as error:
            self._note(f"refused: {error.args[0].name()}")
            return
        for each in answered:
            if each.error is None:
                self._note("committed", each.topic, each.partition, each.offset)
                if self._next.get((each.topic, each.partition)) == each.offset:
                    del self._next[each.topic, each.partition]

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if member_id := consumer.memberid():  # None: it has left in between, as it was not polled
            self._note("known", member_id)
        for each in partitions:
            self._next.pop((each.topic, each.partition), None)  # it begins where its commits ended
            self._note("assigned", each.topic, each.partition)

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        places = [(each.topic, each.partition) for each in partitions]
        self._commit(places)
        self._given_up("revoked", places)

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._given_up("lost", [(each.topic, each.partition) for each in partitions])

    def _given_up(self, kind: str, places: list[tuple[str, int]]) -> None:
        for each in places:
            self._next.pop(each, None)
            self._note(kind, *each)

    def _mark(self) -> None:
        if time.monotonic() - self._marked_s >= MARK_EVERY_S:
            self._marked_s = time.monotonic()
            self._note("at work")

    def _note(self, kind: str, *about: object) -> None:
        os.write(self._notes, json.dumps([time.monotonic(), kind, *about]).encode() + b"\n")


def main() -> None:
    given = json.loads(sys.argv[1])
    commands: queue.Queue[list[str]] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin:
            commands.put(line.split())
        commands.put(["leave"])  # its schedule is no more

    threading.Thread(target=listen, daemon=True).start()
    Member(given["path"], given["settings"], given["topics"], given["seed"]).live(commands)


if __name__ == "__main__":
    main()
