"""The command line: a thin layer over `parley_server.api`."""
