"""The rules against the real thing: the API server with Trainer's CRDs and webhooks, and JobSet.

What a rule of "API server", "CRD" or "webhook" calls an error must be refused, everything else be let in. Of that,
what "jobset" or "Kubernetes" is said to refuse must leave a warning event instead of pods.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.controlplane.api import Api, ApiError, path_of
from tests.controlplane.plane import ControlPlane, wait_until
from tests.validate import job_cases, runtime_cases
from tests.validate.job_cases import JOB, NO_QUANTITIES, POD, QUANTITIES, RICH, T
from tests.validate.runtime_cases import JOBS, ML
from tests.validate.runtime_cases import POD as RUNTIME_POD
from trainer_ops.model.runtime import TrainingRuntime
from trainer_ops.validate.rules import RULES
from trainer_ops.validate.schema import Shape, shape_of
from trainer_ops.validate.trainjob import check

# The first one may have to build the programs.
pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]

Raw = dict[str, Any]
Case = job_cases.Case | runtime_cases.Case
Key = tuple[str, str, str]

STRICT = "?fieldValidation=Strict"
DRY = f"{STRICT}&dryRun=All"
UNCHECKED = "trainer.kubeflow.org/webhook-validation"
QUEUE = "spec.template.metadata.annotations[scheduling.volcano.sh/queue-name]"

DRY_ONLY = "the storage refuses it, which a dry run does not reach"
AT_TRAINJOB = "the webhook says it of the TrainJobs that name the runtime"

# Rule, place, runtime -> why an object is refused, or is not, other than the source of the rule says.
EXCEPTIONS: Mapping[Key, str] = {
    ("name-missing", "metadata.name", ""): "only a warning, because trainer-ops gives the job a name",
    ("name-too-long", "!metadata.name", ""): "the CRD refuses more than 63 characters, JobSet fewer ones later",
    ("resource-version", "!metadata.resourceVersion", ""): DRY_ONLY,
    ("num-proc-per-node", f"!{T}.numProcPerNode", ""): "only the Flux plugin looks at it",
    ("unknown-value", f"!{POD}.tolerations[0].effect", ""): "the CRD takes any text",
    ("label-syntax", f"!{JOB}.template.metadata.labels[a]", ""): "the CRD takes any text",
}
RUNTIME_EXCEPTIONS: Mapping[Key, str] = {
    ("resource-version", "!metadata.resourceVersion", "torch"): DRY_ONLY,
    ("label-syntax", f"!{JOBS}[0].template.metadata.labels[a]", "torch"): "the CRD takes any text",
    ("runtime-empty", "!spec.template", "torch"): "a spec with nothing but an mlPolicy is not empty",
    ("runtime-empty", f"!{JOBS}", "torch"): "a template with nothing but an empty list is not empty",
    ("runtime-num-proc", f"!{ML}.mpi.numProcPerNode", "mpi"): "the CRD looks only at that of Flux",
    ("runtime-depends-on", f"!{JOBS}[0].dependsOn", "torch"): "the CRD looks only at startupPolicy",
    ("runtime-env-injection", f"!{ML}.torch.envInjection.targets[0].containerNames", "torch"): AT_TRAINJOB,
    ("runtime-queue", f"!{QUEUE}", "torch"): AT_TRAINJOB,
    ("flux-installer", f"!{RUNTIME_POD}.initContainers", "flux"): AT_TRAINJOB,
}
# What is let in, and of which what is made is not refused either.
NO_EVENT: Mapping[Key, str] = {
    ("resource-version", "!metadata.resourceVersion", ""): "has a test of its own",
    ("resource-version", "!metadata.resourceVersion", "torch"): "has a test of its own",
    ("num-proc-per-node", f"!{T}.numProcPerNode", ""): "torchrun and mpirun refuse it, in the pod",
    ("runtime-num-proc", f"!{ML}.mpi.numProcPerNode", "mpi"): "mpirun refuses it, in the pod",
    ("runtime-empty", "!spec.template", "torch"): "a JobSet of no jobs never says anything",
    ("runtime-empty", f"!{JOBS}", "torch"): "a JobSet of no jobs never says anything",
    ("image-format", f"!{T}.image", ""): "the kubelet refuses it: InvalidImageName",
    ("env-source", f"!{T}.env[0]", ""): "Trainer ignores value beside valueFrom",
}


def key(case: Case) -> Key:
    return case.rule, case.where, case.runtime or ""


def source(rule: str) -> str:
    """The first word in the brackets of a rule's text."""
    return RULES[rule].rpartition("(")[2].rstrip(")").replace(",", ":").replace(";", ":").partition(":")[0]


