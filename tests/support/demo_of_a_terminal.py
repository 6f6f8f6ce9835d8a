"""`python -m tests.support.demo_of_a_terminal`: the demo, with its standard input as the terminal signals come from."""

import fcntl
import runpy
import termios


def main() -> None:
    """Take the terminal, and be the demo."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    runpy.run_module("examples.demo", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
