"""Maintenance with Airflow: set the paths to yours, and put this file into Airflow's dags folder.

A task fails if its job's exit code is 3 (a log is damaged), 2 (wrong usage) or 1 (any other problem); the task's
log has the report.
"""

from datetime import datetime, timedelta

from airflow import DAG

try:
    from airflow.providers.standard.operators.bash import BashOperator  # Airflow 3
except ImportError:
    from airflow.operators.bash import BashOperator

HOME = "/opt/spark-commitlog"
LOG_DIR = "/data/log"
SUBMIT = ".venv/bin/spark-submit"

JOBS = {  # by DAG: the schedule, the job and its options
    "commitlog_retain": ("7 * * * *", "retain.py", "--wait --config log.retention.check.interval.ms=3600000"),
    "commitlog_compact": ("27 2 * * *", "compact.py", "--wait"),
    "commitlog_verify": ("47 3 * * 0", "verify.py", ""),
}

for name, (schedule, job, options) in JOBS.items():
    with DAG(
        dag_id=name,
        schedule=schedule,
        start_date=datetime(2026, 1, 1),
        catchup=False,  # missed runs are not repeated: the next run makes up for them
        max_active_runs=1,
        default_args={"retries": 1, "retry_delay": timedelta(minutes=10)},
        tags=["commitlog"],
    ) as dag:
        BashOperator(
            task_id=job.removesuffix(".py"),
            bash_command=f"cd {HOME} && {SUBMIT} jobs/{job} --log-dir {LOG_DIR} {options}",
            env={"SPARK_CONF_DIR": f"{HOME}/conf", "PYSPARK_PYTHON": f"{HOME}/.venv/bin/python"},
            append_env=True,
        )
    globals()[name] = dag
