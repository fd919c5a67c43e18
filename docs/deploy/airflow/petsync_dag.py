"""petsync every night, as a DAG for Airflow 3: one task for each job of petsync.toml.

petsync stands in a virtual environment of its own, so neither can upset the other's packages. The
secrets come from the connection `petsync`: its password is the token.
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
"""Another round of the job is at work: nothing to do."""
MAY_PASS = (1, 7)
"""An error, or it was stopped: it is tried again, and goes on with what is there."""


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
    """One pass. A night that was missed is not made up for: each pass does all there is to do."""

    @task
    def reconcile(job: str) -> None:
        """Run one job, and say by the task's state what its exit code means."""
        connection = Connection.get("petsync")
        secrets = {"PETSYNC_TOKEN": connection.password or ""}
        command = [str(PETSYNC), "reconcile", str(CONFIGURATION), "--job", job]
        done = subprocess.run(  # noqa: S603 - the program and the file are this house's own
            command, env={**os.environ, **secrets}, capture_output=True, text=True, check=False
        )
        logging.getLogger(__name__).info("%s\n%s", done.stdout, done.stderr)
        if done.returncode == AT_WORK:
            raise AirflowSkipException(f"{job}: another round is at work")
        if done.returncode in MAY_PASS:
            raise AirflowException(f"{job}: exit code {done.returncode}")
        if done.returncode:
            raise AirflowFailException(f"{job}: exit code {done.returncode}, see its report")

    # One at a time, and none depends on another: a job that failed keeps no other from its turn.
    for job in JOBS:
        reconcile.override(task_id=job)(job)


petsync_nightly()
