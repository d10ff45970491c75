"""Formats a dump: turns columns into lines, in the layouts that Kafka's releases print, or as JSON.

A table is a mapping from column name to one value per row. A :class:`Line` defines which columns a line shows and with
which text, so a layout is data: releases differ by rows in the tables below.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .brokers import KRAFT_LABELS
from .jackson import json_text

Columns = Mapping[str, Sequence[Any]]
Text = Callable[[Any], str]

_BOOL = {True: "true", False: "false"}.__getitem__
_TIMESTAMP_TYPE = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}.__getitem__


def _optional_long(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _option(value: int | None) -> str:
    return "None" if value is None else f"Some({value})"


def _crc_or_null(value: int | None) -> str:
    return "null" if value is None else str(value)


def _key(value: str | None) -> str:
    return "" if value is None else " key: " + value


def _payload(value: str | None) -> str:
    return "" if value is None else " payload: " + value


def _control_with(labels: Mapping[str, str]) -> Text:
    """Returns the text function for control records; ``labels``: those whose content is shown, not only the type."""

    def text(fields: Mapping[str, object] | None) -> str:
        for name in labels.keys() & (fields or {}).keys():
            return f" {labels[name]}{json_text((fields or {})[name])}"
        return "".join(f" {name}: {value}" for name, value in (fields or {}).items() if name in _CONTROL_NAMES)

    return text


_CONTROL_NAMES = frozenset(("endTxnMarker", "coordinatorEpoch", "controlType"))
_LABELS_3_9 = {name: f"{name} " for name in KRAFT_LABELS.values() if name != "LeaderChange"}


class Part(NamedTuple):
    """One column in a line: the ``%`` template for a value, the column's name, and how its values become text."""

    template: str
    column: str
    text: Text | None = None  # None: the template formats the value itself


class Line:
    """A kind of line: its parts in order."""

    def __init__(self, *parts: Part) -> None:
        self.parts = parts

    def format(self, columns: Columns) -> list[str]:
        """Returns one line per row. A value that is equal in all rows, as in most batches, is formatted only once."""
        template, texts = "", []
        for part in self.parts:
            values = columns[part.column]
            if _are_alike(values):
                value = values[0] if part.text is None else part.text(values[0])
                template += (part.template % value).replace("%", "%%")
            else:
                template += part.template
                texts.append(values if part.text is None else map(part.text, values))
        if not texts:
            return [template % ()] * len(columns[self.parts[0].column])
        return [template % row for row in zip(*texts, strict=True)]


def _are_alike(values: Sequence[Any]) -> bool:
    return len(values) > 0 and values[0] == values[-1] and values.count(values[0]) == len(values)


def _parts(*parts: tuple[str, str] | tuple[str, str, Text]) -> tuple[Part, ...]:
    return tuple(Part(*part) for part in parts)


_BATCH_V2 = _parts(
    ("baseOffset: %d", "baseOffset"),
    (" lastOffset: %d", "lastOffset"),
    (" count: %d", "count"),
    (" baseSequence: %d", "baseSequence"),
    (" lastSequence: %d", "lastSequence"),
    (" producerId: %d", "producerId"),
    (" producerEpoch: %d", "producerEpoch"),
    (" partitionLeaderEpoch: %d", "partitionLeaderEpoch"),
    (" isTransactional: %s", "isTransactional", _BOOL),
    (" isControl: %s", "isControl", _BOOL),
)
_HORIZON = _parts((" deleteHorizonMs: %s", "deleteHorizonMs", _optional_long))
_BATCH_LEGACY = _parts(("offset: %d", "lastOffset"))
_POSITION = _parts(
    (" position: %d", "position"),
    (" %s", "timestampType", _TIMESTAMP_TYPE),
    (": %d", "maxTimestamp"),
    (" size: %d", "size"),
    (" magic: %d", "magic"),
)
_CODEC = _parts((" compresscodec: %s", "compresscodec"))
_CODEC_UPPER = _parts((" compresscodec: %s", "compresscodec", str.upper))
_CHECKSUM = _parts((" crc: %d", "crc"), (" isvalid: %s", "isvalid", _BOOL))

