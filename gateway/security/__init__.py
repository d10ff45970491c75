"""Identity and permissions of clients: TLS, logins by SASL, the files of users and of rules.

:class:`Security` holds the requirements of the listeners, and makes a :class:`Session` for each connection. ``scram``
and ``plain`` are the mechanisms; ``users`` is the file that ``commitlog users`` writes; ``rules`` decides what a user
may do; ``certificates`` sets up TLS. Errors and log messages never contain a password, a proof or a stored credential.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .certificates import principal_of as principal_of, tls_context as tls_context
    from .listener import Security as Security, made_security as made_security
    from .rules import (
        CLUSTER_NAME as CLUSTER_NAME,
        Operation as Operation,
        Resource as Resource,
        Rules as Rules,
        RulesFile as RulesFile,
        parse_rules as parse_rules,
    )
    from .scram import HASHES as HASHES, ITERATIONS as ITERATIONS, LoginError as LoginError
    from .session import ANONYMOUS as ANONYMOUS, Session as Session, Stage as Stage
    from .users import UsersFile as UsersFile
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "certificates": ["principal_of", "tls_context"],
            "listener": ["Security", "made_security"],
            "rules": ["CLUSTER_NAME", "Operation", "Resource", "Rules", "RulesFile", "parse_rules"],
            "scram": ["HASHES", "ITERATIONS", "LoginError"],
            "session": ["ANONYMOUS", "Session", "Stage"],
            "users": ["UsersFile"],
        },
    )
