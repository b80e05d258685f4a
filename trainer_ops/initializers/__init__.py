"""Dataset and model snapshots: one verified copy that many trainings share.

``source`` (pure) says what is asked for, ``provider`` what a scheme must be able to do, ``open`` which module does it;
``take`` makes a snapshot in a store, ``store`` says what a store must be able to do, ``folder_store`` and
``object_store`` are the stores, ``locks`` and ``claims`` let only one process make a snapshot, ``collect`` removes what
nobody needs. A store's root holds::

    <key>/manifest.json   source, revision, patterns, path, size and sha256 of every file; written last
    <key>/data/…          the files; nothing here is ever changed
    .partial/<key>/       what a broken download goes on from
    .locks/<key>          held by whoever makes that snapshot

A folder with a manifest is a whole snapshot, and nothing else is one: in a folder both come with one rename, in object
storage the manifest is the last object to come and the first to go.

May import: ``backends.base``, ``model``, ``errors``, the standard library; huggingface_hub, fsspec and its drivers
late, and only in the module of the scheme that needs them. Runs in a container of its own on a cluster
(``python -m trainer_ops.initializers``), so nothing of a front end or of ``lifecycle`` is used here.
"""
