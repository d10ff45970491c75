"""Authorization: each kind of request is checked against the rules here, before its handler gets it.

A request is refused as a whole, or the topics and groups that the client may not use are removed from it and their
errors are added to the handler's answer, as ``KafkaApis`` does. Before that, ``once`` removes repeated names. Produce
and Fetch, which are read by hand, call :func:`check_written_topic` and :func:`check_topic`. While there are rules, a
kind of request that is missing in the table of ``guards`` is refused. Reserved names of topics are refused here too, to
every client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .guards import (
        ADMIN_CLIENT as ADMIN_CLIENT,
        GUARDS as GUARDS,
        check_topic as check_topic,
        check_transactional_id as check_transactional_id,
        check_written_topic as check_written_topic,
        guard as guard,
        may_describe as may_describe,
        may_write_internal_topics as may_write_internal_topics,
    )
    from .operations import NOT_ASKED as NOT_ASKED, authorized_operations as authorized_operations
    from .repeated import once as once
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "guards": [
                "ADMIN_CLIENT",
                "GUARDS",
                "check_topic",
                "check_transactional_id",
                "check_written_topic",
                "guard",
                "may_describe",
                "may_write_internal_topics",
            ],
            "repeated": ["once"],
            "operations": ["NOT_ASKED", "authorized_operations"],
        },
    )
