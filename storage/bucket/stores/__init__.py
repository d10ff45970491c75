"""Object stores: the port, its clients, retries, and the check of a store."""
