"""The adapter to a Kubernetes cluster with Kubeflow Trainer.

Only modules of this folder import ``kubernetes``, and only ``client`` does. It uses the surface that versions 29 to 37
of the client have in common: ``config.load_*``, generated methods with ``_preload_content=False``, plain dict bodies
and ``ApiException.status``; never typed models, never ``call_api`` (its signature changed in 37), never global state.
An error of the client or of the network becomes one of ours in ``failures``. May import: ``backends.base``, ``model``,
``errors``.
"""
