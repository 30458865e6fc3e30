"""`greenroom store …`: look into a store, mend it, empty its dead letters, copy it.

Every command names its store by `--store` or by the variable GREENROOM_STORE. None but `import` makes a
store where there is none: a mistyped path is an error and not an empty store.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from greenroom._cli_terminal import CommandFailed, count, plain, say, write_json
from greenroom._cli_transfer import PIPE, export_to, import_from, readable

if TYPE_CHECKING:
    from greenroom.store import Store

__all__ = ["commands"]

VARIABLE = "GREENROOM_STORE"

commands = typer.Typer(
    no_args_is_help=True,
    help="Look into a store of transcripts and turns, and look after it.",
    epilog=f"The store is named by --store or by {VARIABLE}, e.g. sqlite:///greenroom.db or "
    "postgresql://user@host/name.",
)


def _check_url(url: str) -> str:
    """Refuse what is no URL of a store that outlives this command."""
    if not url:
        msg = f"which store? Say --store URL or set {VARIABLE}, for instance to sqlite:///greenroom.db"
        raise CommandFailed(msg, exit_code=2)
    if find_spec("sqlalchemy") is None:
        msg = "a store needs SQLAlchemy: pip install 'greenroom[store]'"
        raise CommandFailed(msg, exit_code=2)
    from greenroom.store._url import is_memory, parse_url

    with _failures():
        in_memory = is_memory(parse_url(url))
    if in_memory:
        raise CommandFailed("a store in memory ends with its process: name a file", exit_code=2)
    return url


Url = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="URL",
        help="Which store.",
        envvar=VARIABLE,
        show_default=False,
        callback=_check_url,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON, for programs.")]


@commands.command()
def info(url: Url = "", as_json: AsJson = False) -> None:
    """Show what is in the store, and which rooms work with it."""
    from greenroom._cli_store_views import show_info

    with opened(url) as store:
        counts, rooms = store.counts(), store.rooms()
        if as_json:
            write_json({"url": store.url, **asdict(counts), "rooms": [asdict(room) for room in rooms]})
        else:
            show_info(store.url, counts, rooms, now=store.now())


@commands.command()
def check(url: Url = "", as_json: AsJson = False) -> None:
    """Look for damage. Exit code 1 if there is any."""
    with opened(url) as store:
        problems = store.check()
        if as_json:
            write_json({"url": store.url, "problems": problems})
        else:
            for problem in problems:
                typer.echo(plain(problem))
            typer.echo(f"{count(len(problems), 'problem')}." if problems else "No problems.")
    raise typer.Exit(1 if problems else 0)


@commands.command()
def dirty(
    url: Url = "",
    dead: Annotated[bool, typer.Option("--dead", help="Only dead letters: given up.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=9_999, metavar="N", help="At most so many.")] = 50,
    after: Annotated[
        str | None, typer.Option(metavar="SESSION_ID", help="Only those that come after this one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List sessions with uncommitted turns: completed, and not yet extracted by a memory provider."""
    from greenroom._cli_store_views import dirty_row, show_dirty

    with opened(url) as store:
        # One more than is shown tells whether there is more.
        rows = store.sessions(dirty=True, dead=dead or None, after=after, limit=limit + 1)
        rooms, now = store.rooms(), store.now()
    found = [dirty_row(row, rooms, now=now) for row in rows[:limit]]
    more = len(rows) > limit
    if as_json:
        write_json({"sessions": found, "more": more})
        return
    if found:
        show_dirty(found)
    else:
        typer.echo("No dead letters." if dead else "No uncommitted turns.")
    if more:
        say(f"There is more: --after {shlex.quote(rows[limit - 1].session_id)}, or a higher --limit.")


@commands.command()
def retry(
    session_ids: Annotated[
        list[str] | None, typer.Argument(metavar="SESSION_ID…", show_default=False)
    ] = None,
    url: Url = "",
    everything: Annotated[bool, typer.Option("--all", help="All that failed.")] = False,
) -> None:
    """Let commits that failed be tried again at once, dead letters too.

    The next room that looks takes them. Name sessions, or say --all.
    """
    if bool(session_ids) == everything:
        raise CommandFailed("name the sessions to retry, or say --all (not both)", exit_code=2)
    with opened(url) as store:
        if everything:
            changed = store.retry(None)
        else:
            wanted = dict.fromkeys(session_ids or ())
            for session_id in wanted:
                store.session(session_id)  # an unknown one is an error before any other is touched
            changed = sum(store.retry(session_id) for session_id in wanted)
    if changed:
        typer.echo(f"{count(changed, 'session')} will be tried by the next room that looks.")
    else:
        typer.echo("Nothing to retry: no commit has failed there.")


@commands.command()
def vacuum(url: Url = "") -> None:
    """Reclaim the space of what was deleted."""
    from rich.filesize import decimal

    with opened(url) as store:
        before = store.counts().size
        store.vacuum()
        after = store.counts().size
    typer.echo(f"{decimal(before)} before, {decimal(after)} after.")


@commands.command()
def export(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="- is stdout.", show_default=False)
    ] = PIPE,
    url: Url = "",
    force: Annotated[bool, typer.Option("--force", help="Replace the file if there is one.")] = False,
) -> None:
    """Write the whole store as JSON lines, to a file or to stdout.

    The file appears when it is complete, and only you can read it.
    """
    with opened(url) as store:
        export_to(store, path, force=force)


@commands.command("import")
def import_(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="- is stdin.", show_default=False)],
    url: Url = "",
) -> None:
    """Read what export wrote into a store, which is made if there is none.

    Each session comes in whole or not at all. One that is there already is refused.
    """
    with readable(path) as source, opened(url, create=True) as store:
        import_from(store, source)


@contextmanager
def opened(url: str, *, create: bool = False) -> Iterator[Store]:
    """Open the store for the block. Whatever is wrong with it, then or within, is `CommandFailed`."""
    from greenroom.store import open_store
    from greenroom.store._maintenance import is_there
    from greenroom.store._url import parse_url, show_url

    with _failures():
        if not create and not is_there(url):
            shown = show_url(parse_url(url))
            msg = f"there is no store at {shown}: check the URL (a room makes one, or import)"
            raise CommandFailed(msg)
        with open_store(url) as store:
            yield store


@contextmanager
def _failures() -> Iterator[None]:
    """Make `CommandFailed` of what a store raises."""
    from greenroom.store import StoreError, UnknownSession

    try:
        yield
    except UnknownSession as error:
        raise CommandFailed(f"there is no session {error.session_id!r} in the store") from error
    except StoreError as error:
        raise CommandFailed(str(error)) from error
    except (ModuleNotFoundError, ValueError) as error:
        raise CommandFailed(str(error), exit_code=2) from error
