"""Object stores: the port, the clients behind it, and how patiently it is asked."""
