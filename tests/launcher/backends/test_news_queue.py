from __future__ import annotations

import select
import threading

from launcher.backends.base import Newsbox


def readable(box: Newsbox[int]) -> bool:
    return bool(select.select([box], [], [], 0)[0])


def test_it_is_readable_exactly_while_something_is_in_it() -> None:
    box: Newsbox[int] = Newsbox()
    assert not readable(box)
    box.put()
    assert not readable(box)
    box.put(1, 2)
    box.put(3)
    assert readable(box)
    assert box.take() == [1, 2, 3]
    assert not readable(box)
    assert box.take() == []
    box.close()


def test_threads_lose_nothing_and_keep_their_order() -> None:
    box: Newsbox[tuple[int, int]] = Newsbox()
    count, threads = 2000, 4
    start = threading.Barrier(threads)

    def speak(who: int) -> None:
        start.wait()
        for number in range(count):
            box.put((who, number))

    speakers = [threading.Thread(target=speak, args=(who,)) for who in range(threads)]
    for speaker in speakers:
        speaker.start()
    heard: list[tuple[int, int]] = []
    while len(heard) < count * threads:
        assert select.select([box], [], [], 10)[0]
        heard += box.take()
    for speaker in speakers:
        speaker.join()

    for who in range(threads):
        assert [number for speaker, number in heard if speaker == who] == list(range(count))
    assert not select.select([box], [], [], 0)[0]
    box.close()


def test_after_its_end_nothing_is_taken_in() -> None:
    box: Newsbox[int] = Newsbox()
    box.put(1)
    box.close()
    box.put(2)

    assert box.take() == [1]
    assert box.take() == []
    assert box.fileno() == -1
    box.close()
