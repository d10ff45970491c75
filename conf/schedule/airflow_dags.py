"""Maintenance with Airflow: set the paths to yours, and put this file into Airflow's dags folder.

A task fails if its command's exit code is 3 (a log is damaged), 2 (wrong usage) or 1 (any other problem); the task's
log has the report.
"""

from datetime import datetime, timedelta

from airflow import DAG

try:
    from airflow.providers.standard.operators.bash import BashOperator  # Airflow 3
except ImportError:
    from airflow.operators.bash import BashOperator

COMMITLOG = "/opt/spark-commitlog/.venv/bin/commitlog"
LOG_DIR = "/data/log"

COMMANDS = {  # by DAG: the schedule, the command and its options
    "commitlog_retain": ("7 * * * *", "retain", "--wait --config log.retention.check.interval.ms=3600000"),
    "commitlog_compact": ("27 2 * * *", "compact", "--wait"),
    "commitlog_verify": ("47 3 * * 0", "verify", ""),
}

for name, (schedule, command, options) in COMMANDS.items():
    with DAG(
        dag_id=name,
        schedule=schedule,
        start_date=datetime(2026, 1, 1),
        catchup=False,  # missed runs are not repeated: the next run makes up for them
        max_active_runs=1,
        default_args={"retries": 1, "retry_delay": timedelta(minutes=10)},
        tags=["commitlog"],
    ) as dag:
        BashOperator(task_id=command, bash_command=f"{COMMITLOG} {command} --log-dir {LOG_DIR} {options}")
    globals()[name] = dag
