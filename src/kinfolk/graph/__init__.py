"""Nodes in graphs: graphs, where they come from, models of nodes, their explanations and commands."""
