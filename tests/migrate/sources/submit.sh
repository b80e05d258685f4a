#!/bin/sh
# kubectl get pytorchjobs is only a comment
set -e
kubectl apply -n research -f jobs/language.yaml
kubectl -n research wait pytorchjob/language \
  --for=condition=Succeeded --timeout=2h
kubectl logs -l training.kubeflow.org/job-name=language,training.kubeflow.org/replica-type=master
kubectl get pytorchjobs.kubeflow.org -A
kubectl delete tfjob "$OLD"
kubectl create -f - <<EOF
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: digits-${RUN}}
spec:
  tfReplicaSpecs:
    Worker:
      template:
        spec:
          containers:
            - {name: tensorflow, image: "registry.example/digits:1", command: [python, d.py, "--run=${RUN}"]}
EOF
