"""JSON values by the rules of Spark's from_json: whole columns quickly, single values with their errors."""
