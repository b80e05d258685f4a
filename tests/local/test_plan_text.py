from fractions import Fraction

import pytest

from trainer_ops.local.plan_text import Rewrite, count_of, expand, gpus, quantity

KNOWN = {"A": "1", "B": "two", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("plain", "plain", id="nothing to do"),
        pytest.param("$(A)-$(B)", "1-two", id="known names"),
        pytest.param("x$(EMPTY)y", "xy", id="an empty value"),
        pytest.param("$(NOPE)", "$(NOPE)", id="an unknown name stays"),
        pytest.param("$$(A)", "$(A)", id="escaped"),
        pytest.param("$$$(A)", "$1", id="an escape, then a reference"),
        pytest.param("$$$$(A)", "$$(A)", id="two escapes"),
        pytest.param("$A ${A} $", "$A ${A} $", id="a shell's own syntax is left to the shell"),
        pytest.param("$(A", "$(A", id="never closed"),
        pytest.param("$()", "$()", id="no name"),
        pytest.param('{"index":$(A)}', '{"index":1}', id="inside JSON"),
    ],
)
def test_expand(text: str, expected: str) -> None:
    assert expand(text, KNOWN) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2", Fraction(2)),
        ("500m", Fraction(1, 2)),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("4Gi", Fraction(4 * 2**30)),
        ("1G", Fraction(10**9)),
        ("1e3", Fraction(1000)),
        ("12E2", Fraction(1200)),
        ("1E", Fraction(10**18)),
        ("many", None),
        ("", None),
        ("1 Gi", None),
    ],
)
def test_quantity(text: str, expected: Fraction | None) -> None:
    assert quantity(text) == expected


def test_counts_round_up_and_take_numbers_too() -> None:
    assert [count_of(v) for v in (None, "500m", "2500m", 3, 1.5, "x")] == [0, 1, 3, 3, 2, 0]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, 0),
        ({"requests": {"nvidia.com/gpu": 2}}, 2),
        ({"limits": {"nvidia.com/gpu": "4"}}, 4),
        ({"requests": {"cpu": 1, "amd.com/gpu": "1"}, "limits": {"amd.com/gpu": "3"}}, 1),
        ({"limits": {"nvidia.com/mig-1g.5gb": 1, "google.com/tpu": 4}}, 0),
    ],
)
def test_gpus(resources: dict[str, dict[str, object]], expected: int) -> None:
    assert gpus(resources) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("/workspace/dataset", "/j/d", id="itself"),
        pytest.param("--data=/workspace/dataset/train.csv", "--data=/j/d/train.csv", id="below it"),
        pytest.param("file:///workspace/dataset/x", "file:///j/d/x", id="as a URI"),
        pytest.param("/workspace/model:/workspace/dataset", "/j/m:/j/d", id="a list of paths"),
        pytest.param("cat '/workspace/dataset'", "cat '/j/d'", id="quoted, in a shell's text"),
        pytest.param("/workspace/dataset2", "/workspace/dataset2", id="another name"),
        pytest.param("/workspace/dataset-old", "/workspace/dataset-old", id="another name with a dash"),
        pytest.param("/data/workspace/dataset", "/data/workspace/dataset", id="the tail of another path"),
        pytest.param("/workspace", "/workspace", id="above it"),
        pytest.param("/etc/mpi/hostfile", "/j/mpi/hostfile", id="a file"),
        pytest.param("t-node-0-1.t", "127.0.0.1", id="a pod's name"),
        pytest.param("tcp://t-node-0-0.t:29500", "tcp://127.0.0.1:29500", id="in a URL, the port stays"),
        pytest.param("t-node-0-0.t.default.svc", "127.0.0.1", id="with namespace"),
        pytest.param("t-node-0-0.t.ml.svc.cluster.local", "127.0.0.1", id="fully qualified"),
        pytest.param("t-node-0-10.t", "127.0.0.1", id="two digits"),
        pytest.param("t-node-0-2.t", "t-node-0-2.t", id="no such pod"),
        pytest.param("not-node-0-0.t", "not-node-0-0.t", id="another job"),
        pytest.param("t-node-0-0.tx", "t-node-0-0.tx", id="another domain"),
        pytest.param("t-node-0-0", "t-node-0-0", id="a host name alone is what HOSTNAME is"),
    ],
)
def test_rewrite(text: str, expected: str) -> None:
    paths = [
        ("/workspace/dataset", "/j/d"),
        ("/workspace/model", "/j/m"),
        ("/etc/mpi/hostfile", "/j/mpi/hostfile"),
    ]
    assert Rewrite(paths, ["t-node-0-0.t", "t-node-0-1.t", "t-node-0-10.t"], "127.0.0.1")(text) == expected


def test_rewrite_says_what_it_did_once() -> None:
    rewrite = Rewrite([("/a", "/b"), ("/same", "/same"), ("/unused", "/x")], ["t-node-0-0.t"], "127.0.0.1")
    assert rewrite.notes() == []
    rewrite("/a/1 /a/2 t-node-0-0.t /same")
    rewrite("/a")
    assert rewrite.notes() == ["/a is /b on this machine", "the pods' host names are 127.0.0.1 on this machine"]


def test_the_longest_path_wins() -> None:
    rewrite = Rewrite([("/mnt", "/host"), ("/mnt/data", "/big")], [], "127.0.0.1")
    assert rewrite("/mnt/data/x /mnt/y") == "/big/x /host/y"
