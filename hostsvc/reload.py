"""The configuration, read again at SIGHUP: the log's level, limits and API keys change without a restart."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType

import structlog

from hostsvc.config import NOT_KEYS, Config
from hostsvc.config_reader import read_config

log = structlog.get_logger()

SECTIONS = [field.name for field in fields(Config) if field.name not in NOT_KEYS]


@dataclass(slots=True)
class ConfigSource:
    """Where the configuration comes from, and how it was when it was last read."""

    file: Path | None
    config: Config

    def read_again(self) -> Config | None:
        """Read it again and log what follows; None if it is invalid, so that the old one stays."""
        new, errors = read_config(self.file, os.environ)
        if reasons := errors.messages or list(new.model_errors()):
            log.error("configuration refused", reasons=reasons)
            return None
        reachable = adopted(self.config, new)
        log.info(
            "configuration read again",
            changed=_differing(self.config, reachable)
            + _changed_keys(self.config.model_keys, new.model_keys),
            needs_restart=_differing(reachable, new),
        )
        self.config = new
        return new


def adopted(running: Config, new: Config) -> Config:
    """Return the running configuration with that of a new one which needs no restart."""
    keys = {name: key for name, key in new.model_keys.items() if name in running.models}
    return replace(
        running,
        log=replace(running.log, level=new.log.level),
        limits=running.limits.adopted(new.limits),
        model_keys=MappingProxyType(keys),
    )


def _differing(one: Config, other: Config) -> list[str]:
    return [name for name in SECTIONS if getattr(one, name) != getattr(other, name)]


def _changed_keys(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    return [f"key of {name}" for name in sorted(new) if name in old and old[name] != new[name]]
