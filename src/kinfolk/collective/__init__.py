"""Methods over instances and relations, for any task: relations, templates, stacking, mixtures, pairwise models."""