_RECORD = _parts(
    ("| offset: %d", "offset"),
    (" %s", "timestampType", _TIMESTAMP_TYPE),
    (": %d", "timestamp"),
    (" keySize: %d", "keySize"),
    (" valueSize: %d", "valueSize"),
)
_RECORD_LOWER_CASE = _parts(
    ("| offset: %d", "offset"),
    (" %s", "timestampType", _TIMESTAMP_TYPE),
    (": %d", "timestamp"),
    (" keysize: %d", "keySize"),
    (" valuesize: %d", "valueSize"),
)
_SEQUENCE = _parts((" sequence: %d", "sequence"), (" headerKeys: [%s]", "headerKeys", ",".join))
# The unmatched brace is part of Kafka's text.
_RECORD_CHECKSUM = _parts((" isValid: %s", "isValid", _BOOL), (" crc: %d}", "crc"))
_RECORD_CHECKSUM_4 = _parts((" isValid: %s", "isValid", _BOOL), (" crc: %d", "crc"))
_RECORD_CHECKSUM_LAST = _parts((" crc: %d", "crc"), (" isvalid: %s", "isValid", _BOOL))


def _contents(control: Text) -> tuple[Part, ...]:
    return _parts(("%s", "control", control), ("%s", "key", _key), ("%s", "payload", _payload))


_CONTENTS = _contents(_control_with({}))
_CONTENTS_3_9 = _contents(_control_with(_LABELS_3_9))
_CONTENTS_4 = _contents(_control_with({"LeaderChange": "LeaderChange: ", **_LABELS_3_9}))

# 2.8 repeats much of the batch in each record.
_RECORD_2_8 = _parts(
    ("| offset: %d", "offset"),
    (" isValid: %s", "isValid", _BOOL),
    (" crc: %s", "crc", _crc_or_null),
    (" keySize: %d", "keySize"),
    (" valueSize: %d", "valueSize"),
    (" %s", "timestampType", _TIMESTAMP_TYPE),
    (": %d", "timestamp"),
    (" baseOffset: %d", "batch.baseOffset"),
    (" lastOffset: %d", "batch.lastOffset"),
    (" baseSequence: %d", "batch.baseSequence"),
    (" lastSequence: %d", "batch.lastSequence"),
    (" producerEpoch: %d", "batch.producerEpoch"),
    (" partitionLeaderEpoch: %d", "batch.partitionLeaderEpoch"),
    (" batchSize: %d", "batch.size"),
    (" magic: %d", "batch.magic"),
    (" compressType: %s", "batch.compresscodec", str.upper),
    (" position: %d", "batch.position"),
)

_PRODUCER = _parts(
    ("producerId: %d", "producerId"),
    (" producerEpoch: %d", "producerEpoch"),
    (" coordinatorEpoch: %d", "coordinatorEpoch"),
)
_LAST_TIMESTAMP = _parts((" lastTimestamp: %d ", "lastTimestamp"))
_LAST_TIMESTAMP_4 = _parts((" lastTimestamp: %d", "lastTimestamp"))  # 4.0 on: no blank after it
_LAST_BATCH = _parts(
    ("firstSequence: %d", "firstSequence"),
    (" lastSequence: %d", "lastSequence"),
    (" lastOffset: %d", "lastOffset"),
    (" offsetDelta: %d", "offsetDelta"),
    (" timestamp: %d", "timestamp"),
)
_OPEN_TXN = _parts((" currentTxnFirstOffset: %s", "currentTxnFirstOffset", _optional_long))
_OPEN_TXN_OPTION = _parts((" currentTxnFirstOffset: %s ", "currentTxnFirstOffset", _option))

_SIDECARS = {
    "offset entry": Line(*_parts(("offset: %d", "offset"), (" position: %d", "position"))),
    "time entry": Line(*_parts(("timestamp: %d", "timestamp"), (" offset: %d", "offset"))),
    "aborted transaction": Line(
        *_parts(
            ("version: %d", "version"),
            (" producerId: %d", "producerId"),
            (" firstOffset: %d", "firstOffset"),
            (" lastOffset: %d", "lastOffset"),
            (" lastStableOffset: %d", "lastStableOffset"),
        )
    ),
}
_MODERN_PRODUCERS = {
    "producer": Line(*_PRODUCER, *_OPEN_TXN, *_LAST_TIMESTAMP, *_LAST_BATCH),
    "producer without batch": Line(*_PRODUCER, *_OPEN_TXN, *_LAST_TIMESTAMP),
}
_PRODUCERS_4 = {
    **_MODERN_PRODUCERS,
    "producer without batch": Line(*_PRODUCER, *_OPEN_TXN, *_LAST_TIMESTAMP_4),
}
_OLD_PRODUCERS = {
    "producer": Line(*_PRODUCER, *_OPEN_TXN_OPTION, *_LAST_BATCH),
    "producer without batch": Line(*_PRODUCER, *_OPEN_TXN_OPTION),
}


