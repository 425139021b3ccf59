"""A Python that has kinfolk loaded, compiled kernels too, and forks a process for every command that tests send it.

A command takes a second to load its modules, and half a second for its kernels; tests run hundreds.
What a fork runs is the command all the same, in
a process of its own: with its arguments, folder, environment, standard input, output and errors, and exit status. That
the command also starts from nothing is shown in `cli/test_cli_process.py`.

    loaded = LoadedPython(folder, environment)      one server; `environment` is that of the modules that it loads
    subprocess.run([loaded.client, "kinfolk", "tokens", "tag", ...], env=..., cwd=..., ...)
    subprocess.run([loaded.client, "code", "print(1)"], ...)      as python -c
    subprocess.run([loaded.client, "file", "own.py", ...], ...)   as python own.py
    loaded.ends()

With PYTHONWARNINGS=error in the environment of a fork its warnings are errors. Of what is loaded they always are.
"""

from __future__ import annotations

import gc
import json
import os
import select
import socket
import subprocess
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

# Starts in a moment: no site packages, and only what it needs.
CLIENT = """#!{python} -IS
import os, sys, _socket
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({place!r})
import json, array
what = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
fds = array.array("i", [0, 1, 2]).tobytes()
server.sendmsg([len(what).to_bytes(8, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)])
while what:
    what = what[server.send(what):]
status = server.recv(1)
if not status:
    sys.exit("the forked process ended without an exit status")
os._exit(status[0])
"""


LONG = ("SkipChainCRF", "StackedTagger")  # take longer than the few commands that use them would


class LoadedPython:
    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.client = folder / "client"
        place = str(folder / "socket")
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(place)
        listening.listen()
        self.client.write_text(CLIENT.format(python=sys.executable, place=place))
        self.client.chmod(0o755)
        self.server = subprocess.Popen(
            [sys.executable, __file__, str(listening.fileno())], env=dict(environment), cwd=folder,
            pass_fds=[listening.fileno()], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        listening.close()

    def command(self, folder: Path) -> Path:
        """An executable `kinfolk` in a folder, for a shell to find."""
        file = folder / "kinfolk"
        file.write_text(f'#!/bin/sh\nexec {self.client} kinfolk "$@"\n')
        file.chmod(0o755)
        return file

    def files(self, folder: Path) -> Path:
        """An executable `python` in a folder, for files to be run by; with an option it is the usual one."""
        file = folder / "python"
        file.write_text(f'#!/bin/sh\ncase $1 in -*) exec {sys.executable} "$@";; esac\nexec {self.client} file "$@"\n')
        file.chmod(0o755)
        return file

    def ends(self) -> None:
        self.server.communicate()  # its standard input is closed, and it ends


def serve(listening: socket.socket) -> None:
    """A process for every connection, which sends its exit status when it ends; until whoever started this is gone."""
    while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
        connection, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            os._exit(answer(connection))
        connection.close()
        reap()


def reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def answer(connection: socket.socket) -> int:
    head, fds, _, _ = socket.recv_fds(connection, 8, 3)
    size, sent = int.from_bytes(head, "big"), b""
    while len(sent) < size:
        sent += connection.recv(size - len(sent))
    words, folder, environment = json.loads(sent)
    for target, fd in enumerate(fds):
        os.dup2(fd, target)
        os.close(fd)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if environment.get("PYTHONWARNINGS") != "error":
        lenient()
    status = ended(words)
    connection.send(bytes([status]))
    return status


def strict() -> None:
    """As PYTHONWARNINGS=error: before the filters that Python begins with, and after those of libraries."""
    sys.warnoptions.append("error")
    warnings.simplefilter("error")


def lenient() -> None:
    """As it was before."""
    sys.warnoptions.remove("error")
    warnings.filters.remove(("error", None, Warning, None, 0))
    warnings.simplefilter("default", append=True)  # filters changed: what was already warned of is forgotten
    warnings.filters.pop()


def ended(words: list[str]) -> int:
    """The exit status of what was asked, as the interpreter gives it."""
    import traceback

    status = 0
    try:
        if words[0] == "kinfolk":
            from kinfolk.__main__ import start

            sys.argv = words
            start()
        elif words[0] == "file":
            import runpy

            sys.argv = words[1:]
            sys.path.insert(0, os.path.dirname(os.path.abspath(words[1])))
            runpy.run_path(words[1], run_name="__main__")
        else:
            sys.path.insert(0, "")
            exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def load() -> None:
    import kinfolk as kf
    import kinfolk.cli.main

    for name in kf.__all__:
        getattr(kf, name)
    import sklearn.ensemble
    import sklearn.linear_model  # noqa: F401

    from kinfolk.cli.warm import LISTS, use

    use([name for models in LISTS for name in models if name not in LONG])  # their kernels are loaded


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of the tests, which no command sees
    strict()
    gc.disable()  # nothing of what is loaded is ever freed
    load()
    gc.enable()
    gc.freeze()  # a fork that looked for what may be freed here would copy all of it
    serve(socket.socket(fileno=int(sys.argv[1])))
