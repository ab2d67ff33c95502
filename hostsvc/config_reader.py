"""Reads the configuration from a TOML file, overridden by variables `HOSTSVC__SECTION__KEY`.

The marshmallow schema of each section is derived from its settings, and all errors are reported together.
"""

import dataclasses
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import partial
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, get_args, get_origin, get_type_hints

import orjson
from marshmallow import EXCLUDE, Schema, ValidationError, post_load, validates_schema
from marshmallow.exceptions import SCHEMA
from marshmallow.fields import Field, Nested

from hostsvc.config import MODELS, NOT_KEYS, REMOVED_KEYS, Config
from hostsvc.llm.providers import PRICES_TAKE, ConfiguredPrices, ProviderSettings, parse_prices
from storage.model import Source
from supervisors.llm.inbox_model import PROVIDER

DEFAULT_FILE = Path("config.toml")
ENVIRONMENT_PREFIX = "HOSTSVC__"
STRAY_PREFIX = "HOSTSVC_"
TEST_PREFIX = "HOSTSVC_TEST_"  # read by the tests alone, which start services
# The environment of a run, from which somebody may call hostsvc.
OTHER_VARIABLES = frozenset({"HOSTSVC_URL", "HOSTSVC_RUN_TOKEN", "HOSTSVC_AGENT_ID", "HOSTSVC_RUN_ID"})
PROVIDER_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
NOT_A_SECTION = "must be a section: write its name in brackets, and its keys below it"
ANY_URL = "http://localhost"  # base_url is the one key without a default

KeyPath = tuple[str, ...]


@dataclass(slots=True)
class ConfigErrors:
    """The errors found so far, and the sections that they are in (blank: the whole file)."""

    messages: list[str] = field(default_factory=list)
    sections: set[str] = field(default_factory=set)

    def add(self, section: str, message: str) -> None:
        self.messages.append(message)
        self.sections.add(section)


def read_config(file: Path | None, environment: Mapping[str, str]) -> tuple[Config, ConfigErrors]:
    """Read `file` (None: config.toml in this directory, if it exists), then the environment variables.

    Return the configuration, with defaults for each section that has an error, and all errors.
    """
    errors = ConfigErrors()
    if file is None and DEFAULT_FILE.exists():
        file = DEFAULT_FILE
    values = {} if file is None else _read_toml(file, errors)
    variables = _add_variables(values, environment, errors)
    try:
        config: Config = schema_of(Config()).load(values)
    except ValidationError as error:
        for path, message in _flat(error.messages_dict):
            variable = next((name for key, name in variables.items() if key[: len(path)] == path), None)
            errors.add(path[0], f"{variable or file or 'the environment'}: {'.'.join(path)} {message}")
        sections: Any = error.valid_data
        config = replace(Config(), **{key: sections[key] for key in sections.keys() - errors.sections})
    if "harness" not in errors.sections:
        for missing in config.harness.missing():
            errors.add("harness", f'harness.{missing} must be set because harness.kind is "process"')
    keys = {
        name: environment[provider.api_key_env]
        for name, provider in config.models.items()
        if environment.get(provider.api_key_env)
    }
    origins = (*([] if file is None else [str(file)]), *variables.values())
    return replace(config, model_keys=MappingProxyType(keys), origins=origins), errors


