"""The command line, thin: arguments in, library calls, tables out."""
