"""Attack a running service: `python -m tests.attack --url http://127.0.0.1:8080 --full`.

It signs up organizations of its own and deletes what they have stored. Attack only what is yours.
"""

import argparse
import asyncio
import resource
import sys
from collections.abc import Sequence
from time import perf_counter

from rich.console import Console
from rich.table import Table

from tests.attack.catalogue import ATTACKS
from tests.attack.findings import Attack, Finding, holds
from tests.attack.sizes import FULL, SHORT
from tests.attack.target import Target, opened


async def make(attack: Attack, target: Target) -> list[Finding]:
    """Make one attack. An answer that breaks the attack itself is a finding, too."""
    try:
        return await attack.run(target)
    except Exception as error:
        return [holds("the attack can be made", False, f"{type(error).__name__}: {error}"[:200])]


def chosen(names: Sequence[str]) -> list[Attack]:
    """Return the attacks of these names; all for none."""
    known = {attack.name: attack for attack in ATTACKS}
    unknown = set(names) - known.keys()
    if unknown:
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}. Attacks: {', '.join(known)}")
    return [known[name] for name in names] or list(ATTACKS)


async def attack_all(options: argparse.Namespace, console: Console) -> bool:
    """Make the attacks one after the other, print what they find, and return whether the service held."""
    sizes = FULL if options.full else SHORT
    table = Table("attack", "what", "measured", "bar", "verdict", title=options.url)
    everything: list[Finding] = []
    async with opened(
        options.url, sizes, options.pid, options.operator_token, options.token_secret
    ) as target:
        for attack in chosen(options.only):
            if attack.waits_seconds > sizes.max_wait_seconds:
                continue
            started = perf_counter()
            findings = await make(attack, target)
            console.print(f"{perf_counter() - started:5.1f} s {attack.name}: {attack.attempt}", style="dim")
            for number, finding in enumerate(findings):
                name = "" if number else attack.name
                table.add_row(name, finding.subject, finding.measured, finding.bar, finding.verdict)
            everything += findings
    console.print(table)
    return all(finding.held is not False for finding in everything)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--url", required=True, help="the address of the service")
    parser.add_argument(
        "--pid", type=int, help="its process id, if it runs here: samples memory and descriptors"
    )
    parser.add_argument("--operator-token", default="", help="to see whether the operator is still answered")
    parser.add_argument(
        "--token-secret", default="", help="accounts.token_secret, to sign tokens with wrong claims"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="make only these attacks")
    parser.add_argument(
        "--full", action="store_true", help="full size: takes minutes, and gigabytes of traffic"
    )
    return parser


def main() -> None:
    options = parser().parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    console = Console(width=None if sys.stdout.isatty() else 160)
    held = asyncio.run(attack_all(options, console))
    raise SystemExit(0 if held else 1)


if __name__ == "__main__":
    main()