def refused(case: Case) -> bool:
    """Whether the object of a case is refused when it is created."""
    said = case.where.startswith("!") and source(case.rule) in ("API server", "CRD", "webhook")
    return said != (key(case) in EXCEPTIONS or key(case) in RUNTIME_EXCEPTIONS)


def refused_later(case: Case) -> bool:
    """Whether what is made of the object is refused."""
    by_others = source(case.rule) in ("API server", "CRD", "webhook", "jobset", "Kubernetes")
    return case.where.startswith("!") and by_others and not refused(case) and key(case) not in NO_EVENT


def table(cases: list[Any], keep: Callable[[Case], bool] = lambda case: True) -> pytest.MarkDecorator:
    """The parameters of a test: the cases that are kept, under the names they have elsewhere."""
    kept = [pytest.param(case, id=f"{i}-{case.rule}") for i, case in enumerate(cases) if keep(case)]
    return pytest.mark.parametrize("case", kept)


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """A plane of its own, without a kubelet: its webhooks are altered, and TrainJobs that hang are left in it."""
    with TemporaryDirectory() as folder:
        plane = ControlPlane(Path(folder, "plane"))
        try:
            _let_runtimes_opt_out(plane.api)
            yield plane.api
        finally:
            plane.close()


def _let_runtimes_opt_out(api: Api) -> None:
    """Trainer is deployed with a label that keeps runtimes from its webhook; the plane has the bare webhooks."""
    (hooks,) = (
        hooks
        for hooks in api.list("ValidatingWebhookConfiguration")
        if any("trainer.kubeflow.org" in hook["name"] for hook in hooks["webhooks"])
    )
    for hook in hooks["webhooks"]:
        if "runtime" in hook["name"]:
            term = {"key": UNCHECKED, "operator": "NotIn", "values": ["disabled"]}
            hook["objectSelector"] = {"matchExpressions": [term]}
    api.call("PUT", path_of("ValidatingWebhookConfiguration", name=hooks["metadata"]["name"]), hooks)


class World:
    """A namespace of its own."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})

    def send(self, kind: str, obj: Any, query: str) -> str:
        """Create it where that kind belongs; why not, "" when it was accepted."""
        try:
            self.api.call("POST", path_of(kind, self.namespace) + query, obj)
        except ApiError as exc:
            return str(json.loads(exc.body)["message"])
        return ""

    def send_until(self, kind: str, obj: Any, query: str, passing: str) -> str:
        """The same, again and again while the answer has a text that passes by itself."""
        said = ""

        def answered() -> bool:
            nonlocal said
            said = self.send(kind, obj, query)
            return passing not in said

        wait_until(f"no longer {passing!r}", answered)
        return said

    def send_job(self, job: Any, query: str = DRY) -> str:
        """Create a TrainJob, whose runtime the webhook may not have seen yet."""
        return self.send_until("TrainJob", job, query, "must be created before the TrainJob is created")

    def add_runtime(self, raw: Raw) -> None:
        """Create a TrainingRuntime that Trainer's webhook does not look at, as soon as its selector is in force."""
        labels = {**raw["metadata"].get("labels", {}), UNCHECKED: "disabled"}
        runtime = {**raw, "kind": "TrainingRuntime", "metadata": {**raw["metadata"], "labels": labels}}
        assert self.send_until("TrainingRuntime", runtime, STRICT, "denied the request") == ""

    def wait_for_refusal(self) -> str:
        """The message of the warning about what could not be made."""
        found: list[str] = []

        def told() -> bool:
            found.extend(
                event["message"]
                for event in self.api.list("Event", namespace=self.namespace)
                if event["reason"] in ("TrainJobResourcesCreationFailed", "JobCreationFailed")
            )
            return bool(found)

        wait_until(f"a warning event in {self.namespace}", told)
        return found[0]


