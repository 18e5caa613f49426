"""A cluster's workers, which run tasks (jobs.py): how they are reached, and which are refused.

dask.distributed is imported here alone, and where a cluster is asked for.
"""

import logging
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import Any

from twincheck.common.system.checkout import PATH
from twincheck.common.system.door import to_pip
from twincheck.common.system.errors import UserError
from twincheck.extras.shared import Kind

PATIENCE_S = 5.0  # for a scheduler's answer, and for its first worker
WITHOUT_WORKER_S = 60.0  # for a worker to come, once all are gone
# What two machines must have alike, or their results were not one machine's.
ALIKE = ("numpy", "scipy", "scikit-learn", "torch", "paddlepaddle", "reprod_log", "joblib")


@contextmanager
def workers_of(address: str) -> Iterator[Any]:
    """joblib's way to the workers of a scheduler; raises UserError where they cannot run tasks."""
    client = _connected(address)
    done = threading.Event()
    why: list[str] = []
    try:
        try:
            client.wait_for_workers(1, timeout=PATIENCE_S)
        except TimeoutError:
            raise UserError(Kind.NO_WORKER(address=address)) from None
        _refuse_other_versions(client, address)
        backend = _backend(client)
        watch = threading.Thread(target=_watch, args=(backend, done, why), daemon=True)
        watch.start()
        yield backend
    except CancelledError:
        lost = (why or [Kind.CONNECTION_LOST()])[0]
        raise UserError(Kind.CLUSTER_LOST(address=address, reason=lost)) from None
    except Exception as error:
        if type(error).__name__ != "KilledWorker":
            raise
        raise UserError(Kind.WORKERS_KILLED(address=address)) from None
    finally:
        done.set()
        with suppress(Exception):  # it may be closed
            client.close()


def _connected(address: str) -> Any:
    """A client of the scheduler."""
    try:
        import distributed
    except ModuleNotFoundError:
        command = to_pip("distributed")
        raise UserError(Kind.NO_DISTRIBUTED(python=sys.executable, command=command)) from None
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("distributed"):  # what matters is a sentence here
            logging.getLogger(name).setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", category=distributed.versions.VersionMismatchWarning)

    class Client(distributed.Client):
        """One that did not start is closed here.

        Else it is when its memory is collected, which may be while another client begins: both
        wait for one lock of distributed's then, for ever or until its patience ends.
        """

        def start(self, **options: Any) -> None:
            try:
                super().start(**options)
            except BaseException:
                with suppress(Exception):  # why it did not start is what matters
                    self.close()
                raise

    try:
        return Client(address, timeout=PATIENCE_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        silent = isinstance(error, OSError)
        why = Kind.NO_ANSWER() if silent else str(error).partition("\n")[0]
        raise UserError(Kind.NO_SCHEDULER(address=address, reason=why)) from None


def _backend(client: Any) -> Any:
    from joblib._dask import DaskDistributedBackend

    class OnWorkers(DaskDistributedBackend):
        """What joblib would run here, since one thread is all that there is, a worker runs."""

        def effective_n_jobs(self, n_jobs: int) -> int:
            return max(2, super().effective_n_jobs(n_jobs))

        def give_up(self) -> None:
            self.client.cancel(list(self._results), force=True)

    return OnWorkers(client=client)


def _watch(backend: Any, done: threading.Event, why: list[str]) -> None:
    """Give up where all workers are gone and none comes; dask would wait for ever."""
    seen = time.monotonic()
    while not done.wait(1.0):
        with suppress(Exception):  # the connection is lost, which the tasks are told
            if backend.client.nthreads():
                seen = time.monotonic()
            elif time.monotonic() - seen > WITHOUT_WORKER_S:
                why.append(Kind.WORKERS_GONE(seconds=WITHOUT_WORKER_S))
                backend.give_up()
                return


def _seen(folder: str, names: Sequence[str]) -> dict:
    """What a cluster's worker has: its machine's name, whether the folder is there, versions."""
    import os
    import socket
    from importlib import metadata

    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return {"host": socket.gethostname(), "there": os.path.isdir(folder), "versions": found}


# It is sent as its code, which needs nothing of the workbench to be there.
_seen.__module__ = "__main__"


def _refuse_other_versions(client: Any, address: str) -> None:
    """Raise UserError for a worker whose results would not be this machine's."""
    told = client.get_versions()
    # Code is sent, which another Python cannot read: this is asked first.
    own = _of_dask(told["client"])
    _compare(Kind.THE_SCHEDULER(address=address), own, _of_dask(told["scheduler"]))
    for worker, theirs in told["workers"].items():
        _compare(Kind.THE_WORKER(address=worker), own, _of_dask(theirs))
    own = _seen(str(PATH), ALIKE)["versions"]
    for worker, seen in client.run(_seen, str(PATH), ALIKE).items():
        if not seen["there"]:
            raise UserError(nowhere(seen["host"]))
        _compare(Kind.THE_WORKER(address=worker), own, seen["versions"])


def _of_dask(told: Mapping) -> dict[str, str]:
    """Python without its last part, and distributed: what get_versions says of a process."""
    packages = told["packages"]
    python = ".".join(packages["python"].split(".")[:2])
    return {"python": python, "distributed": packages["distributed"]}


def _compare(who: str, own: Mapping, theirs: Mapping) -> None:
    """Raise UserError where a version is another one."""
    for name, version in own.items():
        if theirs[name] != version:
            both = {"theirs": theirs[name], "own": version}
            both = {whose: found or Kind.NO_VERSION() for whose, found in both.items()}
            raise UserError(Kind.OTHER_VERSION(who=who, name=name, **both))


def nowhere(host: str) -> str:
    """The sentence on a machine that does not see the workbench."""
    return Kind.FOLDER_NOT_SHARED(host=host, folder=str(PATH))
