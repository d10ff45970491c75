"""Maintenance by Airflow: put this file into its dags folder, once the paths are yours.

A task fails by the exit code of its job: 2 where a log is damaged, 1 where anything else is wrong; the log of the task
has the report.
"""

from datetime import datetime, timedelta

from airflow import DAG

try:
    from airflow.providers.standard.operators.bash import BashOperator  # Airflow 3
except ImportError:
    from airflow.operators.bash import BashOperator

HOME = "/opt/spark-commitlog"
LOG_DIR = "/data/log"
SUBMIT = ".venv/bin/spark-submit --conf spark.jars.packages="

JOBS = {  # when, which job, and its options
    "commitlog_retain": ("7 * * * *", "retain.py", "--wait --config log.retention.check.interval.ms=3600000"),
    "commitlog_compact": ("27 2 * * *", "compact.py", "--wait"),
    "commitlog_verify": ("47 3 * * 0", "verify.py", ""),
}

for name, (schedule, job, options) in JOBS.items():
    with DAG(
        dag_id=name,
        schedule=schedule,
        start_date=datetime(2026, 1, 1),
        catchup=False,  # maintenance that was missed is not made up for: the next run does it all
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
