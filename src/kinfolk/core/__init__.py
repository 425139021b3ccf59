"""What every room stands on: settings, data, tables and files, model files, training, threads."""
