"""open_target: the target that a producer's settings name."""

from __future__ import annotations

from collections.abc import Callable

from ....registry import Registry
from ....storage import Clock, InvalidConfigError
from ..settings import ProducerConfig, Wire
from .port import Target


def open_target(
    config: ProducerConfig, clock: Clock, registry: Registry | None, report_lost: Callable[[int, Exception], None]
) -> Target:
    """Opens a target. ``report_lost``: called, in any thread, with the number of messages that are lost, and why.

    Raises InvalidConfigError if a library that the target needs is missing, and what opening the target raises.
    """
    if config.wire is Wire.LOG_DIRECTORY:
        from .log_directory import LogDirectoryTarget  # noqa: PLC0415  the others need no log

        return LogDirectoryTarget(config.log_dir, clock)
    if config.wire is Wire.BOOTSTRAP:
        try:
            from .todays_wire import TodaysWireTarget  # noqa: PLC0415  needs the extra
        except ImportError as error:
            raise InvalidConfigError(
                f"bootstrap.servers: {error}: install the extra, pip install 'spark-commitlog[clients]'"
            ) from error
        return TodaysWireTarget(config, clock, report_lost)
    raise NotImplementedError
