"""Records: pages of them, one with all of its parts, and a part as it is stored."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from ...storage import ALL_TIMES, Isolation, LogReader, Timespan, TopicPartition, UnknownTopicOrPartitionError
from ..browser import ISOLATIONS, Browser, chosen_in, number_in, time_in
from ..decoding import FORMATS, Decoder
from ..logs import OpenLog
from ..records import Asked, Record, RecordPages
from .partition import partition_in

LIMITS = {str(each): each for each in (50, 10, 20, 100, 200)}
RECORD_BYTES_MAX = 1 << 20  # bytes of a part that the page of a record shows
RECORD_CHARS_MAX = 200_000
WHOLE_BYTES = 2**31  # a part is stored whole in less


def records(browser: Browser, request: Request) -> Response:
    """Shows a page of records."""
    query, key = request.query_params, partition_in(request.path_params)
    asked = _asked(query)
    decoders = browser.decoder(query, "key"), browser.decoder(query, "value")
    with browser.logs.open() as log, _opened(log, key) as reader:
        found = RecordPages(reader).page(asked)
        bounds = reader.log_start_offset, reader.last_stable_offset, reader.log_end_offset
    return browser.render(
        "records.html",
        query,
        key=key,
        asked=asked,
        found=found,
        bounds=bounds,
        end=bounds[1] if asked.isolation is Isolation.READ_COMMITTED else bounds[2],
        show_key=decoders[0],
        show_value=decoders[1],
        formats=FORMATS,
        isolations=list(ISOLATIONS),
        limits=sorted(LIMITS.values()),
        has_times=asked.times != ALL_TIMES,
    )


def _asked(query: Mapping[str, str]) -> Asked:
    since, until = time_in(query, "since"), time_in(query, "until")
    times = Timespan(ALL_TIMES.first if since is None else since, ALL_TIMES.last if until is None else until)
    limit, isolation = chosen_in(query, "limit", LIMITS), chosen_in(query, "isolation", ISOLATIONS)
    return Asked(number_in(query, "offset"), number_in(query, "before"), times, limit, isolation)


def record(browser: Browser, request: Request) -> Response:
    """Shows one record with all of its parts, each up to a limit."""
    query, key, offset = request.query_params, partition_in(request.path_params), request.path_params["offset"]
    with browser.logs.open() as log, _opened(log, key) as reader:
        found = _record(reader, key, offset, RECORD_BYTES_MAX)
    show = {part: _whole(browser, query, part) for part in ("key", "value")}
    header = Decoder("auto", None, chars_max=RECORD_CHARS_MAX)
    return browser.render("record.html", query, key=key, record=found, show=show, show_header=header, formats=FORMATS)


def _whole(browser: Browser, query: Mapping[str, str], part: str) -> Decoder:
    return browser.decoder(query, part, chars_max=RECORD_CHARS_MAX, whole=True)


def part(browser: Browser, request: Request) -> Response:
    """Returns the bytes of a key or value as a file to save, so that no browser shows them as a page."""
    key, offset, name = partition_in(request.path_params), request.path_params["offset"], request.path_params["part"]
    with browser.logs.open() as log, _opened(log, key) as reader:
        found = _record(reader, key, offset, WHOLE_BYTES)
    data = {"key": found.key, "value": found.value}.get(name)
    if data is None or data.data is None:
        raise UnknownTopicOrPartitionError(f"the record at offset {offset} of {key} has no {name}: it is null")
    file = f"{key.topic}-{key.partition}-{offset}.{name}"
    disposition = {"Content-Disposition": f'attachment; filename="{file}"'}
    return Response(data.data, media_type="application/octet-stream", headers=disposition)


def _record(reader: LogReader, key: TopicPartition, offset: int, bytes_max: int) -> Record:
    found = RecordPages(reader).one(offset, bytes_max)
    if found is None:
        raise UnknownTopicOrPartitionError(
            f"{key.topic}-{key.partition} has no record at offset {offset}: compaction or retention removed it, or a "
            "transaction's marker is there"
        )
    return found


def _opened(log: OpenLog, key: TopicPartition) -> LogReader:
    return log.manager.open_reader(*key, reports_remote=False)
