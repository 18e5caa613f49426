"""Chinese on the page, in the terminal and in a pull request's report: an extra beside the core."""