_numbers = itertools.count()


@pytest.fixture
def world(api: Api) -> World:
    return World(api, f"case-{next(_numbers)}")


@pytest.fixture
def place(
    world: World, make_job: Callable[..., Any], make_raw_runtime: Callable[..., Raw]
) -> Callable[[job_cases.Case], Any]:
    """Make a case's runtime in the namespace; the case's TrainJob, naming it.

    A case without a runtime gets one that has no say in it.
    """

    def made(case: job_cases.Case) -> Any:
        job = make_job(case.changes)
        unknown = "torchtune" if "initializer" in str(case.changes) else "plain"
        runtime = make_raw_runtime(case.runtime or unknown, case.runtime_changes)
        spec = job.get("spec")
        ref = spec.get("runtimeRef") if isinstance(spec, dict) else None
        if isinstance(ref, dict) and ref.get("name"):
            if "spec.runtimeRef.name" in case.changes:
                runtime["metadata"]["name"] = ref["name"]
            ref["name"] = runtime["metadata"]["name"]
            ref.setdefault("kind", "TrainingRuntime")
        world.add_runtime(runtime)
        return job

    return made


@table(job_cases.CASES)
def test_a_trainjob_is_refused_at_create_or_not(
    case: job_cases.Case, world: World, place: Callable[[job_cases.Case], Any]
) -> None:
    said = world.send_job(place(case))
    assert bool(said) == refused(case), said or "accepted"


@table(runtime_cases.CASES)
def test_a_runtime_is_refused_at_create_or_not(
    case: runtime_cases.Case, world: World, make_raw_runtime: Callable[..., Raw]
) -> None:
    runtime = make_raw_runtime(case.runtime, case.changes)
    if runtime["kind"] == "ClusterTrainingRuntime":
        runtime["kind"] = "TrainingRuntime"  # The other kind has no namespaces to keep the cases apart.
    said = world.send("TrainingRuntime", runtime, DRY)
    assert bool(said) == refused(case), said or "accepted"


@table(job_cases.CASES, refused_later)
def test_what_is_made_of_an_accepted_trainjob_is_refused(
    case: job_cases.Case, world: World, place: Callable[[job_cases.Case], Any]
) -> None:
    assert world.send_job(place(case), STRICT) == ""
    assert world.wait_for_refusal()
    assert world.api.list("Pod", namespace=world.namespace) == []


@table(runtime_cases.CASES, refused_later)
def test_every_trainjob_of_an_accepted_runtime_is_refused(
    case: runtime_cases.Case, world: World, make_job: Callable[..., Any], make_raw_runtime: Callable[..., Raw]
) -> None:
    runtime = make_raw_runtime(case.runtime, case.changes)
    world.add_runtime(runtime)
    ref = {"name": runtime["metadata"]["name"], "kind": "TrainingRuntime"}
    said = world.send_job(make_job({"spec.runtimeRef": ref}), STRICT)
    assert said or world.wait_for_refusal()


def test_every_exception_is_one() -> None:
    cases: list[Case] = [*job_cases.CASES, *runtime_cases.CASES]
    assert {key(case) for case in cases} >= EXCEPTIONS.keys() | RUNTIME_EXCEPTIONS.keys() | NO_EVENT.keys()


