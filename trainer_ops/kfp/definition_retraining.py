"""``decide_retraining`` and ``promote_model``: around a training on a schedule. Signatures, see ``definition``."""

from collections.abc import Sequence
from typing import Any, Optional

from kfp import dsl

from trainer_ops.kfp.define import IMAGE, component

__all__ = ["decide_retraining", "decide_retraining_component", "promote_model", "promote_model_component"]

# ruff: noqa: UP045 - Optional is kfp's own spelling
# mypy: disable-error-code="type-arg, no-untyped-def, valid-type"


def decide_retraining(
    train: dsl.OutputPath(bool),
    reason: dsl.OutputPath(str),
    champion_uri: dsl.OutputPath(str),
    plan: dsl.OutputPath(dict),
    registry: str,
    snapshot: Optional[dict] = None,
    script_uri: str = "",
    settings: Optional[dict] = None,
    force: bool = False,
):
    """Whether there is anything new to learn: not when the champion was trained from the very same data and code.

    Args:
        train: whether to train, for dsl.If.
        reason: one sentence for a person.
        champion_uri: the model in use, "" for none; for an evaluation that measures it too.
        plan: for promote_model.
        registry: where champions are: s3://bucket/prefix, file:///folder, or mlflow://NAME.
        snapshot: the data: what initialize_dataset gave.
        script_uri: the code, as train_job gets it; it is read here too.
        settings: what else the model is made from: rounds, rates, the image.
        force: train all the same.
    """


def promote_model(
    model: dsl.Output[dsl.Model],
    promoted: dsl.OutputPath(bool),
    text: dsl.OutputPath(str),
    champion_uri: dsl.OutputPath(str),
    conclusion: dsl.OutputPath(dict),
    registry: str,
    plan: dict,
    model_uri: str,
    outcome: Optional[dict] = None,
    metrics: Optional[dict] = None,
    metric: str = "accuracy",
    margin: float = 0.0,
    mode: str = "max",
    threshold: Optional[float] = None,
    keep: int = 5,
    copy: bool = True,
    note: Optional[dict] = None,
):
    """Put a model into use when it is better than the one in use, at once or not at all, and remove old ones.

    Doing it again concludes the same.

    Args:
        model: the model in use now; its metadata say which version it is and whether it was promoted now.
        promoted: whether it was.
        text: why, in one line for a person.
        champion_uri: the model in use now, "" for none.
        conclusion: all of it.
        registry: as of decide_retraining.
        plan: what decide_retraining gave.
        model_uri: where the training left the model: its output of that name.
        outcome: of the evaluation: its metrics count, and champion_METRIC among them as the champion's own.
        metrics: the same by themselves.
        metric: which of them decides.
        margin: by how much it must be better, in the metric's own unit.
        mode: max where more is better, min where less is.
        threshold: what even the first champion must reach.
        keep: how many promoted models stay, the champion counted.
        copy: keep a copy in the registry; without one the champion is where the training left it.
        note: plain data to keep beside the model.
    """


_decide_retraining, _promote_model = decide_retraining, promote_model


def decide_retraining_component(*, base_image: str = IMAGE, packages_to_install: Sequence[str] = ()) -> Any:
    """``decide_retraining`` on another image; see ``train_job_component``."""
    return component(_decide_retraining, image=base_image, packages=packages_to_install)


def promote_model_component(*, base_image: str = IMAGE, packages_to_install: Sequence[str] = ()) -> Any:
    """``promote_model`` on another image; see ``train_job_component``."""
    return component(_promote_model, image=base_image, packages=packages_to_install)


decide_retraining = decide_retraining_component()
promote_model = promote_model_component()
