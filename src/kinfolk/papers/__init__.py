"""The experiments of the papers, and a harness that runs them."""
