"""Logins by OAUTHBEARER (RFC 7628): JWTs, and the keys of their issuers.

``exchange`` is one login, ``tokens`` checks tokens, ``keys`` reads and refreshes the keys. PyJWT, of the extra
``oauth``, checks signatures and claims.
"""
