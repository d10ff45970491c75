"""A topic as a Delta table, and the changes of a table as a topic."""
