"""Identity and permissions of clients: TLS, logins by SASL, the files of users and of rules.

:class:`Security` holds the requirements of the listeners, and creates a :class:`Session` for each connection. ``scram``
and ``plain`` are the mechanisms; ``users`` is the file that ``commitlog users`` writes; ``rules`` decides what a user
may do, by the rules in a file and the ACLs in another (``rule_store``); ``oauth`` checks tokens of OAUTHBEARER;
``tls`` sets up TLS, and names users by their certificates. Errors and log
messages never contain a password, a proof or a stored credential.
"""
