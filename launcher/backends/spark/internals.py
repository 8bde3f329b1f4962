"""All that we ask of Spark which its public Python interface does not tell: private attributes, and its JVM.

No other module may touch them. Each function has a fallback at its callers: None means that this session
refuses (`guarded`), or that its pyspark has no such thing.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

from .guarded import ask

_EXECUTORS = "org$apache$spark$scheduler$cluster$CoarseGrainedSchedulerBackend$$executorDataMap"
_MESSAGES = "org.apache.spark.deploy.master.MasterMessages$"
_GPU = "gpu"


class Storage(NamedTuple):
    """A folder on a file system of Hadoop's; `path` makes the path of a name in a folder."""

    file_system: Any
    root: Any
    path: Callable[[Any, str], Any]


class ExecutorState(NamedTuple):
    """What Spark's scheduler knows of an executor at this moment; counts of cores and of GPUs."""

    executor: str
    host: str
    cores: int
    cores_free: int
    gpus: int
    gpus_free: int


# --- a classic session's JVM -----------------------------------------------------------------------------


def executors(context: Any) -> tuple[ExecutorState, ...] | None:
    """The executors that have registered. Spark's pages tell them too, but later than its scheduler."""
    return ask(lambda: tuple(_executor(pair) for pair in _each(_executor_data(context))))


def running_tasks(context: Any) -> int | None:
    """How many tasks run now. Spark's status tracker tells it too, but later than its scheduler."""
    return ask(lambda: sum(int(pair._2()) for pair in _each(_running(context))))


def job_group(context: Any, job: int) -> str | None:
    """The group of a job, by its id; empty if it has none."""
    return ask(lambda: _group(context._jsc.sc().statusStore().job(job).jobGroup()))


def job_stages(tracker: Any, job: int) -> list[int] | None:
    """The stages of a job, by its id. The list is the JVM's, and read by calls to it."""
    return ask(lambda: list(tracker.getJobInfo(job).stageIds))


def master_page_port(context: Any, host: str, port: int) -> int | None:
    """The port of the page of the standalone master at an address, requested by Spark's own protocol."""
    return ask(lambda: _bound_page_port(context, host, port))


def active_context() -> Any:
    """The context of this process, from any thread; None also if there is none."""
    core = sys.modules.get("pyspark.core.context") or sys.modules.get("pyspark.context")
    return ask(lambda: core.SparkContext._active_spark_context) if core is not None else None


def driver_gpus(session: Any, *, remote: bool) -> tuple[str, ...] | None:
    """The addresses of the GPUs that Spark has granted to its driver; `remote` of a Connect session."""
    granted = ask(lambda: session.client._resources() if remote else session.sparkContext.resources)
    return tuple(granted[_GPU].addresses) if granted and _GPU in granted else None


def partitions(dataframe: Any) -> int | None:
    """How many partitions a classic DataFrame has, where Spark knows that before it computes anything."""
    return ask(lambda: _known_partitions(dataframe._jdf.queryExecution().executedPlan()))


def storage(session: Any, folder: str) -> Storage | None:
    """The storage of a folder, as a classic session reaches it.

    Raises:
        ValueError: there is no such storage; the text is Java's.
    """
    context: Any = ask(lambda: session.sparkContext)
    paths = ask(lambda: context._jvm.org.apache.hadoop.fs.Path)
    if paths is None:
        return None
    try:
        root = paths(folder)
        found = root.getFileSystem(context._jsc.hadoopConfiguration())
        return Storage(found, root.makeQualified(found.getUri(), found.getWorkingDirectory()), paths)
    except Exception as error:
        text = str(getattr(error, "java_exception", error)).strip()
        raise ValueError(text.splitlines()[0] if text else "it refuses") from error


def jobs_of(context: Any, tag: str) -> frozenset[int]:
    """The jobs that have a tag, those that have ended too."""
    found = ask(lambda: context._jsc.sc().statusTracker().getJobIdsForTag(tag))
    return frozenset(map(int, found or ()))


def tasks_of(context: Any, jobs: Collection[int]) -> tuple[int, int] | None:
    """How many tasks of some jobs are done, and how many there are."""
    return ask(lambda: _tasks_of(context.statusTracker(), jobs))


def _tasks_of(tracker: Any, jobs: Collection[int]) -> tuple[int, int]:
    stages = [stage for job in jobs for stage in tracker.getJobInfo(job).stageIds]
    known = [info for info in map(tracker.getStageInfo, stages) if info is not None]
    return sum(info.numCompletedTasks for info in known), sum(info.numTasks for info in known)


