"""The embedded engine: TrainJobs as processes of this machine, behind the same port as a cluster.

``engine.LocalBackend`` is the port; ``plan`` (pure) says what to run; a detached ``supervisor`` per TrainJob under a
``guard`` runs it; ``reaper`` puts right what lost them. State is what a cluster would show, in the cluster's own shape,
so that ``status`` judges both alike. A root folder holds::

    state.db                     TrainJobs, pods, events, claims (SQLite, WAL: a local file system)
    reaper.lock                  held by whoever ends a TrainJob that lost its supervisor
    runtimes/*.yaml              optional: more (Cluster)TrainingRuntimes
    checkpoints/<run key>/       TRAINER_OPS_CHECKPOINT_DIR where the request names none; outlives the TrainJob
    jobs/<uid>/                  everything of one TrainJob, gone with it
      logs/<pod>.<container>.<run>.log   stdout and stderr of one run of one container
      results/                   termination messages
      workspace/dataset, model   what the initializers fetched
      supervisor.log             what went wrong in guard and supervisor; usually empty
      changed, wake, alive, token   times to look at, a FIFO to wake the supervisor, its heartbeat, the progress token

May import: ``backends.base``, ``model``, ``errors``, the standard library; psutil, yaml and huggingface_hub late. What
a supervisor imports is paid for by every training: standard library and light modules of ours only.
"""
