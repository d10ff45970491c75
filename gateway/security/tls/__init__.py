"""TLS of the server, and the users that certificates of clients name."""
