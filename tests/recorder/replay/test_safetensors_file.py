"""Files in the format of safetensors."""

import pytest
import torch

from taiyi_fx.recorder.replay.safetensors_file import read_tensors, write_tensors

TENSORS = {
    "half": torch.randn(3).half(),
    "wide": torch.randn(2, 3, dtype=torch.float64),
    "turned": torch.randn(4, 2).t(),
    "flags": torch.tensor([True, False, True]),
    "bytes": torch.arange(5, dtype=torch.uint8),
    "brain": torch.randn(1, 5).bfloat16(),
    "none": torch.empty(0, 4),
    "one": torch.tensor(7),
}


def same(a, b):
    return (a.dtype, a.shape) == (b.dtype, b.shape) and torch.equal(a, b)


def test_what_is_read_is_what_was_written(tmp_path):
    file = tmp_path / "a.safetensors"
    write_tensors(file, TENSORS, {"said": "größer"})
    found, metadata = read_tensors(file)
    assert metadata == {"said": "größer"}
    assert {*found} == {*TENSORS}
    assert all(same(found[name], x) for name, x in TENSORS.items())


def test_the_package_of_the_format_reads_and_writes_the_same(tmp_path):
    package = pytest.importorskip("safetensors.torch")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    write_tensors(ours, TENSORS, {})
    assert all(same(package.load_file(ours)[name], x) for name, x in TENSORS.items())
    package.save_file({n: x.contiguous() for n, x in TENSORS.items()}, theirs, {"a": "b"})
    found, metadata = read_tensors(theirs)
    assert metadata == {"a": "b"}
    assert all(same(found[name], x) for name, x in TENSORS.items())


def test_a_type_that_the_format_lacks_is_refused(tmp_path):
    with pytest.raises(TypeError, match=r"no torch\.complex64, of which z is"):
        write_tensors(tmp_path / "a", {"z": torch.ones(2, dtype=torch.complex64)}, {})
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("keep", [0, 5, 40, -1])
def test_a_part_of_a_file_is_refused(tmp_path, keep):
    file = tmp_path / "a"
    write_tensors(file, TENSORS, {})
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(ValueError, match="safetensors"):
        read_tensors(file)


def test_another_file_is_refused(tmp_path):
    file = tmp_path / "a"
    for content in (b"\x02" + b"\0" * 7 + b"[]", b"\x08" + b"\0" * 7 + b'{"a":{}}', b"text" * 9):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="safetensors"):
            read_tensors(file)
