"""What to do about a failure, from the last lines of its log. The category stays what the exit says."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["from_log", "out_of_gpu_memory"]

_GPU_MEMORY = re.compile(r"(CUDA|HIP) out of memory|CUDA_ERROR_OUT_OF_MEMORY|OutOfMemoryError: (CUDA|HIP)")

# First match wins, tried on the last line first: Python ends a traceback with the error itself. {0} is the group.
_TABLE = tuple(
    (re.compile(pattern), remedy)
    for pattern, remedy in (
        (_GPU_MEMORY.pattern, "Use a smaller batch or more memory-saving settings, or a GPU with more memory."),
        (
            r"(?:ModuleNotFoundError|ImportError): No module named '?([\w.]+)",
            "Add {0} to packages (by the name it has on PyPI), or use an image that has it.",
        ),
        (
            r"packages cannot be installed .*neither pip nor uv",
            "Put pip (or uv) beside its python, or use an image that has them or the packages.",
        ),
        (
            r"FileNotFoundError: .*?['\"]?(/?[^'\"\s\]]+)['\"]?$",
            (
                "Check the path {0}: only what the image has and what is mounted exists in the container; with several "
                "nodes it must exist on each of them. Data for all nodes: trainer-ops init dataset --help"
            ),
        ),
        (
            r"Permission(?:s \d+ for .* are too open| denied \(publickey)",
            (
                "The MPI launcher's ssh refuses the key or is refused: run as a user other than root, or copy the "
                "key and give it mode 0600."
            ),
        ),
        (r"PermissionError: .*?['\"]?(/[^'\"\s]+)['\"]?$", "Write to a mounted volume: {0} is not writable."),
        (r"No space left on device", "Free or enlarge the disk it writes to, or write checkpoints elsewhere."),
        (
            r"[Bb]us error|shared memory|/dev/shm",
            (
                "Give the pod more shared memory (mount an emptyDir of medium Memory at /dev/shm), or use fewer "
                "data-loading workers."
            ),
        ),
        (
            r"[Rr]endezvous|TCPStore|timed out after \d+ seconds waiting for clients|DistStoreError",
            (
                "The nodes did not find each other: check that all of them ran at the same time, that num_nodes is "
                "right, and that no network policy is between them."
            ),
        ),
        (
            r"NCCL (?:error|WARN)|ncclSystemError|ncclUnhandled|ProcessGroupNCCL|Watchdog caught collective",
            (
                "Communication between GPUs failed: look for the node that stopped first, and set NCCL_DEBUG=INFO to "
                "see which network interface is used (NCCL_SOCKET_IFNAME chooses it)."
            ),
        ),
        (
            r"no CUDA-capable device|Found no NVIDIA driver|not compiled with CUDA|driver version is insufficient",
            "Ask for GPUs in resources_per_node, and use an image whose CUDA fits the machines' driver.",
        ),
        (
            r"There are not enough slots available",
            "Ask mpirun for at most as many ranks as num_nodes times num_proc_per_node.",
        ),
        (
            r"GatedRepoError|401 Client Error|RepositoryNotFoundError",
            "Give a token that may read it (a Secret with HF_TOKEN), and accept the model's terms first.",
        ),
        (r"MemoryError|std::bad_alloc|can't allocate memory|Cannot allocate memory", "Give the nodes more memory."),
        (
            r"Address already in use",
            "Another process has the port: let torchrun or the runtime choose it instead of fixing it in the code.",
        ),
        (r"error: (?:unrecognized arguments|the following arguments are required): (.+)", "Check the arguments: {0}."),
        (
            r"KeyError: '([A-Z][A-Z0-9_]+)'",
            "Set {0} in env, if it is the environment variable that the code asks for.",
        ),
        (
            r"Could not resolve host|Name or service not known|failure in name resolution|NameResolutionError",
            "A host name is not known inside the container: check it, and whether the cluster lets nodes reach it.",
        ),
        (r"(?:SyntaxError|IndentationError): ", "Correct the code at the line that the traceback names."),
    )
)


def from_log(lines: Sequence[str]) -> str:
    """The remedy for the last line that is known trouble, "" when none is."""
    for line in reversed(lines):
        for pattern, remedy in _TABLE:
            found = pattern.search(line)
            if found:
                return remedy.format(*(g if g is not None else "" for g in found.groups()))
    return ""


def out_of_gpu_memory(lines: Sequence[str]) -> bool:
    """Whether a GPU's memory ran out: no kernel kills for that, the program ends with an ordinary code."""
    return any(_GPU_MEMORY.search(line) for line in lines)
