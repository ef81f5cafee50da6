"""A real nginx before a server, as distributions configure it: HTTP/1.0 to the server, and answers buffered.

It is what a server is behind most often, and it is there only if it is installed.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from typing import TYPE_CHECKING

from leasehold.testing.lending import free_port

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = shutil.which("nginx")
PATIENCE = 30.0
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
CONFIGURATION = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{ worker_connections 512; }}
http {{
    access_log off;
    keepalive_timeout 1s;
    {temporary}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://127.0.0.1:{goal};
            proxy_set_header Host $http_host;
        }}
    }}
}}
"""


class Nginx:
    """One nginx before this port, listening on `port`."""

    def __init__(self, folder: Path, goal: int) -> None:
        if PROGRAM is None:
            raise RuntimeError("nginx is not installed")
        self.port = free_port()
        temporary = " ".join(f"{kind}_temp_path {folder}/nginx-{kind};" for kind in TEMPORARY)
        written = folder / "nginx.conf"
        written.write_text(CONFIGURATION.format(folder=folder, port=self.port, goal=goal, temporary=temporary))
        with (folder / "nginx.log").open("ab") as log:
            words = [PROGRAM, "-c", str(written), "-e", str(folder / "nginx.log")]
            self._process = subprocess.Popen(words, stdout=log, stderr=log)  # noqa: S603 (our own words)
        try:
            self._wait_until_it_listens()
        except BaseException:
            self.kill()
            raise

    def _wait_until_it_listens(self) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                if time.monotonic() > end or self._process.poll() is not None:
                    raise
                time.sleep(0.02)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()
