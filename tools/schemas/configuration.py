"""What is generated of the configuration: its JSON Schema, docs/configuration.md, dollyd.toml(5)."""

from __future__ import annotations

import msgspec
from tools.man_page import escaped, item, paragraphs
from tools.schemas.payloads import DIALECT, Schema

import dollyd
from dollyd.daemon.core.games import GAMES
from dollyd.daemon.settings.currencies import CURRENCIES
from dollyd.daemon.settings.reference import Key, driver_lines, example, members_told, sections
from dollyd.daemon.settings.section_reader import section_in
from dollyd.daemon.settings.sections import Configuration, DeviceSection, StakesSection, TableSection
from dollyd.drivers import DRIVERS

_ROLES = {role for driver in DRIVERS.values() for role in driver.roles}
CHOICES: dict[type, dict[str, list[str]]] = {
    DeviceSection: {"driver": list(DRIVERS), "role": sorted(_ROLES)},
    TableSection: {"game": list(GAMES)},
    StakesSection: {"currency": sorted(CURRENCIES)},
}
"""Keys whose values are the names in a table of the program."""
PAGE = """# The configuration

Every key of `dollyd.toml`, made of the types that read it (`make schemas`). An unknown key refuses to
start, and names of files and serial ports are relative to the configuration. `dollyd config print` prints
all of it as a file to begin with, `dollyd check --config F` tells all that is wrong with yours, and the
examples in [config/examples](../config/examples) show a table of every game. Editors that know JSON Schemas
complete and check keys by [config/schemas/config.json](../config/schemas/config.json): `dollyd config
schema > config.json`, and `#:schema ./config.json` as the first line of `dollyd.toml`.

"""


def schema() -> Schema:
    """The JSON Schema of the file, closed, with the meaning of each key."""
    found: Schema = msgspec.json.schema(Configuration)
    defined = found["$defs"]
    structs = [Configuration, *_below(Configuration)]
    for struct in structs:
        told, chosen = members_told(struct), CHOICES.get(struct, {})
        for name, member in defined[struct.__name__]["properties"].items():
            member.update({"description": told[name]} if name in told else {})
            member.update({"enum": chosen[name]} if name in chosen else {})
    top = defined.pop(Configuration.__name__)
    return {"$schema": DIALECT, **top, "title": "dollyd.toml", "$defs": defined}


def page() -> str:
    """docs/configuration.md."""
    lines = [PAGE.rstrip(), ""]
    for section in sections():
        if not section.keys:
            continue
        lines += [f"## `[{section.title}]`" if section.title else "## Outside of any section", ""]
        lines += [section.meaning, "", "| key | value | unless set | meaning |", "|---|---|---|---|"]
        lines += [f"| `{key.name}` | {key.kind} | {_unset(key)} | {key.meaning} |" for key in section.keys]
        lines.append("")
    lines += ["## Drivers", "", "| driver | what it is | where, and what it can be told |", "|---|---|---|"]
    for driver in DRIVERS.values():
        lines.append(f"| `{driver.name}` | {driver.summary} | {'; '.join(driver_lines(driver))} |")
    lines += ["", "## All of it", "", "```toml", example().rstrip(), "```", ""]
    return "\n".join(lines)


def man_page() -> str:
    """dollyd.toml(5)."""
    lines = [
        f'.TH DOLLYD.TOML 5 "" "dollyd {dollyd.__version__}" "Gaming tables"',
        ".SH NAME",
        "dollyd.toml \\- configuration of dollyd",
        ".SH DESCRIPTION",
        *paragraphs(
            "TOML. An unknown key refuses to start. Names of files and serial ports are relative to the file."
            " `dollyd config print` prints every key as a file to begin with;"
            " `dollyd check` tells all that is wrong with one."
        ),
    ]
    for section in sections():
        if section.keys:
            lines += [f".SH {escaped(f'[{section.title}]') if section.title else 'OUTSIDE OF SECTIONS'}"]
            lines += paragraphs(section.meaning)
        for key in section.keys:
            unset = "required" if key.required else f"{key.default or 'nothing'} unless set"
            lines += item(f"{key.name} = {key.kind}, {unset}", key.meaning)
    lines.append(".SH DRIVERS")
    for driver in DRIVERS.values():
        lines += item(driver.name, f"{driver.summary}. {'; '.join(driver_lines(driver))}.")
    lines += [".SH SEE ALSO", ".BR dollyd (1)"]
    return "\n".join(lines) + "\n"


def _unset(key: Key) -> str:
    return "must be given" if key.required else f"`{key.default}`" if key.default else ""


def _below(struct: type) -> list[type]:
    inner = [section_in(field.type)[0] for field in msgspec.structs.fields(struct)]
    return [one for part in inner if part is not None for one in (part, *_below(part))]