def test_a_resource_version_is_refused_by_a_create_that_is_not_dry(
    world: World, make_job: Callable[..., Any], make_raw_runtime: Callable[..., Raw]
) -> None:
    world.add_runtime(make_raw_runtime("torch"))
    ref = {"name": "torch-distributed", "kind": "TrainingRuntime"}
    job = make_job({"spec.runtimeRef": ref, "metadata.resourceVersion": "12"})
    assert "resourceVersion should not be set" in world.send_job(job, STRICT)


def test_a_wrong_name_of_a_namespace_is_refused(api: Api) -> None:
    with pytest.raises(ApiError, match="RFC 1123 label"):
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "Team_A"}})


@pytest.mark.parametrize("name", ["torch", "jax", "xgboost", "flux", "plain", "bare", "mpi", "mpi-node", "torchtune"])
def test_right_ones_are_accepted(
    name: str, world: World, make_job: Callable[..., Any], make_raw_runtime: Callable[..., Raw]
) -> None:
    runtime = {**make_raw_runtime(name), "kind": "TrainingRuntime"}
    assert world.send("TrainingRuntime", runtime, STRICT) == ""
    job = make_job({"spec.runtimeRef": {"name": runtime["metadata"]["name"], "kind": "TrainingRuntime"}})
    assert check(job, TrainingRuntime.from_raw(runtime)) == ()
    assert world.send_job(job) == ""


def test_a_rich_one_is_accepted(
    world: World, make_job: Callable[..., Any], make_raw_runtime: Callable[..., Raw]
) -> None:
    world.add_runtime(make_raw_runtime("torchtune"))
    job = make_job({**RICH, "metadata.namespace": world.namespace, "spec.runtimeRef.kind": "TrainingRuntime"})
    assert world.send_job(job) == ""


@pytest.mark.parametrize("value", [v for v in (*QUANTITIES, *NO_QUANTITIES) if str(v) not in ("nan", "inf")])
def test_quantities(
    value: Any, world: World, make_job: Callable[..., Any], make_raw_runtime: Callable[..., Raw]
) -> None:
    world.add_runtime(make_raw_runtime("plain"))
    ref = {"name": "plain", "kind": "TrainingRuntime"}
    job = make_job({"spec.runtimeRef": ref, f"{T}.resourcesPerNode.limits": {"cpu": value}})
    assert bool(world.send_job(job)) == bool(check(job, None))


@pytest.mark.parametrize("kind", ["TrainJob", "TrainingRuntime", "ClusterTrainingRuntime"])
def test_the_table_of_fields_is_the_crds(kind: str, api: Api) -> None:
    crd = api.get("CustomResourceDefinition", f"{kind.lower()}s.trainer.kubeflow.org")
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert sorted(_differences(shape_of(kind), schema, kind)) == []


def _differences(shape: Shape, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    kind = _kind_in(schema)
    if path.count(".") == 1 and path.endswith(".metadata"):
        return  # The CRDs leave the object's own metadata to the API server.
    if kind != shape.kind:
        yield f"{path}: {shape.kind}, in the CRD {kind}"
    elif kind == "object":
        known, there = shape.fields, schema.get("properties", {})
        yield from (f"{path}.{name}: not in the CRD" for name in known.keys() - there.keys())
        yield from (f"{path}.{name}: only in the CRD" for name in there.keys() - known.keys())
        if shape.required != set(schema.get("required", ())):
            yield f"{path}: requires {sorted(shape.required)}, in the CRD {schema.get('required')}"
        for name in known.keys() & there.keys():
            yield from _differences(known[name], there[name], f"{path}.{name}")
    elif shape.of is not None:
        yield from _differences(shape.of, schema.get("items") or schema["additionalProperties"], f"{path}[]")


def _kind_in(schema: Mapping[str, Any]) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity" if "pattern" in schema else "int-or-text"
    if schema["type"] == "object":
        return "map" if "additionalProperties" in schema else "object"
    if schema.get("format") == "date-time":
        return "time"
    kind = str(schema["type"])
    return {"array": "list", "string": "text", "integer": "int", "boolean": "bool"}.get(kind, kind)
