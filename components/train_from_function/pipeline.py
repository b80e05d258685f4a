"""An example pipeline: train from a function, with a number of the pipeline among its arguments.

Run it on this machine with ``.venv-kfp/bin/python -m components.train_from_function.pipeline``.
"""

from kfp import dsl, local

from trainer_ops.kfp import train_from_function


def fit(rounds: int, rate: float) -> dict[str, float]:
    """Find the minimum of a parabola by gradient descent; each node does the same."""
    from trainer_ops import report

    position = 8.0
    for done in range(rounds):
        position -= rate * 2 * (position - 3.0)
        report(progress=round(100 * (done + 1) / rounds), metrics={"loss": (position - 3.0) ** 2})
    return {"loss": (position - 3.0) ** 2, "position": position}


@dsl.component(base_image="python:3.11", install_kfp_package=False)
def announce(metrics: dsl.Input[dsl.Metrics]) -> float:
    """Say what was found."""
    print(f"the minimum is at {metrics.metadata['position']:.3f}")
    return float(metrics.metadata["position"])


@dsl.pipeline(name="minimum")
def minimum(rounds: int = 30, target: str = "") -> float:
    """Train on two nodes and announce where the minimum is."""
    train = train_from_function(
        fit, kwargs={"rounds": rounds, "rate": 0.2}, runtime="plain", num_nodes=2, target=target
    )
    train.set_caching_options(False)
    said = announce(metrics=train.outputs["metrics"])
    said.set_caching_options(False)
    return said.output


if __name__ == "__main__":
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root="local_outputs", raise_on_error=True)
    print(minimum().output)
