"""What goes wrong in a client; a wrong setting is ``storage``'s InvalidConfigError, as everywhere."""

from __future__ import annotations

from ..storage import LogStoreError


class ClientError(LogStoreError):
    """Base of the errors of ``clients``."""
