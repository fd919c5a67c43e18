"""Load petsync.toml: read it, check combinations of options, and build a configuration."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from petsync._display import quote
from petsync._files import EDITABLE, PACKED, READABLE, checked_path, is_folder
from petsync.client.auth.keyring import CredentialStore
from petsync.client.origin import checked_base
from petsync.client.transport import has_client_certificate
from petsync.config.model import (
    INHERITED,
    Configuration,
    ConfigurationFile,
    Job,
    JobOptions,
    JobSchedule,
    Metrics,
    Reports,
    Timetable,
    TopOptions,
)
from petsync.config.read import (
    ConfigDocument,
    ConfigMistake,
    Reader,
    read_document,
    read_top,
    refuse,
)
from petsync.config.syntax import lines_of
from petsync.config.templates import mistakes_in
from petsync.config.values import VARIABLE
from petsync.errors import ConfigurationError
from petsync.profile import ServiceProfile, profile_from
from petsync.settings import (
    OF_THE_URL,
    SIGN_IN_KEYS,
    HiddenEnvironment,
    Secret,
    as_written,
    describe_sign_in,
    find_nearest,
    hide_userinfo,
    is_same_address,
    read_file,
)
from petsync.table.rules import merge_rules
from petsync.trust import is_confirmed

__all__ = ["ENVIRONMENT_TOO", "ENV_FILE_HINT", "NEEDS", "SOURCES", "load", "load_timetable"]


# Load and check a whole petsync.toml.


_NAME = "petsync.toml"
ENV_FILE_HINT = "Variables may also come from --env-file FILE (in Python: environ)."
"""The end of the advice for a variable that is not set."""
_UNLISTED = "A variable in the --env-file needs none of this."
_UNLISTED_NAMED = (
    "A variable that begins with PETSYNC_, or is in the --env-file, needs none of this."
)
_FROM_ENVIRON = ("url", "profile", "state")


def load(
    path: str | Path,
    environ: Mapping[str, str],
    *,
    names: Collection[str] | None = None,
    is_named: bool = True,
) -> Configuration:
    """Return the configuration in the file, or in the folder's petsync.toml.

    It is read with the variables in `environ`. `names` are the variables that `${NAME}` may use;
    None for all. A confirmed file (`petsync trust`) may use all. A file that the user has neither
    named (`is_named`) nor confirmed is refused if it or `environ` (PETSYNC_TOKEN etc.) contains a
    secret, if a sign-in for a job's service is saved, if a job's service gets a client certificate,
    or if a path is outside of the file's folder.

    Raises ConfigurationError. Its `problems` are the mistakes in the file, each with file, line,
    key and suggestion; none shows a secret.
    """
    environ = HiddenEnvironment(environ)
    unlisted_hint = _UNLISTED_NAMED if is_named else _UNLISTED
    reader = Reader(environ, names=names, unset_hint=ENV_FILE_HINT, unlisted_hint=unlisted_hint)
    read = _read_file(path, environ, reader)
    refuse(read.document, reader, [*reader.found, *_check_combined(read)])
    found = _build(read)
    if not (is_named or is_confirmed(read.path, read.document.raw)):
        _refuse_unconfirmed(found, read)
    return found


def _refuse_unconfirmed(found: Configuration, read: _ConfigFile) -> None:
    file = read.document.named
    folder = found.path.parent.resolve()
    paths: list[Path | str | None] = [
        found.state,
        found.report.folder,
        found.log.file,
        found.metrics.textfile,
    ]
    paths += [path for job in found.jobs for path in (job.sheet, job.folder)]
    away = [
        each
        for each in paths
        # An address may be read with the user's credentials for a cloud.
        if each and (isinstance(each, str) or not each.resolve().is_relative_to(folder))
    ]
    signed_in = [
        job.url
        for job in found.jobs
        if job.url
        and CredentialStore(found.state, checked_base(job.url, with_secret=False)).has_entry()
    ]
    certified = any(has_client_certificate(job.url) for job in found.jobs if job.url)
    if found.secrets or signed_in or certified or away:
        does = "decides where secrets go"
        if away:
            does = f"uses {read.reader.as_written(str(away[0]))}"
        quoted = quote(str(file))
        raise ConfigurationError(
            f"{file} {does}, and is not confirmed",
            hint=f"Check the file; then confirm it once (`petsync trust {quoted}`), or name it: "
            f"`petsync reconcile {quoted}`.",
        )


def load_timetable(path: str | Path, environ: Mapping[str, str]) -> Timetable:
    """Return when each job of the file runs.

    An unset variable is a mistake only in a schedule: the scheduler that starts the jobs may set
    the others. If any variable is unset, combinations of options are not checked. Raises
    ConfigurationError for all other mistakes.
    """
    environ = HiddenEnvironment(environ)
    reader = Reader(environ, is_partial=True)
    read = _read_file(path, environ, reader)
    # With options left out, checks of combinations would be wrong.
    combined = [] if read.reader.lacks else _check_combined(read)
    refuse(read.document, read.reader, [*read.reader.found, *combined])
    timed = (JobSchedule(name, job.schedule, job.enabled) for name, job in read.file.jobs.items())
    top = read.document.raw
    keys = {name: name.removeprefix("PETSYNC_").lower() for name in read.variables}
    variables = (name for name, key in keys.items() if top.get(key) != environ[name])
    return Timetable(read.path, tuple(timed), tuple(variables))


class _ConfigFile(NamedTuple):
    """The file that was read; `path` is absolute."""

    document: ConfigDocument
    path: Path
    file: ConfigurationFile
    """The valid options; values from the environment replace those at the top."""
    drafts: list[_Draft]
    reader: Reader
    variables: tuple[str, ...]
    """The variables that replace options at the top."""
    replaced_url: str
    """The address in the file, if PETSYNC_URL names another one, else ""."""


def _read_file(path: str | Path, environ: Mapping[str, str], reader: Reader) -> _ConfigFile:
    given = checked_path(path, "petsync.toml", ConfigurationError)
    document = read_document(given / _NAME if is_folder(given) else given)
    if reader.names is not None and is_confirmed(document.named, document.raw):
        reader.names = None
    file = reader.read(ConfigurationFile, document.raw)
    own = _from_environ(reader, environ)
    is_own = bool(file.url) and is_same_address(file.url, own.get("url", file.url))
    replaced_url = ""
    if environ.get("PETSYNC_URL") and not is_own:
        replaced_url = as_written(hide_userinfo(file.url or ""), reader.in_addresses)
        # The options for signing in to the file's service do not apply to another service.
        usual = {key: TopOptions.model_fields[key].get_default() for key in OF_THE_URL}
        file = file.model_copy(update=usual)
    file = file.model_copy(update=own)
    # Links in the path are kept, because the jobs' paths are relative to it.
    where = Path(os.path.abspath(document.named))  # noqa: PTH100
    drafts = list(
        _make_drafts(document.raw, file, _read_credentials(reader, environ), where.parent, reader)
    )
    variables = tuple(f"PETSYNC_{name.upper()}" for name in own)
    return _ConfigFile(document, where, file, drafts, reader, variables, replaced_url)


def _from_environ(reader: Reader, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of PETSYNC_URL etc., which override the top of the file."""
    texts = {name: environ.get(f"PETSYNC_{name.upper()}", "") for name in _FROM_ENVIRON}
    raw = {name: text.replace("$", "$$") for name, text in texts.items() if text}
    before = len(reader.found)
    reader.is_environment = True
    values = read_top(reader, raw)
    reader.is_environment = False
    reader.found[before:] = [
        each._replace(path=(f"PETSYNC_{each.path[0].upper()}",)) for each in reader.found[before:]
    ]
    if "state" in values:
        # A path in an environment variable is relative to the working directory, as in every
        # command.
        values["state"] = Path.cwd() / values["state"].expanduser()
    return values


