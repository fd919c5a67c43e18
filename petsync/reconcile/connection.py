"""The store of a job: what the configuration says of it, and nothing else."""

from __future__ import annotations

from pathlib import Path

from petsync.errors import SettingsError
from petsync.reconcile.config.model import Job
from petsync.settings import Settings
from petsync.store import Store, store_of

__all__ = ["connected"]


def connected(job: Job, state: Path) -> Store:
    """The job's store; nothing is sent yet. Raises SettingsError."""
    if not job.url:
        raise SettingsError(
            f"job {job.name} names no service",
            hint=f"Write url at the top of the configuration, or in [jobs.{job.name}].",
        )
    settings = Settings(
        url=job.url,
        profile=job.profile,
        state=state,
        token=job.token,
        api_key=job.api_key,
        client_id=job.client_id,
        client_secret=job.client_secret,
        allow_http=job.allow_http,
        timeout=job.timeout,
        service=job.service,
        columns=job.columns,
        auth=job.auth,
    )
    return store_of(settings)
