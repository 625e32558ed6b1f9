"""A configuration for the command line."""

YAML = """\
# A comment.
Block: [OutputNorm]
2: [[WeightNorm, "linear(5, 1)"], WeightGradNorm]
torch.nn.modules.batchnorm._BatchNorm: [MeanTID]
torch.relu: [[OutputMean, "every(2)"]]
"""
