"""SIGHUP: the configuration is read again, and a running service takes over what needs no restart."""

import asyncio
import os
from dataclasses import fields, replace
from pathlib import Path

import structlog

from hostsvc.config import Config
from hostsvc.config_reader import read_config
from hostsvc.logs import set_level
from hostsvc.process_end import RELOAD_SIGNALS
from hostsvc.service import Service
from web.app import adopt_limits

# Limits of bodies, which stay until a restart as other sections do.
KEPT_LIMITS = ("body_bytes", "attachment_bytes", "span_metadata_bytes", "spans_per_trace")

log = structlog.get_logger()


def reload_on_hangup(file: Path | None, service: Service) -> None:
    """Let the service read its configuration again at SIGHUP, and now, as a worker may start much later."""
    started, errors = read_config(file, os.environ)
    known = started
    if not errors.messages:
        _adopt(known, service)

    def reload() -> None:
        nonlocal known
        new, errors = read_config(file, os.environ)
        if reasons := errors.messages or [*new.model_errors()]:
            log.error("configuration refused", reasons=reasons)
            return
        waiting = _differences(_adopted(started, new), new)
        log.info("configuration read again", changed=_differences(known, new), waiting_for_restart=waiting)
        _adopt(new, service)
        known = new

    for number in RELOAD_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, reload)


def _differences(one: Config, other: Config) -> list[str]:
    names = (field.name for field in fields(Config) if field.name != "origins")
    return [name for name in names if getattr(one, name) != getattr(other, name)]


def _adopted(started: Config, new: Config) -> Config:
    """Return the configuration with which a service works that has read a new one."""
    limits = replace(new.limits, **{name: getattr(started.limits, name) for name in KEPT_LIMITS})
    log = replace(started.log, level=new.log.level)
    return replace(started, limits=limits, log=log, model_keys=new.model_keys)


def _adopt(config: Config, service: Service) -> None:
    """Change the log's level, limits and API keys. The rest waits for a restart."""
    parts, providers = service.parts, service.parts.execution.providers
    set_level(config.log)
    adopt_limits(service.app, config.limits)
    parts.storage.limits.adopt(config.limits)
    parts.registry.max_runs_per_organization = config.limits.concurrent_runs
    for name in providers.keys() & config.model_keys.keys():
        providers[name].use_key(config.model_keys[name])
