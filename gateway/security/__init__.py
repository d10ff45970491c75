"""Who clients are: TLS, logins by SASL, and the file of users.

:class:`Security` holds what a listener asks of its clients, and makes a :class:`Session` for each connection.
``scram`` and ``plain`` are the mechanisms; ``users`` is the file that ``commitlog users`` writes; ``certificates``
makes the settings of TLS. No message of an error or log has a password, a proof or what is stored of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .certificates import principal_of as principal_of, tls_context as tls_context
    from .listener import Security as Security, made_security as made_security
    from .scram import HASHES as HASHES, ITERATIONS as ITERATIONS, LoginError as LoginError
    from .session import ANONYMOUS as ANONYMOUS, Session as Session, Stage as Stage
    from .users import UsersFile as UsersFile
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "certificates": ["principal_of", "tls_context"],
            "listener": ["Security", "made_security"],
            "scram": ["HASHES", "ITERATIONS", "LoginError"],
            "session": ["ANONYMOUS", "Session", "Stage"],
            "users": ["UsersFile"],
        },
    )
