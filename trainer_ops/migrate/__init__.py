"""From v1 training jobs (PyTorchJob, TFJob, MPIJob, XGBoostJob, PaddleJob, JAXJob) to TrainJobs that train the same.

Every leaf of a job ends in exactly one of mapped, dropped with a reason, refused (``ledger``); what cannot be carried
is a ``Finding`` with a code, never a silence. ``normalise`` reads a job as its operator would, ``plan`` decides,
``emit`` writes, ``simulate`` plays both generations and ``compare`` says what still differs.

Pure: values in, values out; no file, clock, socket or log. May import: ``model``, ``errors``, yaml.
"""
