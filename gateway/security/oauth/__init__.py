"""Logins by OAUTHBEARER (RFC 7628): JWTs, and the keys of those who sign them.

``exchange`` is one login, ``tokens`` says what a token must have, ``keys`` reads and refreshes the keys. PyJWT, of the
extra ``oauth``, checks signatures and claims.
"""
