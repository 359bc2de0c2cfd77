"""Serves the files of a site to browsers on this machine: only to those that ask for this machine, and only the site's own."""

from __future__ import annotations

import os
import re
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from etc_policy.cli.messages import show_note
from etc_policy.errors.plain_text import one_line
from etc_policy.report.bounded_clients import bound_clients

ADDRESS = "127.0.0.1"
#: A page elsewhere whose name is made to mean this machine is asked for by that name.
_OWN_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?", re.IGNORECASE)


def site_server(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server of the folder, which listens already.

    Raises:
        OSError: the port cannot be listened on.

    """
    server = ThreadingHTTPServer((ADDRESS, port), type("Handler", (_Handler,), {"folder": str(folder)}))
    bound_clients(server, until_answered=True)
    return server


class _Handler(SimpleHTTPRequestHandler):
    """Answers with regular files below the folder; links out of it and lists of folders are not found."""

    folder: str

    def __init__(self, *arguments: Any) -> None:  # noqa: ANN401 - as the method that it replaces
        super().__init__(*arguments, directory=self.folder)

    def send_head(self) -> Any:  # noqa: ANN401 - as the method that it replaces
        """The file that is asked for, opened; None once an error was sent."""
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not _OWN_HOST.fullmatch(hosts[0].strip()):
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "This server answers for this machine alone")
            return None
        if not self._is_of_the_site():
            self.send_error(HTTPStatus.NOT_FOUND, "File not found")
            return None
        return super().send_head()

    def list_directory(self, path: str | os.PathLike[str]) -> Any:  # noqa: ANN401 - as the method that it replaces
        """Lists are not shown: the pages link to all that there is."""
        self.send_error(HTTPStatus.NOT_FOUND, "File not found")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401 - as the method that it replaces
        """A note for each request."""
        show_note(one_line(f"{self.address_string()} {format % args}"))

    def _is_of_the_site(self) -> bool:
        """Whether the path is a regular file of the folder, or a folder with such a page."""
        try:
            path, root = Path(self.translate_path(self.path)).resolve(), Path(self.directory).resolve()
            found = path / "index.html" if path.is_dir() else path
            return found.resolve().is_relative_to(root) and found.is_file()
        except (OSError, ValueError, RuntimeError):  # such as a NUL in it, or a circle of links
            return False
