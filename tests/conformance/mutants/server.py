"""Reference server with faults (placeholder)."""
def main(arguments): return 0
