"""Training runs as steps of larger pipelines, on Kubeflow Trainer v2 or on this machine."""
