"""Models that cannot be instrumented."""


def test_a_model_that_cannot_be_instrumented_is_told(cli, models, write):
    write(
        "wrapped.py",
        f"from torch import nn\nimport {models}\n\ndef net():\n    return nn.DataParallel({models}.net())\n",
    )
    code, _, err = cli("check", "wrapped:net", write("c.yaml", "Block: [OutputNorm]\n"))
    assert code == 2
    assert "use DistributedDataParallel(instrument(model, cfg))" in err