def _read_credentials(reader: Reader, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of PETSYNC_TOKEN etc."""
    texts = {name: environ.get(f"PETSYNC_{name.upper()}", "").strip() for name in SIGN_IN_KEYS}
    given = {name: text for name, text in texts.items() if text}
    values: dict[str, Any] = {
        name: text if name == "client_id" else Secret(text) for name, text in given.items()
    }
    reader.secrets += [value for value in values.values() if isinstance(value, Secret)]
    return values


def _check_combined(read: _ConfigFile) -> Iterator[ConfigMistake]:
    for draft in read.drafts:
        for check in _CHECKS:
            yield from check(draft)
    yield from _check_jobs(read.drafts, read.document.raw, read.file)


# A job with defaults from the top of the file, before it becomes a Job.


@dataclass(frozen=True, slots=True)
class _Draft:
    """A job whose combination of options is not checked yet."""

    name: str
    raw: Mapping[str, Any] = field(repr=False)
    """The job's table as written."""
    own: JobOptions
    """The valid options of that table."""
    job: JobOptions
    """`own` with the values from the top of the file and the environment; paths are absolute."""
    home: Path
    """The folder of the file."""
    mode: str
    """The mode, "" if it is missing or invalid."""
    has_url: bool
    """Whether the job or the top names a service, even if the address is invalid."""

    def mistake(self, key: str, message: str, suggestion: str) -> ConfigMistake:
        """Return a mistake in one of the job's options, or in the job if `key` is ""."""
        path = ("jobs", self.name, *([key] if key else []))
        return ConfigMistake(path, message, suggestion)

    def is_filled(self, key: str) -> bool:
        """Return true if the option has a variable; its value must then not be shown."""
        return re.search(VARIABLE, str(self.raw.get(key, ""))) is not None

    @property
    def profile(self) -> ServiceProfile:
        """The service's profile, with the overrides of `[service]`."""
        return profile_from(self.job.profile, self.job.service)

    @property
    def source(self) -> str:
        """`sheet`, `folder` or `query`; "" if none or more than one is given."""
        named = [key for key in ("sheet", "folder", "query") if getattr(self.job, key)]
        return named[0] if len(named) == 1 else ""


def _make_drafts(
    raw: Mapping[str, Any],
    file: ConfigurationFile,
    credentials: Mapping[str, Any],
    folder: Path,
    reader: Reader,
) -> Iterator[_Draft]:
    """Yield a draft of each job of a file in `folder`.

    `credentials` are those of the environment.
    """
    urls = {job.url or file.url for job in file.jobs.values()}
    # The store that the environment's secrets are for: the default one, or the only one.
    home = file.url or (next(iter(urls)) if len(urls) == 1 else "")
    for name, own in file.jobs.items():
        is_home = (own.url or home) == home
        joined = _merge_tables(own, file, credentials if is_home else None, folder)
        mode = "" if ("jobs", name, "mode") in reader.guessed else own.mode
        has_url = bool(joined.url) or "url" in {**raw, **raw["jobs"][name]}
        yield _Draft(name, raw["jobs"][name], own, joined, folder, mode, has_url)


def _merge_tables(
    own: JobOptions, top: TopOptions, credentials: Mapping[str, Any] | None, folder: Path
) -> JobOptions:
    """Return the values of a job; `credentials` is None if they are for another store."""
    joined = {key: getattr(top, key) for key in INHERITED if key not in own.model_fields_set}
    joined["service"] = {**top.service, **own.service}
    # The job's header for a column replaces the top-level header for that column.
    mapped = own.columns
    others = {h: column for h, column in top.columns.items() if column not in mapped.values()}
    joined["columns"] = {**others, **mapped}
    joined["rules"] = merge_rules(top.rules, own.rules)
    if credentials is None and "auth" in joined:
        # The sign-in server of another store must not get this store's secrets.
        joined["auth"] = {}
    if credentials is not None and not own.model_fields_set.intersection(SIGN_IN_KEYS):
        joined |= credentials
    for key in ("sheet", "folder", "query_file"):
        path = getattr(own, key)
        joined[key] = path if isinstance(path, str) else _make_absolute(path, folder)
    return own.model_copy(update=joined)


def _make_absolute(path: Path | None, folder: Path) -> Path | None:
    """Return the path, made absolute; a relative path starts at `folder`."""
    return None if path is None else folder / path.expanduser()


# Mistakes in the combination of a job's options.


SOURCES = ("sheet", "folder", "query", "query_file")
_QUERIES = ("query", "query_file")
NEEDS = {
    "tab": ("sheet", "folder"),
    "encoding": ("sheet", "folder"),
    "files": ("folder",),
    "database": _QUERIES,
    "query": ("database",),
    "query_file": ("database",),
    "client_secret": ("client_id",),
}
"""Options that need another option, each with the options that can be this other one."""
ENVIRONMENT_TOO = {"client_secret": "client_id"}
"""Options of NEEDS, each with the needed option that may come from the environment."""


def _check_source(draft: _Draft) -> Iterator[ConfigMistake]:
    given = [key for key in SOURCES if key in draft.raw]
    if not given:
        yield draft.mistake(
            "",
            "the job has nothing to compare with the store",
            'Write sheet = "catalogue.xlsx", or a folder, or a query.',
        )
    for key in given[1:]:
        yield draft.mistake(
            key,
            f"the job also has {given[0]}, but can have only one of them",
            f"Keep {given[0]} or {key}, and make another job for the other.",
        )


def _check_companions(draft: _Draft) -> Iterator[ConfigMistake]:
    for key, needed in NEEDS.items():
        if key in draft.raw and not any(name in draft.raw for name in needed):
            if key in ENVIRONMENT_TOO and getattr(draft.job, ENVIRONMENT_TOO[key]):
                continue
            names = " or ".join(needed)
            yield draft.mistake(
                key, f"it has no effect without {names}", f"Write {names} too, or remove {key}."
            )


def _check_query_file(draft: _Draft) -> Iterator[ConfigMistake]:
    path = draft.job.query_file
    if path is None:
        return
    try:
        if read_file(path).strip():
            return
        reason = "it is empty"
    except OSError as error:
        reason = (error.strerror or "it cannot be read").lower()
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    yield draft.mistake(
        "query_file",
        f"{path} cannot be used: {reason}",
        "Write the SELECT statement into it, or name the file that contains it.",
    )


def _check_mode(draft: _Draft) -> Iterator[ConfigMistake]:
    for key in _QUERIES:
        if key in draft.raw and draft.mode in _WRITES_SHEET:
            yield draft.mistake(
                key,
                f'mode "{draft.mode}" writes to the sheet, but petsync never writes to a database',
                'Write mode = "push" or mode = "check", or name a sheet.',
            )
    if draft.job.is_in_parts and draft.mode in _WRITES_SHEET:
        yield draft.mistake(
            "mode",
            f'mode "{draft.mode}" writes to the sheet, but petsync never writes to several files',
            'Write mode = "push" or mode = "check", or name a sheet in one file.',
        )
    if "on_conflict" in draft.raw and draft.mode and draft.mode != "two-way":
        yield draft.mistake(
            "on_conflict",
            f'it has no effect in mode "{draft.mode}"',
            'Remove it, or write mode = "two-way".',
        )


def _check_parts(draft: _Draft) -> Iterator[ConfigMistake]:
    """Yield the mistakes in the options of a sheet that is compared in parts."""
    if not draft.job.is_in_parts:
        return
    for key in ("tab", "encoding", "statuses", "tags"):
        if key in draft.raw:
            yield draft.mistake(key, "it cannot apply to a folder or a pattern", f"Remove {key}.")
    if draft.own.match_on and "name" not in draft.own.match_on:
        yield draft.mistake(
            "match_on",
            "rows of a folder or a pattern cannot be matched without the name",
            'Write match_on = ["name"], or remove it.',
        )


_PLAIN = [each for each in READABLE if not each.endswith(PACKED)]


def _check_endings(draft: _Draft) -> Iterator[ConfigMistake]:
    for key in ("sheet", "files"):
        # A name with a variable is shown as written.
        name = str(draft.raw[key] if draft.is_filled(key) else getattr(draft.own, key) or "")
        last = re.split(r"[/\\]", name)[-1]
        ending = last[last.rfind(".") :].casefold() if "." in last else ""
        is_open = key == "files" and ("*" in ending or not ending)
        path = getattr(draft.own, key) or ""
        if not path or is_open:
            continue
        if str(path).casefold().endswith(READABLE):
            is_written = draft.mode in _WRITES_SHEET and not draft.job.is_in_parts
            if is_written and not str(path).casefold().endswith(EDITABLE):
                yield draft.mistake(
                    "mode",
                    f'mode "{draft.mode}" writes to the sheet, but petsync does not write into '
                    f"{ending} files",
                    'Write mode = "push" or mode = "check", or save the sheet as .xlsx or .csv.',
                )
            continue
        if key == "sheet" and draft.job.is_in_parts:
            continue
        near = f"{name[: len(name) - len(ending)]}{find_nearest(ending, _PLAIN) or '.xlsx'}"
        advice = "" if draft.is_filled(key) else f', and write {key} = "{near}"'
        problem = f"{ending or 'a file without an ending'} is not a supported sheet format"
        if draft.is_filled(key) and ("$" in ending or not ending):
            problem = "the format of the file is not supported"
        yield draft.mistake(
            key,
            f"{problem}; the supported formats are: {', '.join(_PLAIN)}",
            f"Save it as one of these{advice}.",
        )


def _check_statuses(draft: _Draft) -> Iterator[ConfigMistake]:
    profile = draft.profile
    for status in draft.own.statuses:
        if status in profile.statuses or profile.any_status:
            continue
        near = find_nearest(status, profile.statuses)
        meant = f'Did you mean "{near}"? ' if near else ""
        yield draft.mistake(
            "statuses",
            f'the service has no status "{status}"; it has {", ".join(profile.statuses)}',
            f"{meant}If the service does have this status, add it to statuses under [service].",
        )


def _check_columns(draft: _Draft) -> Iterator[ConfigMistake]:
    seen: dict[str, str] = {}
    for header, column in draft.job.columns.items():
        if column in seen:
            yield draft.mistake(
                "columns",
                f'"{seen[column]}" and "{header}" are both mapped to the column {column}',
                "Keep the header that the sheet has.",
            )
        seen[column] = header


def _check_sign_in(draft: _Draft) -> Iterator[ConfigMistake]:
    if "token" in draft.raw and "client_secret" in draft.raw:
        yield draft.mistake(
            "client_secret",
            "the job also has a token, which is another way to sign in",
            "Keep one of them.",
        )


def _check_address(draft: _Draft) -> Iterator[ConfigMistake]:
    url = draft.job.url
    if not draft.has_url:
        yield draft.mistake(
            "",
            "no service is named, either here or at the top of the file",
            'Write url = "https://shop.example/v2" at the top, or set PETSYNC_URL.',
        )
    if not url or not (draft.job.token or draft.job.api_key or draft.job.auth):
        return
    from petsync.client.origin import is_loopback

    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "http" and not is_loopback(host) and host not in draft.job.allow_http:
        yield draft.mistake(
            "url" if "url" in draft.raw else "",
            f"a secret for {host} would be sent unencrypted over http",
            f'Use https, or write allow_http = ["{host}"].',
        )


_CHECKS: tuple[Callable[[_Draft], Iterator[ConfigMistake]], ...] = (
    _check_source,
    _check_companions,
    _check_query_file,
    _check_mode,
    _check_parts,
    _check_endings,
    _check_statuses,
    _check_columns,
    _check_sign_in,
    _check_address,
)


# Mistakes in the combination of jobs and tables, such as jobs that undo each other's work.


def _check_switches(drafts: Sequence[_Draft], raw: Mapping[str, Any]) -> Iterator[ConfigMistake]:
    """Yield a mistake for each rule of a job that is there only to switch off a rule of the top,
    which does not exist.
    """
    rules = raw.get("rules")
    tables = [each for each in rules if isinstance(each, dict)] if isinstance(rules, list) else []
    names = [str(each.get("name")) for each in tables]
    folded = {name.casefold() for name in names}
    for draft in drafts:
        for number, rule in enumerate(draft.own.rules, 1):
            if not rule.enabled and not rule.kind and rule.name.casefold() not in folded:
                near = find_nearest(rule.name, names)
                yield draft.mistake(
                    f"rules[{number}]",
                    f"there is no rule {rule.name!r} at the top of the file to switch off",
                    f"Did you mean {near}?" if near else "Remove it.",
                )


_WRITES_SHEET = ("pull", "two-way")


def _check_jobs(
    drafts: Sequence[_Draft], raw: Mapping[str, Any], file: ConfigurationFile
) -> Iterator[ConfigMistake]:
    if not raw.get("jobs"):
        yield ConfigMistake(
            (),
            "there is no job",
            "Write [jobs.catalogue]; `petsync init` writes an example. Only `petsync reconcile` "
            "needs a job.",
        )
    yield from _check_switches(drafts, raw)
    for first, second in combinations(drafts, 2):
        yield from _check_pair(first, second)
    yield from _check_output(("log", "file"), file.log.file, drafts)
    yield from _check_output(("metrics", "textfile"), file.metrics.textfile, drafts)
    yield from _check_metrics(file.metrics)
    for event, texts in file.notify.templates.items():
        for part, text in zip(("title", "body"), texts, strict=True):
            for mistake in mistakes_in(text):
                path = ("notify", "templates", event, part)
                yield ConfigMistake(path, mistake, "docs/notifications.md lists the names.")


def _check_pair(first: _Draft, second: _Draft) -> Iterator[ConfigMistake]:
    """Yield the mistakes in the combination of two jobs; each is reported at the second job."""
    modes = (first.mode, second.mode)
    if first.name.casefold() == second.name.casefold():
        yield second.mistake(
            "",
            f'its name differs from "{first.name}" only in letter case; files are named after jobs',
            "Give one of the jobs another name.",
        )
    for owner, other in ((first, second), (second, first)):
        if _has_file_of(owner, other):
            yield second.mistake(
                "",
                f'a state file of job "{other.name}" would have the same name as a state file of '
                f'job "{owner.name}"',
                "Give one of the jobs another name.",
            )
    if "check" in modes or "" in modes:
        return
    if _share_sheet(first, second):
        yield from _check_same_sheet(first, second)
    elif _same_store(first, second) and _overlap(first, second):
        yield from _check_same_pets(first, second)


def _has_file_of(owner: _Draft, other: _Draft) -> bool:
    """Return true if the state files of `other` have names that `owner` also uses.

    `owner` uses such names for the plan of its sheet, or for the state of its folder's files.
    """
    name, rest = owner.name.casefold(), other.name.casefold()
    is_part = owner.source == "folder" and rest.startswith(f"{name}--")
    return is_part or rest == f"{name}.sheet"


def _check_same_sheet(first: _Draft, second: _Draft) -> Iterator[ConfigMistake]:
    writer = next((job for job in (first, second) if job.mode in _WRITES_SHEET), None)
    key = second.source
    if writer is not None:
        yield second.mistake(
            key,
            f'job "{first.name}" works with the same sheet, and job "{writer.name}" writes it: '
            "each would undo what the other does",
            'Combine them into one job with mode = "two-way", or give each a different sheet.',
        )
    elif _same_store(first, second) and first.own.tab == second.own.tab:
        yield second.mistake(
            key,
            f'job "{first.name}" sends the same sheet to the same store',
            "Remove one of the two, or name another tab, sheet or url.",
        )


def _check_same_pets(first: _Draft, second: _Draft) -> Iterator[ConfigMistake]:
    """Yield a mistake if one job pushes again what the other, a two-way job, deletes."""
    for pushed, other in ((first, second), (second, first)):
        deletes = other.mode == "two-way" and other.own.delete_missing
        if pushed.mode == "push" and deletes:
            yield second.mistake(
                "delete_missing" if other is second else "mode",
                f'job "{pushed.name}" sends its sheet, and so adds again what job "{other.name}" '
                "deletes in the store",
                "Give the jobs different pets (statuses, tags), "
                f'or remove delete_missing from "{other.name}".',
            )


def _same_store(first: _Draft, second: _Draft) -> bool:
    return is_same_address(first.job.url, second.job.url)


def _overlap(first: _Draft, second: _Draft) -> bool:
    """Return true if a pet may be in the scope of both jobs."""
    return all(
        _have_common_item(getattr(first.own, key), getattr(second.own, key))
        for key in ("statuses", "tags")
    )


def _have_common_item(ours: Sequence[str], others: Sequence[str]) -> bool:
    return not ours or not others or bool({*ours} & {*others})


def _share_sheet(first: _Draft, second: _Draft) -> bool:
    for one, other in ((first, second), (second, first)):
        if one.source == "sheet" == other.source:
            return _path_of(one, "sheet") == _path_of(other, "sheet")
        if one.source == "sheet" and other.source == "folder":
            folder, name = os.path.split(_path_of(one, "sheet"))
            return folder == _path_of(other, "folder") and fnmatch(name, _files(other))
    if first.source == "folder" == second.source:
        # Different patterns may match the same file; that is not checked.
        same = _path_of(first, "folder") == _path_of(second, "folder")
        return same and (_files(first) == _files(second) or "*" in (_files(first), _files(second)))
    return False


def _path_of(draft: _Draft, key: str) -> str:
    return _normalize_path(getattr(draft.job, key))


def _files(draft: _Draft) -> str:
    return draft.own.files


def _check_output(
    path: tuple[str, str], file: Path | None, drafts: Sequence[_Draft]
) -> Iterator[ConfigMistake]:
    """Yield a mistake if an output file is also a job's source."""
    table, key = path
    if file is None:
        return
    for draft in drafts:
        own = [each for each in (draft.job.sheet, draft.job.query_file) if each]
        folder = draft.job.folder
        where = draft.home / file.expanduser()
        is_in = folder is not None and _is_same_path(folder, where.parent)
        is_sheet = where.suffix.casefold() in EDITABLE
        if (is_in and is_sheet) or any(_is_same_path(each, where) for each in own):
            yield ConfigMistake(
                path,
                f'is "{file}", from which job "{draft.name}" reads',
                f'For example: {key} = "petsync.{"log" if table == "log" else "prom"}".',
            )


def _is_same_path(first: object, second: object) -> bool:
    return _normalize_path(first) == _normalize_path(second)


def _normalize_path(path: object) -> str:
    return os.path.normcase(os.path.normpath(str(path)))


def _check_metrics(metrics: Metrics) -> Iterator[ConfigMistake]:
    textfile = metrics.textfile
    if textfile is not None and textfile.suffix != ".prom":
        yield ConfigMistake(
            ("metrics", "textfile"),
            f'is "{textfile}", but node_exporter reads only files whose names end in .prom',
            f'Write textfile = "{textfile.with_suffix(".prom")}".',
        )
    listen = metrics.listen
    if not listen or metrics.public:
        return
    from petsync.client.origin import is_loopback

    host, _, port = listen.rpartition(":")
    if not is_loopback(host.strip("[]")):
        yield ConfigMistake(
            ("metrics", "listen"),
            f'at "{host}", other machines can read the metrics',
            f'Write listen = "127.0.0.1:{port}", or, if this is intended, public = true.',
        )


# Build the Configuration from checked values.


def _build(read: _ConfigFile) -> Configuration:
    file, folder = read.file, read.path.parent
    state = folder / file.state.expanduser()
    reports = _make_absolute(file.report.folder, folder)
    textfile = _make_absolute(file.metrics.textfile, folder)
    return Configuration(
        path=read.path,
        state=state,
        jobs=tuple(_job(draft, read.document.text) for draft in read.drafts),
        notify=file.notify,
        report=Reports(
            folder=reports or state / "reconcile" / "reports",
            keep=file.report.keep or None,
            is_private=reports is None,
        ),
        log=file.log.model_copy(update={"file": _make_absolute(file.log.file, folder)}),
        metrics=file.metrics.model_copy(update={"textfile": textfile}),
        tracing=file.tracing,
        secrets=tuple(dict.fromkeys(read.reader.secrets)),
        in_addresses=HiddenEnvironment(read.reader.in_addresses),
        variables=read.variables,
        replaced_url=read.replaced_url,
    )


def _job(draft: _Draft, text: str) -> Job:
    values = dict(draft.job)
    if draft.job.query_file is not None:
        values["query"] = read_file(draft.job.query_file)
    line, sign_in = _line_of(draft.name, text), describe_sign_in(draft.raw)
    values |= {"name": draft.name, "line": line, "sign_in": sign_in}
    return Job.model_construct(draft.own.model_fields_set, **values)


def _line_of(job: str, text: str) -> int:
    """Return the line of the job's header. The whole file is parsed only if a search fails."""
    name = f"(?:{re.escape(job)}|\"{re.escape(job)}\"|'{re.escape(job)}')"
    header = re.compile(rf"^[ \t]*\[[ \t]*jobs[ \t]*\.[ \t]*{name}[ \t]*\]", re.MULTILINE)
    found = header.search(text)
    if found is not None:
        return text.count("\n", 0, found.start()) + 1
    return lines_of(text).get(("jobs", job), 1)
