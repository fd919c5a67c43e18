"""The words that people search for and that the page with the answer does not use, or seldom."""

from __future__ import annotations

__all__ = ["WORDS"]

WORDS = {
    "causes.md": "error failed failure rejected",
    "deploy/container.md": "docker podman image",
    "deploy/cron.md": "crontab",
    "deploy/index.md": "schedule scheduler nightly cron",
    "deploy/release.md": "publish sbom",
    "diff.md": "compare comparison difference merge",
    "findings.md": "duplicate duplicates mistake zeros dates validation",
    "forms.md": "gui browser jupyter mouse",
    "history.md": "audit who log report",
    "how-to/failed-rows.md": "retry error errors again resend",
    "rules.md": "validation validate constraint schema pandera check custom",
    "how-to/move-stores.md": "copy migrate migration",
    "how-to/nightly.md": "schedule cron",
    "images.md": "photo photos picture jpeg png",
    "index.md": "install quick start",
    "notifications.md": "email mail slack teams alert message",
    "performance.md": "slow fast speed",
    "plan.md": "preview conflict conflicts delete duplicate duplicates overwrite dry",
    "profiles.md": "compatibility compatible",
    "python.md": "pandas dataframe script api timeout jupyter",
    "reconcile.md": "backup dry two-way sync synchronise synchronize bidirectional",
    "rehearse.md": "preview simulate test",
    "reliability.md": "crash killed power outage resume lost",
    "sandbox.md": "demo test fake",
    "scale.md": "memory huge big large",
    "security.md": "proxy certificate secret secrets",
    "sheets.md": "delete remove add update excel xlsx csv libreoffice google",
    "sign-in.md": "password login token account credentials",
    "tour.md": "install installation beginner start",
    "undo.md": "restore revert rollback",
}
"""The words by page. A page that has a word of the search here comes before all others."""
