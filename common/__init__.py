"""What the five steps share, twincheck.common.X. README.md says where to start."""

if __name__ == "common":  # python -m common.X was a command's name once
    import sys

    from twincheck.common.system.door import to_type
    from twincheck.common.system.program import say_error
    from twincheck.common.system.reasons import Kind

    say_error(Kind.SPELLED_AS_BEFORE(command=to_type("COMMAND"), help=to_type("--help")))
    sys.exit(2)
