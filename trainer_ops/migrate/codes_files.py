"""The codes of findings about files: what stands around v1 jobs, and what cannot be read. Part of ``codes.CODES``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainer_ops.migrate.code import Code

__all__ = ["FILE_CODES"]

FILE_CODES: Final[Mapping[str, Code]] = {
    "ADMISSION": Code(
        "the result would be refused",
        "refused",
        "Correct the v1 job there; v1 let it pass",
        "What comes out is held to the rules of Trainer's API server, webhooks and JobSet, here and with "
        "--apply-check by the cluster itself. What they refuse is not written.",
    ),
    "ALONGSIDE": Code(
        "something beside the jobs knows v1",
        "warning",
        "",
        "Rights, quotas, monitors, network policies and Kueue's configuration name kinds and labels. Those of "
        "v1 match nothing any more: TrainJobs are trainjobs.trainer.kubeflow.org, and their pods carry the "
        "labels of JobSet.",
    ),
    "ANCHORS": Code(
        "anchors and merge keys",
        "info",
        "",
        "YAML's anchors (&name), aliases (*name) and merge keys (<<) inside a converted job are written out: "
        "the result has other fields than the job, so they would share nothing.",
    ),
    "NAME-CLASH": Code(
        "two jobs would be one TrainJob",
        "refused",
        "Rename one of them, or give them different namespaces",
        "v1 kept jobs of two kinds apart though they had one name; all of them become TrainJobs. In one file the later "
        "would overwrite the earlier when it is applied, so it is refused; of two files, which may be for two "
        "clusters, it is a warning.",
    ),
    "OLD-OVERRIDES": Code(
        "overrides of an older Trainer",
        "warning",
        "Write them as spec.runtimePatches",
        "podSpecOverrides (Trainer 2.0) and podTemplateOverrides (2.1) are fields that Trainer 2.2 and later do "
        "not know: the API server drops them without a word.",
    ),
    "OVERLAY": Code(
        "kustomize changes v1 jobs",
        "refused",
        "Render it (kustomize build DIR > all.yaml) and migrate that",
        "A patch for a v1 job has no meaning on a TrainJob, whose fields are elsewhere, and it cannot be converted "
        "without the job that it changes.",
    ),
    "TEMPLATE": Code(
        "a template, not a job yet",
        "refused",
        "Render it (helm template DIR > all.yaml) and migrate that",
        "Text with {{ }} becomes YAML only when its values are known; fields, counts and even whole roles may hang "
        "on them.",
    ),
    "TORCHTUNE": Code(
        "a torchtune runtime",
        "info",
        "",
        "Trainer's torchtune runtimes fine-tune a model by the command tune run, with parts of the arguments "
        "reserved. They are v2 already and are left as they are.",
    ),
    "UNREADABLE": Code(
        "what cannot be read",
        "refused",
        "Correct the file there",
        "The file, or a document of it, is no UTF-8 text, no YAML, or YAML that JSON and so the Kubernetes API "
        "cannot say. It is left as it is; other documents of the file are converted.",
    ),
    "WRAPPER": Code(
        "a job inside something else",
        "info",
        "",
        "Katib experiments, Argo workflows, AppWrappers, ConfigMaps and Markdown hold jobs. The job is converted in "
        "its place; a runtime that it needs stands before the whole, and has to be applied before it.",
    ),
}
