"""Each rule looks at the evidence and yields findings of its kinds."""
