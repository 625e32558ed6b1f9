"""The report: a run as one file to look at in a browser, or live."""
