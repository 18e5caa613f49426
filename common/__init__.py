"""What the five steps share, twincheck.common.X. README.md says where to start."""

if __name__ == "common":  # under its old name, which users' pairs and commands have
    from twincheck.old_name import answer

    answer()