def _known_partitions(plan: Any) -> int | None:
    if plan.getClass().getSimpleName() != "AdaptiveSparkPlanExec":
        return int(plan.execute().getNumPartitions())
    # an adaptive plan may change the number of any exchange, except where the user has named one
    exchange = plan.initialPlan()
    if not exchange.getClass().getSimpleName().startswith("ShuffleExchange"):
        return None
    named = exchange.shuffleOrigin().toString() == "REPARTITION_BY_NUM"
    return int(exchange.outputPartitioning().numPartitions()) if named else None


def _executor_data(context: Any) -> Any:
    return getattr(context._jsc.sc().schedulerBackend(), _EXECUTORS)()


def _executor(pair: Any) -> ExecutorState:
    name, data = pair._1(), pair._2()  # Scala's names
    resources = data.resourcesInfo()
    gpus = gpus_free = 0
    if resources.contains(_GPU):
        info = resources.apply(_GPU)
        gpus_free = info.availableAddrs().distinct().size()
        gpus = gpus_free + info.assignedAddrs().distinct().size()
    return ExecutorState(
        name, data.executorHost(), int(data.totalCores()), _free_cores(data), gpus, gpus_free
    )


def _free_cores(data: Any) -> int:
    """Spark 4.3 counts cores in decimals, which py4j fails to read as integers; its error quotes them."""
    try:
        return int(data.freeCores())
    except ValueError as error:
        quoted = re.search(r"'([-+.E\d]+)'", str(error))
        if quoted is None:
            raise
        return int(float(quoted[1]))


def _running(context: Any) -> Any:
    return context._jsc.sc().taskScheduler().runningTasksByExecutors()


def _group(option: Any) -> str:
    return str(option.get() or "") if option.isDefined() else ""


def _each(collection: Any) -> Iterator[Any]:
    """The elements of a Scala collection."""
    iterator = collection.toList().iterator()
    while iterator.hasNext():
        yield iterator.next()


def _bound_page_port(context: Any, host: str, port: int) -> int:
    jvm = context._jvm
    loader = jvm.java.lang.Class
    rpc = context._jsc.sc().schedulerBackend().rpcEnv()
    master = rpc.setupEndpointRef(jvm.org.apache.spark.rpc.RpcAddress(host, port), "Master")
    request = _module(loader, f"{_MESSAGES}BoundPortsRequest$")
    kind = loader.forName(f"{_MESSAGES}BoundPortsResponse")
    answer = master.askSync(request, _module(loader, "scala.reflect.ClassTag$").apply(kind))
    return int(answer.webUIPort())


def _module(loader: Any, name: str) -> Any:
    """A Scala object."""
    return loader.forName(name).getField("MODULE$").get(None)


# --- a JVM that we have started --------------------------------------------------------------------------


def gateway_in_use() -> Any:
    """pyspark's gateway to a JVM, if this process has one; it outlives a context that was stopped."""
    from pyspark import SparkContext

    return ask(lambda: SparkContext._gateway)


def accumulator_server(context: Any) -> Any:
    """The server that collects a context's accumulators in this process."""
    return ask(lambda: context._accumulatorServer)


def forget(context: Any) -> None:
    """Reset pyspark to the state without a context or a JVM."""
    from pyspark import SparkContext

    if context is not None:
        context._jsc = context._accumulatorServer = None
    with ask(lambda: SparkContext._lock) or contextlib.nullcontext():
        SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    if (sql := sys.modules.get("pyspark.sql.session")) is not None:
        sql.SparkSession._instantiatedSession = sql.SparkSession._activeSession = None


def disconnect(gateway: Any, *, alive: bool) -> None:
    """Close our sockets to a JVM, after a request that it ends its gateway if it is alive."""
    if alive:
        gateway.shutdown()
    if (client := ask(lambda: gateway._gateway_client)) is not None:
        client.is_connected = False  # Java objects that are collected later send it nothing
    gateway.close()


# --- a client of a Connect server ------------------------------------------------------------------------


def endpoint(session: Any) -> str | None:
    """The server's address as ``host:port``; the public client tells the host alone."""
    found = ask(lambda: session.client._builder.endpoint)
    return None if found is None else str(found)


def channel(session: Any) -> Any:
    """The gRPC channel to the server."""
    return ask(lambda: session.client._channel)


def profile_on_server(session: Any, requests: Any) -> Any:
    """A ResourceProfile made through this very session; pyspark's own way takes that of the thread."""
    from pyspark.resource import ResourceProfile

    made = ask(lambda: session.client._create_profile(_described(requests)))
    if made is None:
        return None
    profile = ResourceProfile(_exec_req={}, _task_req=requests.requests)
    profile._id = int(made)
    return profile


def _described(requests: Any) -> Any:
    from pyspark.sql.connect import proto

    resources = {
        key: proto.TaskResourceRequest(resource_name=one.resourceName, amount=one.amount)
        for key, one in requests.requests.items()
    }
    return proto.ResourceProfile(task_resources=resources)
