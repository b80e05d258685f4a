"""The adapter to a Kubernetes cluster with Kubeflow Trainer.

Only modules of this folder import ``kubernetes``: ``access`` its configuration, ``client`` its API. They use the
surface that versions 29 to 37 of the client have in common: ``config.load_*``, generated methods with
``_preload_content=False``, plain dict bodies and ``ApiException.status``; never typed models, never ``call_api`` (its
signature changed in 37), never global state. An error of the client or of the network becomes one of ours in
``failures``. Rules are pure and have no I/O (``address``, ``failures``, ``kinds``, ``lineage``, ``mirror``,
``podlogs``). May import: ``backends.base``, ``backends.steps``, ``backends.waker``, ``model``, ``errors``.
"""