@dataclass(frozen=True)
class TextLayout:
    """The lines of one release of Kafka, by kind."""

    starting_offset: str
    kinds: Mapping[str, Line]
    repeats_batch: bool = False  # record lines show columns of their batch, named "batch.<column>"
    counts_from_zero: bool = False  # reports a gap before the first record unless its offset is 0
    bars_payloads: bool = False  # without metadata, a payload without a key begins with a bar

    def lines(self, kind: str, columns: Columns) -> list[str]:
        """Returns one line of this kind per row of ``columns``."""
        return self.kinds[kind].format(columns)

    def note(self, text: str, **_fields: object) -> str:
        """Returns a line that is not about a row, such as the one that begins a file."""
        return text

    def contents_only(self, columns: Columns) -> list[str]:
        """Returns lines with only the key and payload of records, for ``--skip-record-metadata``."""
        return [self._content(*pair) for pair in zip(columns["key"], columns["payload"], strict=True)]

    def _content(self, key: str | None, payload: str | None) -> str:
        bar = "|" if key is not None or (self.bars_payloads and payload is not None) else ""
        return bar + _key(key) + _payload(payload)


class JsonLayout:
    """One JSON object per line; ``kind`` is the kind of line, the other names are those of Kafka's text."""

    starting_offset = "Log starting offset: %d"
    repeats_batch = False
    counts_from_zero = False

    def lines(self, kind: str, columns: Columns) -> list[str]:
        names = [name for name in columns if "." not in name]
        return [
            self._object(kind, zip(names, row, strict=True)) for row in zip(*(columns[n] for n in names), strict=True)
        ]

    def note(self, text: str, **fields: object) -> str:
        return self._object("note", {"text": text, **fields}.items())

    def contents_only(self, columns: Columns) -> list[str]:
        return self.lines("record", {name: columns[name] for name in ("key", "payload")})

    def _object(self, kind: str, pairs: Iterable[tuple[str, object]]) -> str:
        known: dict[str, object] = {"kind": kind}
        for name, value in pairs:
            if name == "timestampType" and isinstance(value, int):
                known[name] = _TIMESTAMP_TYPE(value)
            elif name != "control":
                known[name] = value
            elif isinstance(value, Mapping):
                known.update(value)
        return json.dumps(known, ensure_ascii=False, separators=(",", ":"))


Layout = TextLayout | JsonLayout


def _batches(horizon: tuple[Part, ...], codec: tuple[Part, ...]) -> dict[str, Line]:
    return {
        "batch": Line(*_BATCH_V2, *horizon, *_POSITION, *codec, *_CHECKSUM),
        "legacy batch": Line(*_BATCH_LEGACY, *_POSITION, *codec, *_CHECKSUM),
    }


def _records(checksum: tuple[Part, ...], contents: tuple[Part, ...]) -> dict[str, Line]:
    return {
        "record": Line(*_RECORD, *_SEQUENCE, *contents),
        "legacy record": Line(*_RECORD, *checksum, *contents),
    }


_RECORDS_3_0 = _records(_RECORD_CHECKSUM, _CONTENTS)
_RECORDS_3_9 = _records(_RECORD_CHECKSUM, _CONTENTS_3_9)
_RECORDS_4 = _records(_RECORD_CHECKSUM_4, _CONTENTS_4)
_RECORDS_2_8 = {
    "record": Line(*_RECORD_2_8, *_SEQUENCE, *_CONTENTS),
    "legacy record": Line(*_RECORD_2_8, *_RECORD_CHECKSUM_LAST, *_CONTENTS),
}
_OLD_RECORDS = {
    "record": Line(*_RECORD_LOWER_CASE, *_SEQUENCE, *_CONTENTS),
    "legacy record": Line(*_RECORD_LOWER_CASE, *_RECORD_CHECKSUM_LAST, *_CONTENTS),
}
_START, _OLD_START = "Log starting offset: %d", "Starting offset: %d"

LAYOUTS: Mapping[str, Layout] = {
    "kafka": TextLayout(_START, {**_batches(_HORIZON, _CODEC), **_RECORDS_3_9, **_MODERN_PRODUCERS, **_SIDECARS}),
    "4.0": TextLayout(
        _START,
        {**_batches(_HORIZON, _CODEC), **_RECORDS_4, **_PRODUCERS_4, **_SIDECARS},
        counts_from_zero=True,
        bars_payloads=True,
    ),
    "3.0": TextLayout(_OLD_START, {**_batches((), _CODEC), **_RECORDS_3_0, **_MODERN_PRODUCERS, **_SIDECARS}),
    "2.8": TextLayout(
        _OLD_START, {**_batches((), _CODEC_UPPER), **_RECORDS_2_8, **_OLD_PRODUCERS, **_SIDECARS}, repeats_batch=True
    ),
    "legacy": TextLayout(_OLD_START, {**_batches((), _CODEC_UPPER), **_OLD_RECORDS, **_OLD_PRODUCERS, **_SIDECARS}),
    "json": JsonLayout(),
}
