"""Maintenance with Airflow: set the paths to yours, and put this file into Airflow's dags folder.

A task fails if its command's exit code is 3 (a log is damaged), 2 (wrong usage) or 1 (any other problem), and is tried
again only after 1; the task's log has the report.
"""

from datetime import datetime, timedelta
from typing import Any

from airflow import DAG
from airflow.exceptions import AirflowFailException, AirflowSkipException

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


class CommitlogOperator(BashOperator):  # type: ignore[misc]
    """Runs a command; after the exit codes 2 and 3 a retry would not help, so the task fails at once."""

    def execute(self, context: Any) -> Any:
        try:
            return super().execute(context)
        except AirflowSkipException as error:  # of skip_on_exit_code, which by itself would not count as a failure
            raise AirflowFailException("the log is damaged, or the command's usage is wrong: see above") from error


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
        line = f"{COMMITLOG} {command} --log-dir {LOG_DIR} {options}"
        CommitlogOperator(task_id=command, bash_command=line, skip_on_exit_code=[2, 3])
    globals()[name] = dag