def stray_variables(config: Config, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each variable that looks like a setting and is none."""
    expected = OTHER_VARIABLES | {provider.api_key_env for provider in config.models.values()}
    for name in sorted(environment.keys() - expected):
        if name.startswith(STRAY_PREFIX) and not name.startswith((ENVIRONMENT_PREFIX, TEST_PREFIX)):
            hint = nearest_variable(name) or f"; settings have the form {ENVIRONMENT_PREFIX}SECTION__KEY"
            yield f"the variable {name} is not a setting and has no effect{hint}"


def nearest_variable(name: str) -> str:
    """Return a question that suggests the most similar variable, or nothing if none is similar."""
    known = ["__".join(path).upper() for path in _key_paths(schema_of(Config()))]
    matches = get_close_matches(name.removeprefix(STRAY_PREFIX).lstrip("_").upper(), known, n=1)
    return f"; did you mean {ENVIRONMENT_PREFIX}{matches[0]}?" if matches else ""


def _key_paths(schema: Schema, section: KeyPath = ()) -> Iterator[KeyPath]:
    for name, key in schema.fields.items():
        if isinstance(key, Nested):
            yield from _key_paths(key.schema, (*section, name))
        elif isinstance(key, Key):
            yield (*section, name)


def _read_toml(file: Path, errors: ConfigErrors) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        errors.add("", f"{file}: cannot be read: {error.strerror}")
    except ValueError as error:  # TOMLDecodeError, or UnicodeDecodeError
        errors.add("", f"{file}: is not valid TOML: {error}")
    return {}


class VariableText(str):
    """The text of a variable, which stands for a value of any type."""

    __slots__ = ()


def _add_variables(
    values: dict[str, Any], environment: Mapping[str, str], errors: ConfigErrors
) -> dict[KeyPath, str]:
    """Put the texts of all variables into `values`, and return the names of the variables by their keys."""
    variables: dict[KeyPath, str] = {}
    for name in sorted(environment):
        if not name.startswith(ENVIRONMENT_PREFIX):
            continue
        *sections, key = path = tuple(name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__"))
        if name != name.upper() or not sections or not all(path):
            form = f"{name} must have the form {ENVIRONMENT_PREFIX}SECTION__KEY in capitals"
            errors.add(path[0], f"{form}{nearest_variable(name)}")
            continue
        variables[path] = name
        table: Any = values
        for section in sections:
            table = table.setdefault(section, {}) if isinstance(table, dict) else None
        if isinstance(table, dict):  # else the file has a value where a section belongs: the schema says so
            table[key] = VariableText(environment[name])
    return variables


def _flat(messages: Mapping[str, Any], section: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Yield each message of marshmallow with the path to its key."""
    for name, below in messages.items():
        path = section if name == SCHEMA else (*section, name)
        if isinstance(below, dict):
            yield from _flat(below, path)
        else:
            yield from ((path, message) for message in below)


class SettingsSchema(Schema):
    """The schema of a section: makes settings of its keys, with `defaults` for those that are not given."""

    class Meta:
        unknown = EXCLUDE  # refused below, with the names that are known

    error_messages = {"type": NOT_A_SECTION}  # noqa: RUF012 -- declared by marshmallow
    defaults: ClassVar[Any]

    @validates_schema(pass_original=True, skip_on_field_errors=False)
    def refuse_unknown_names(self, _data: object, given: object, **_options: Any) -> None:
        unknown = given.keys() - self.fields.keys() if isinstance(given, dict) else ()
        if unknown:
            raise ValidationError({name: [self._unknown(name)] for name in sorted(unknown)})

    def _unknown(self, name: str) -> str:
        if name in REMOVED_KEYS:
            return f"was removed: {REMOVED_KEYS[name]}"
        nearest = get_close_matches(name, self.fields, n=1)
        hint = f"; did you mean {nearest[0]}?" if nearest else ""
        return f"is unknown; known are {', '.join(self.fields)}{hint}"

    @post_load
    def make_settings(self, values: dict[str, Any], **_options: Any) -> object:
        return _with_values(self.defaults, values)


def schema_of(defaults: Any) -> Schema:
    """Derive the schema of a section, or of the whole configuration, from its settings."""
    hints = get_type_hints(type(defaults))
    keys = {
        setting.name: _key_for(setting, hints[setting.name], defaults)
        for setting in fields(defaults)
        if setting.name not in NOT_KEYS
    }
    name = f"{type(defaults).__name__}Schema"
    schema: Schema = type(name, (SettingsSchema,), {"defaults": defaults, **keys})()
    return schema


def _key_for(setting: "dataclasses.Field[Any]", hint: Any, defaults: Any) -> Field[Any]:
    if setting.name == MODELS:
        return Providers()
    if hint not in KINDS and is_dataclass(hint):
        return Nested(schema_of(getattr(defaults, setting.name)))
    is_choice = get_origin(hint) is Literal
    return Key(
        _choice(get_args(hint)) if is_choice else KINDS[hint],
        is_secret=not setting.repr,
        required=setting.default is MISSING and setting.default_factory is MISSING,
        validate=lambda value: _with_values(defaults, {setting.name: value}),
        error_messages={"required": "must be set"},
    )


def _with_values(defaults: Any, values: Mapping[str, Any]) -> Any:
    """Return settings with these values. Raise ValidationError if they refuse a key."""
    try:
        return replace(defaults, **values)
    except ValueError as error:  # its message begins with the key
        key, _, reason = str(error).partition(" ")
        raise ValidationError(reason, key) from error


class Kind(NamedTuple):
    """A type of values: how messages describe it, and how one is made of a TOML value or of a text."""

    takes: str
    convert: Callable[[Any], Any]  # raises ValueError for anything else
    from_text: Callable[[str], Any] = str


class Key(Field[Any]):
    """A key with a value of one kind. Values of other types are not converted."""

    def __init__(self, kind: Kind, *, is_secret: bool, **options: Any) -> None:
        super().__init__(**options)
        self.kind = kind
        self.is_secret = is_secret

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> Any:
        if isinstance(value, VariableText):
            value = self.kind.from_text(str(value))
        try:
            return self.kind.convert(value)
        except (ValueError, OverflowError) as error:
            given = "" if self.is_secret else f", got {value!r}"
            raise ValidationError(f"must be {self.kind.takes}{given}") from error


class Providers(Field[Any]):
    """The model providers: a section for each, named by the operator."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> Any:
        if not isinstance(value, dict):
            raise ValidationError(NOT_A_SECTION)
        schema = schema_of(ProviderSettings(ANY_URL))
        providers, problems = {}, {}
        for name, keys in value.items():
            try:
                _check_provider_name(name)
                providers[name] = schema.load(keys)
            except ValidationError as error:
                problems[name] = error.messages
        if problems:
            raise ValidationError(problems)
        return MappingProxyType(providers)


def _check_provider_name(name: str) -> None:
    if name == PROVIDER or not PROVIDER_NAME.fullmatch(name):
        raise ValidationError(
            "must have another name: the name of a provider consists of lowercase letters, digits and _.-, "
            f"and is not {PROVIDER}"
        )


def _choice(values: tuple[str, ...]) -> Kind:
    def convert(value: object) -> object:
        if value not in values:
            raise ValueError(value)
        return value

    return Kind(f"one of {', '.join(values)}", convert)


def _of_type(type_: type, value: Any) -> Any:
    if type(value) is not type_:  # isinstance takes a bool for an int
        raise ValueError(value)
    return value


def _number(value: Any) -> float:
    if type(value) not in {int, float} or not math.isfinite(value):
        raise ValueError(value)
    return float(value)


def _path(value: Any) -> Path:
    if not _of_type(str, value).strip():
        raise ValueError(value)
    return Path(value)


def _list_of(convert: Callable[[str], Any], collection: Callable[[list[Any]], Any], value: Any) -> Any:
    return collection([convert(_of_type(str, item)) for item in _of_type(list, value)])


def _from_commas(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")] if text.strip() else []


def _from_json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        return text


KINDS: Mapping[Any, Kind] = {
    str: Kind("text", partial(_of_type, str)),
    int: Kind("an integer", partial(_of_type, int), _from_json),
    bool: Kind("true or false", partial(_of_type, bool), _from_json),
    float: Kind("a number", _number, _from_json),
    Path: Kind("a path", _path),
    tuple[str, ...]: Kind("a list of texts", partial(_list_of, str, tuple), _from_commas),
    frozenset[Source]: Kind(
        f"a list of sources ({', '.join(Source)})", partial(_list_of, Source, frozenset), _from_commas
    ),
    tuple[IPv4Network | IPv6Network, ...]: Kind(
        'a list of networks such as "10.0.0.0/8"', partial(_list_of, ip_network, tuple), _from_commas
    ),
    ConfiguredPrices: Kind(PRICES_TAKE, parse_prices, _from_json),
}
