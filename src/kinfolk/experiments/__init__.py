"""One file a table or figure: run it, print it beside the figures of the paper."""
