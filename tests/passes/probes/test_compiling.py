"""Whether what runs becomes part of compiled code."""

import threading

import torch

from taiyi_fx.passes.probes.compiling import (
    constant_when_compiled,
    for_compiled_code,
    is_compiling,
    may_have_size_of,
    one_operation,
)


def test_what_is_measured_for_compiled_code_says_so_in_its_thread_alone():
    seen = []
    assert not is_compiling()
    with for_compiled_code(), for_compiled_code():
        assert is_compiling()
        thread = threading.Thread(target=lambda: seen.append(is_compiling()))
        thread.start()
        thread.join()
    assert not is_compiling()
    assert seen == [False]


def test_it_is_over_when_the_measure_failed():
    try:
        with for_compiled_code():
            raise ValueError
    except ValueError:
        pass
    assert not is_compiling()


def test_a_state_may_grow_with_its_tensor_where_compiled_code_merges_none():
    assert may_have_size_of(3)
    with for_compiled_code(are_merged=False):
        assert may_have_size_of(3)
        with for_compiled_code():
            assert not may_have_size_of(3)
        assert may_have_size_of(3)


def test_a_number_that_the_compiler_leaves_open_is_no_size_of_a_state():
    seen = []

    def backend(graph, inputs):
        given = (node.meta["example_value"] for node in graph.graph.find_nodes(op="placeholder"))
        (x,) = (x for x in given if isinstance(x, torch.Tensor))
        with for_compiled_code(are_merged=False):
            seen.append(may_have_size_of(x.shape[0]))
        return graph.forward

    for is_open in (False, True):
        torch.compiler.reset()
        torch.compile(lambda x: x + 1, backend=backend, dynamic=is_open)(torch.zeros(4, 4))
    assert seen == [True, False]


def test_one_operation_is_the_function_itself():
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    from taiyi_fx.passes.probes import compiling

    before = list(compiling._ONE_OPERATION)
    try:
        assert one_operation(function) is function
    finally:
        compiling._ONE_OPERATION[:] = before


def test_the_compiler_answers_for_what_it_goes_through():
    def both(x):
        return x + (1 if is_compiling() else 0)

    compiled = torch.compile(both, backend="eager", fullgraph=True)
    assert compiled(torch.zeros(1)) == 1
    assert both(torch.zeros(1)) == 0


def test_a_constant_is_marked_as_torch_marks_one():
    ours, torchs = lambda: 1, lambda: 1
    constant_when_compiled(ours)
    torch.compiler.assume_constant_result(torchs)
    assert vars(ours) == vars(torchs) != {}
