"""A page served to a test, what a browser would ask of it, and a log with contents that try to leave their place."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pyspark_commitlog.browse.config import BrowseConfig
from pyspark_commitlog.browse.server import BrowseServer
from pyspark_commitlog.storage import Address, CommittedOffset, GroupOffsets, HeadersColumn, LogManager
from pyspark_commitlog.storage.format.tables import Records
from tests.support.logs import building
from tests.support.logs.directories import directory_with_internal_topics

LONGEST = "t" * 249
SCRIPT = "<script>document.title='taken'</script>\"'><img src=x onerror=document.title='taken'>"
HOSTILE: Mapping[str, bytes] = {
    "a script": SCRIPT.encode(),
    "a script in JSON": b'{"name": "</code><script>document.title=\'taken\'</script>"}',
    "a link": b"javascript:document.title='taken'",
    "a template": b"{{ 7 * 7 }}{% raw %}${7*7}",
    "control characters": b"\x1b[31mred\x07\x08 \r\nnext",
    "zero bytes": b"\0\0\0\0\x05",
    "right to left": "abc\u202egnp.exe \u0627\u0644\u0639\u0631\u0628\u064a\u0629".encode(),
    "no UTF-8": b"\xff\xfe\xc3\x28 text",
    "a surrogate": b"\xed\xa0\x80",
    "deep JSON": b"[" * 100_000 + b"]" * 100_000,
    "broken JSON": b'{"a": 1',
    "numbers of JSON": b'{"large": 12345678901234567890123, "small": 1e-400, "again": 1, "again": 2}',
    "ten megabytes": b'{"filler": "' + b"x" * (10 << 20) + b'"}',
    "ten megabytes of bytes": b"\0\1\2\3" * (10 << 18),
    "empty": b"",
}


HEADERS = ((SCRIPT.encode(), SCRIPT.encode()), (b"\xff", b"\0"), (b"nothing", None), (b"origin", b"web"))


class Answer(NamedTuple):
    """An answer of the page."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def html(self) -> str:
        return self.body.decode()

    @property
    def text(self) -> str:
        """What a person reads: without tags, and each run of blanks as one."""
        bare = re.sub(r"<[^>]*>", " ", re.sub(r"<(title|script|style)\b.*?</\1>", " ", self.html, flags=re.S))
        return " ".join(unescape(bare).split())

    @property
    def links(self) -> dict[str, str]:
        """The addresses of links, by their texts."""
        found = re.findall(r'<a\b[^>]*?href="([^"]*)"[^>]*>(.*?)</a>', self.html, flags=re.S)
        return {" ".join(unescape(re.sub(r"<[^>]*>", "", text)).split()): unescape(to) for to, text in found}


class Visitor:
    """Asks for pages."""

    def __init__(self, address: Address) -> None:
        self.address = address

    def get(self, path: str, method: str = "GET", body: str | None = None, **headers: str) -> Answer:
        """Returns the answer; an underscore in the name of a header stands for a dash."""
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        try:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()


@contextmanager
def visiting(log_dir: str | Path, **settings: object) -> Iterator[Visitor]:
    """Serves the page of a log for the ``with`` block."""
    config = BrowseConfig(str(log_dir), Address("127.0.0.1", 0), **settings)  # type: ignore[arg-type]
    with BrowseServer(config) as server:
        yield Visitor(server.address)


def with_headers(records: Records, *headers: tuple[bytes, bytes | None]) -> Records:
    """The same records, each with these headers."""
    return Records(
        records.offsets,
        records.timestamps,
        records.timestamp_types,
        records.keys,
        records.values,
        HeadersColumn.repeated(headers, len(records)),
    )


def hostile_log(directory: Path) -> str:
    """A log with a topic of each kind, whose names, keys, values, headers and groups are what someone hostile sends.

    ``hostile`` has the values of :data:`HOSTILE`, one a batch, by keys that are their names; ``orders`` has three
    partitions with segments; ``changes`` is compacted; ``payments`` has an aborted and an open transaction.
    """
    path = directory_with_internal_topics(directory)
    with LogManager.open(path) as manager:
        for name, configs in {
            "hostile": {"max.message.bytes": str(20 << 20)},
            "orders": {"segment.bytes": "2000", "retention.ms": "-1"},
            "changes": {"cleanup.policy": "compact", "segment.bytes": "2000"},
            "payments": {},
            LONGEST: {},
        }.items():
            manager.create_topic(name, partitions=3 if name == "orders" else 1, configs=configs)
        for key, value in HOSTILE.items():
            one = building.records([value], keys=[key.encode()])
            manager.open_log("hostile", 0).append_records(with_headers(one, *HEADERS))
        for number in range(60):
            values = [b'{"order": %d, "product": "tea"}' % (number * 5 + each) for each in range(5)]
            keys = [b"customer-%d" % (each * 7 + number) for each in range(5)]
            times = np.arange(5) * 1000 + building.NOW_MS + number * 60_000
            for topic, partition in (("orders", number % 3), ("changes", 0)):
                manager.open_log(topic, partition).append_records(
                    building.records(values, keys=keys, timestamps=times.tolist())
                )
        payments = manager.open_log("payments", 0)
        building.write_transactional(payments, 7, 0, b"kept 1", b"kept 2")
        building.end_transaction(payments, 7, commit=True)
        building.write_transactional(payments, 7, 2, b"withdrawn")
        building.end_transaction(payments, 7, commit=False)
        building.append(payments, b"plain")
        building.write_transactional(payments, 9, 0, b"undecided")
        groups = GroupOffsets(manager)
        groups.commit("etl", {("orders", 0): CommittedOffset(40), ("orders", 1): CommittedOffset(100)})
        groups.commit(SCRIPT + "\x1b[31m/../x", {("orders", 0): CommittedOffset(7)})
    return path
