"""TLS of the server, and the users named by clients' certificates."""
