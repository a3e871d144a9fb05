"""Workers on a Ray cluster: one detached actor for each GPU, or for each node of a cluster without any.

Ray only starts processes and starts them again; work, leases and results are the database's. An actor
never touches its GPU: it holds a `kb worker`, which sees the GPU that Ray gave the actor. Actors are
detached, so that they outlive the driver; a driver that is gone on with finds them by name.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from kb.errors import ConfigError, ToolchainError
from kb.progress import say
from search.work.pools import WorkerOptions
from search.work.pools.local import LocalPool

NAMESPACE = "kb"
_TEND = 2.0  # seconds between looks at the actors
_ANSWER = 60.0  # seconds for an actor to answer
_SHARE = 0.001  # of a resource that only marks a kind of node


class WorkerActor:
    """Holds the worker of one device; Ray runs it, on the device's node."""

    def __init__(self, device: str, options: WorkerOptions) -> None:
        self._pool = LocalPool([device], options)
        self._ended = threading.Event()
        # The worker ends with the thread that started it, so one thread does all of that.
        self._thread = threading.Thread(target=self._hold, daemon=True)
        self._thread.start()

    def pid(self) -> int:
        """Return the actor's process."""
        return os.getpid()

    def stop(self) -> None:
        """End the worker, which gives its work back."""
        self._ended.set()
        self._thread.join()

    def _hold(self) -> None:
        self._pool.start()
        while not self._ended.wait(1.0):
            for line in self._pool.tend():
                say(line)
        self._pool.close()


class RayPool:
    """Keeps a worker on each device of a Ray cluster.

    Args:
        address: of the cluster, as `ray.init` takes it.
        options: of each worker; each node needs `kb` at the same version.
    """

    def __init__(self, address: str, options: WorkerOptions) -> None:
        self._address = address
        self._options = options
        self._actors: dict[str, Any] = {}

    def start(self) -> None:
        """Connect to the cluster, and start a worker on each of its devices.

        Raises:
            ConfigError: Ray is not installed, or the database cannot be reached from all nodes.
            ToolchainError: there is no such cluster.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError as error:
            raise ConfigError(
                "--ray needs Ray, which is not installed: pip install 'kernel-kb[ray]'"
            ) from error
        try:
            _reach(self._address)
            if not ray.is_initialized():
                ray.init(
                    address=self._address,
                    namespace=NAMESPACE,
                    log_to_driver=False,
                    logging_level="ERROR",
                    include_dashboard=False if self._address == "local" else None,
                )
        except (OSError, ValueError, RuntimeError) as error:
            found = " ".join(str(error).split())
            raise ToolchainError(
                f"--ray: expected the address of a Ray cluster, found {self._address!r} ({found[:200]}): "
                "run `ray start --head --port=6379` and use HOST:6379"
            ) from error
        self._check_database()
        for line in self.tend():
            say(line)

    def tend(self) -> list[str]:
        """Start workers on devices that have none: of new nodes, and where an actor is gone for good."""
        import ray

        lines = []
        devices = self._devices()
        for name in self._actors.keys() - devices.keys():
            lines.append(f"{name}: its node is gone")
            del self._actors[name]
        for name, (node, kind) in devices.items():
            if name not in self._actors:
                self._actors[name] = self._actor(ray, name, node, kind)
                lines.append(f"{name}: a worker on {kind}")
        return lines

    def pids(self) -> dict[str, int]:
        """Return the processes of the actors, by name, once they have started."""
        import ray

        calls = [actor.pid.remote() for actor in self._actors.values()]
        return dict(zip(self._actors, ray.get(calls, timeout=_ANSWER), strict=True))

    def close(self) -> None:
        """End every worker and its actor. Another search that tends them starts them again."""
        import ray

        calls = [actor.stop.remote() for actor in self._actors.values()]
        ready, _ = ray.wait(calls, num_returns=len(calls), timeout=_ANSWER) if calls else ([], [])
        for call in ready:
            with suppress(ray.exceptions.RayError):
                ray.get(call)
        for actor in self._actors.values():
            ray.kill(actor)
        self._actors.clear()
        ray.shutdown()

    def _actor(self, ray: Any, name: str, node: Mapping[str, Any], kind: str) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        needs: dict[str, Any] = (
            {"num_gpus": 1, "num_cpus": 0} if kind == "cuda" else {"num_cpus": 1}
        )
        # The device's model, as Ray names it: an actor is restarted on no other.
        marks = {key: _SHARE for key in node["Resources"] if key.startswith("accelerator_type:")}
        return (
            ray.remote(WorkerActor)
            .options(
                name=name,
                namespace=NAMESPACE,
                lifetime="detached",
                get_if_exists=True,
                max_concurrency=1,
                max_restarts=-1,
                max_task_retries=0,
                resources=marks,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
                **needs,
            )
            .remote(kind, self._options)
        )

    def _devices(self) -> dict[str, tuple[Mapping[str, Any], str]]:
        """Return the cluster's devices by the names of their actors: its GPUs, or else its nodes."""
        import ray

        nodes = [node for node in ray.nodes() if node["Alive"]]
        gpus = {node["NodeID"]: int(node["Resources"].get("GPU", 0)) for node in nodes}
        found: dict[str, tuple[Mapping[str, Any], str]] = {}
        for node in nodes:
            count = gpus[node["NodeID"]]
            kinds = ["cuda"] * count if any(gpus.values()) else ["cpu"]
            for index, kind in enumerate(kinds):
                found[f"worker-{node['NodeID'][:16]}-{index}"] = (node, kind)
        return found

    def _check_database(self) -> None:
        import ray

        hosts = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
        here = ray.util.get_node_ip_address()
        if self._options.database.startswith("sqlite") and hosts - {here, "127.0.0.1"}:
            raise ConfigError(
                f"--ray: expected a database that {len(hosts)} hosts can reach, found a file of this one: "
                "set KB_DATABASE=postgresql+psycopg://USER@HOST/NAME"
            )


def _reach(address: str) -> None:
    """See that something listens at HOST:PORT: Ray itself tries for minutes, and then ends the process.

    Raises:
        OSError: nothing does.
    """
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "//" not in address:
        socket.create_connection((host, int(port)), timeout=5).close()


@contextmanager
def tended(pool: RayPool) -> Iterator[RayPool]:
    """Start a pool, look after it while the body runs, and end it."""
    pool.start()
    ended = threading.Event()

    def tend() -> None:
        while not ended.wait(_TEND):
            try:
                lines = pool.tend()
            except Exception as error:  # noqa: BLE001 - Ray's errors are many: the workers go on
                say(f"the Ray cluster does not answer: {' '.join(str(error).split())[:200]}")
                time.sleep(_TEND)
            else:
                for line in lines:
                    say(line)

    thread = threading.Thread(target=tend, daemon=True)
    thread.start()
    try:
        yield pool
    finally:
        ended.set()
        thread.join()
        pool.close()
