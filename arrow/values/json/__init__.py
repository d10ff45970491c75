"""JSON values by the rules of Spark's from_json: columns of usual values quickly, others one by one."""
