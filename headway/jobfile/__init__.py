"""The job file: one schema for YAML, JSON, the web form, the command line and Python."""

from headway.jobfile.check import JobFileLimits
from headway.jobfile.emit import to_yaml
from headway.jobfile.parse import GraphTask, ParseResult, check_job, invalid, parse_job
from headway.jobfile.spec import (
    Entrypoint,
    JobSpec,
    LogLimitAction,
    Need,
    NeedOn,
    Network,
    Priority,
    ResourceSpec,
    RunAs,
    Shell,
    TaskSpec,
    Ulimit,
)

__all__ = [
    "Entrypoint",
    "GraphTask",
    "JobFileLimits",
    "JobSpec",
    "LogLimitAction",
    "Need",
    "NeedOn",
    "Network",
    "ParseResult",
    "Priority",
    "ResourceSpec",
    "RunAs",
    "Shell",
    "TaskSpec",
    "Ulimit",
    "check_job",
    "invalid",
    "parse_job",
    "to_yaml",
]
