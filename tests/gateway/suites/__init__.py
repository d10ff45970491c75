"""The integration suites of clients' own projects, run against the gateway and against Kafka 3.9.1: see README.md."""
