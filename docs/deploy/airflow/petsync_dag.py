"""petsync every night, as a DAG for Airflow 3: one task for each job of petsync.toml.

petsync has a separate virtual environment, so its packages cannot conflict with Airflow's. The
password of the connection `petsync` is the token.
"""

from __future__ import annotations

import logging
import os
import subprocess
from datetime import timedelta
from pathlib import Path

import pendulum
from airflow.sdk import Connection, dag, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

PETSYNC = Path(os.environ.get("PETSYNC_PROGRAM", "/opt/petsync/bin/petsync"))
CONFIGURATION = Path(os.environ.get("PETSYNC_CONFIGURATION", "/etc/petsync/petsync.toml"))
JOBS = ("catalogue", "arrivals")

AT_WORK = 6
"""Another round of the job has the lock: nothing to do."""
MAY_PASS = (1, 7)
"""An error, or the run was stopped: Airflow tries again, and petsync continues."""


@dag(
    dag_id="petsync",
    schedule="0 4 * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="Europe/Vienna"),
    catchup=False,
    max_active_runs=1,
    max_active_tasks=1,
    default_args={
        "retries": 2,
        "retry_delay": timedelta(minutes=10),
        "execution_timeout": timedelta(hours=2),
    },
    tags=["petsync"],
)
def petsync_nightly() -> None:
    """Run one pass. A missed night needs no pass: each pass does all outstanding work."""

    @task
    def reconcile(job: str) -> None:
        """Run one job, and set the state of the task by its exit code."""
        connection = Connection.get("petsync")
        secrets = {"PETSYNC_TOKEN": connection.password or ""}
        command = [str(PETSYNC), "reconcile", str(CONFIGURATION), "--job", job]
        done = subprocess.run(  # noqa: S603 - the operator sets program and file
            command, env={**os.environ, **secrets}, capture_output=True, text=True, check=False
        )
        logging.getLogger(__name__).info("%s\n%s", done.stdout, done.stderr)
        if done.returncode == AT_WORK:
            raise AirflowSkipException(f"{job}: another round is at work")
        if done.returncode in MAY_PASS:
            raise AirflowException(f"{job}: exit code {done.returncode}")
        if done.returncode:
            raise AirflowFailException(f"{job}: exit code {done.returncode}, see its report")

    # One at a time, without dependencies: a failed job does not stop the others.
    for job in JOBS:
        reconcile.override(task_id=job)(job)


petsync_nightly()
