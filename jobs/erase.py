"""Erases records: ``spark-submit jobs/erase.py --log-dir DIR --topics T --keys-file F --reason R``.

One task per log. ``--keys-file`` names a file with a key on each line; ``--where SQL``, in its place, is a condition as
of commitlog find. ``--reason`` says why. With ``--check CERTIFICATE``, it erases nothing, but searches again for what
the certificate states is erased. A broker must be stopped. Exit code 0: all is well, 3: a log is damaged and was not
changed, 2: wrong usage, 1: anything else (locked, unknown topic, disk, records that are there again).
"""

from __future__ import annotations

import sys
from argparse import Namespace
from functools import partial
from typing import TYPE_CHECKING

from pyspark_commitlog.pipeline.job.command_line import arguments
from pyspark_commitlog.pipeline.job.stderr import errors_apart
from pyspark_commitlog.pipeline.maintenance.run import maintain
from pyspark_commitlog.storage import (
    AskedKeys,
    Erasure,
    ErasureClaim,
    InvalidConfigError,
    LogStoreError,
    Operation,
    SystemClock,
    certificate_name,
    check_erased_partitions,
    erase_partitions,
)

if TYPE_CHECKING:
    from pyspark_commitlog.arrow.choice import SqlChoice


def main() -> int:
    parser = arguments(__doc__, "keys_file", "where", "keys_as", "reason", "certificate", "with_keys", "check")
    with errors_apart():
        options = parser.parse_args()
        try:
            operation = _check(options) if options.check else _erase(options)
        except (LogStoreError, OSError) as error:
            print(f"erasure: {error}", file=sys.stderr)
            return 2 if isinstance(error, InvalidConfigError) else 1
        return maintain("erasure", options, operation)


def _check(options: Namespace) -> Operation:
    claim = ErasureClaim.read(options.check)
    options.topics = options.topics or [*claim.topics]
    return partial(check_erased_partitions, claim=claim)


def _erase(options: Namespace) -> Operation:
    if not options.topics or (options.keys_file is None) == (options.where is None) or options.reason is None:
        raise InvalidConfigError(
            "give --topics, --keys-file and --reason, or --where in the place of --keys-file, or --check CERTIFICATE"
        )
    path = options.certificate or certificate_name(SystemClock().now_ms())
    by_keys = options.where is None
    records = AskedKeys.read(options.keys_file, options.keys_as) if by_keys else _chosen_by(options.where)
    asked = Erasure(records, options.reason, tuple(options.topics), path, options.with_keys)
    return partial(erase_partitions, asked=asked)


def _chosen_by(condition: str) -> SqlChoice:
    from pyspark_commitlog.arrow.choice import SqlChoice  # noqa: PLC0415  needs pyarrow

    return SqlChoice(condition)


if __name__ == "__main__":
    sys.exit(main())
