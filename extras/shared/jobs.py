"""Many tasks at once: in processes of this machine (joblib's loky), or on a cluster (dask).

    add_options(parser)                                  --backend and --scheduler
    place = place_of(options, options.jobs, default=2)
    run(work, tasks, place, on_result)                   on_result(task, work(task)), as each ends

A process that is killed loses nothing: its tasks are run again, and each is answered once.
"""

import argparse
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import cloudpickle
import joblib
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.process_executor import TerminatedWorkerError

from twincheck.common.system.checkout import PATH
from twincheck.common.system.errors import UserError
from twincheck.extras.shared import Kind, cluster
from twincheck.extras.shared import task as in_a_task

BACKENDS = ("loky", "dask")
MOST_KILLED = 3  # in a row, nothing having ended in between: the task itself kills it


@dataclass(frozen=True)
class Place:
    """Where tasks run.

    jobs        how many at a time, on this machine; 1: in this process
    scheduler   the address of a cluster's, which has as many at a time as its workers have threads
    """

    jobs: int = 1
    scheduler: str = ""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that say where tasks run, alike in every program that has them."""
    parser.add_argument(
        "--backend",
        choices=BACKENDS,
        default=BACKENDS[0],
        help=Kind.OPTION_BACKEND(),
    )
    parser.add_argument(
        "--scheduler",
        metavar="tcp://HOST:PORT",
        default="",
        help=Kind.OPTION_SCHEDULER(),
    )


def place_of(options: argparse.Namespace, jobs: int | None, default: int, name: str) -> Place:
    """Where the tasks are to run.

    jobs      how many at a time, as given, by the option of that name; None: it was not
    default   how many at a time where it was not
    """
    if options.backend == "dask" and not options.scheduler:
        raise UserError(Kind.WHICH_CLUSTER())
    if options.scheduler and options.backend != "dask":
        raise UserError(Kind.SCHEDULER_WITHOUT_DASK())
    if options.scheduler and jobs is not None:
        raise UserError(Kind.JOBS_OF_A_CLUSTER(option=name))
    return Place(default if jobs is None else jobs, options.scheduler)


def run(
    work: Callable[[Any], Any],
    tasks: Sequence[Any],
    place: Place,
    on_result: Callable[[Any, Any], None],
) -> None:
    """Run work(task) for each task, in about their order; on_result(task, result) as each ends.

    What a task raises ends the others, and is raised here.  `work` and the tasks are sent to other
    processes, `on_result` is called in this one.
    """
    left = dict(enumerate(tasks))
    killed = 0
    with _at(place) as options:
        while left:
            sent = [
                joblib.delayed(_start)(
                    number, str(PATH), cloudpickle.dumps((work, task)), dict(os.environ)
                )
                for number, task in left.items()
            ]
            try:
                for number, result in _answers(sent, options):
                    killed = 0
                    on_result(left.pop(number), result)
            except TerminatedWorkerError:  # the others were ended with it
                killed += 1
                if killed == MOST_KILLED:
                    raise UserError(Kind.KILLED_AGAIN(times=killed, left=len(left))) from None


def _answers(sent: Sequence[Any], options: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
    """(number, result) of tasks as each ends; all others are ended where the caller stops."""
    answers = joblib.Parallel(return_as="generator_unordered", batch_size=1, **options)(sent)
    try:
        for number, host, result in answers:
            if host:
                raise UserError(cluster.nowhere(host))
            yield number, result
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it was not read to its end
            answers.close()


def _start(number: int, folder: str, content: bytes, environment: dict) -> tuple[int, str, Any]:
    """Run a task in whatever process: its number, "", and what it gives.

    Where the folder is not there, the name of the machine is in the place of "".
    """
    import os
    import socket
    import sys

    if not os.path.isdir(folder):
        return number, socket.gethostname(), None
    if folder not in sys.path:
        sys.path.insert(0, folder)
    from twincheck.extras.shared.task import call

    return number, "", call(content, environment)


# It is sent as its code: where the workbench is on no path, it could not be imported.
_start.__module__ = "__main__"


@contextmanager
def _at(place: Place) -> Iterator[dict[str, Any]]:
    """joblib's options for a place; what is started for it ends with the block."""
    with ExitStack() as stack:
        if place.scheduler:
            backend = stack.enter_context(cluster.workers_of(place.scheduler))
            yield {"backend": backend, "pre_dispatch": "all"}
            return
        stack.callback(in_a_task.close)
        if place.jobs == 1:
            yield {"n_jobs": 1}
            return
        stack.callback(lambda: get_reusable_executor(reuse=True).shutdown(wait=True))
        yield {
            "n_jobs": place.jobs,
            "backend": BACKENDS[0],
            "initializer": in_a_task.begin,
            "initargs": (os.getpid(), dict(os.environ)),
        }
