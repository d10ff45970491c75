"""Errors of the files that the gateway keeps for administrators, without paths of the server."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ....protocol.bodies import ErrorCode
from ....protocol.errors import code_of
from ....storage import InvalidConfigError, PolicyViolationError

Error = tuple[ErrorCode, str | None]
FINE: Error = ErrorCode.none, None

logger = logging.getLogger(__name__)


def error_of(task: Callable[[], object], what: str) -> Error:
    """Runs ``task``, which reads or changes the file of ``what``, such as ACLs; returns the error, or FINE."""
    try:
        task()
    except PolicyViolationError as error:
        return code_of(error), str(error)
    except (OSError, InvalidConfigError) as error:
        logger.error("the %s cannot be read or changed: %s", what, error)
        return ErrorCode.kafka_storage_error, f"the node could not read or write its {what}; its log has the reason"
    return FINE
