"""Has the server at a socket start a module with the rest of the arguments, and ends as that.

`socket` and `signal` take longer to import than all else that this does.
"""

import _signal as signal
import _socket as socket
import marshal
import os
import sys


def main(path: str, *module_and_arguments: str) -> None:
    link = socket.socket(socket.AF_UNIX)
    link.connect(path)
    asked = marshal.dumps((list(module_and_arguments), os.getcwd(), dict(os.environ)))
    more = [int(os.environ["PMI_FD"])] if "PMI_FD" in os.environ else []
    streams = b"".join(each.to_bytes(4, sys.byteorder) for each in (0, 1, 2, *more))
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)
    link.sendmsg([len(asked).to_bytes(8, "little")], [rights])
    link.sendall(asked)
    said = link.recv(4)
    if not said:
        sys.exit("the server has gone")
    status = int.from_bytes(said, "little")
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    main(*sys.argv[1:])
