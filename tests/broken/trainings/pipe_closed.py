# ranks: 1
# cause: none

"""A process of the user's own ends without an answer."""

import multiprocessing


def work(answers):
    answers.close()


if __name__ == "__main__":
    ours, theirs = multiprocessing.Pipe()
    worker = multiprocessing.get_context("fork").Process(target=work, args=(theirs,))
    worker.start()
    theirs.close()
    print(ours.recv())
