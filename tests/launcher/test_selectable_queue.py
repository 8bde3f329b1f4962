"""A queue between threads that a selector can wait for: nothing is lost, and the end is safe."""

from __future__ import annotations

import select
import signal
import threading

from launcher.selectable_queue import SelectableQueue


def readable(box: SelectableQueue[int]) -> bool:
    return bool(select.select([box], [], [], 0)[0])


def test_it_is_readable_exactly_while_something_is_in_it() -> None:
    box: SelectableQueue[int] = SelectableQueue()
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
    box: SelectableQueue[tuple[int, int]] = SelectableQueue()
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
    box: SelectableQueue[int] = SelectableQueue()
    box.put(1)
    box.close()
    box.put(2)

    assert box.take() == [1]
    assert box.take() == []
    assert box.fileno() == -1
    box.close()


def test_a_full_queue_drops_what_comes_last() -> None:
    queue: SelectableQueue[int] = SelectableQueue(3)
    queue.put(1, 2)
    queue.put(3, 4)
    queue.put(5)

    assert queue.take() == [1, 2, 3]
    queue.put(6)
    assert queue.take() == [6]
    queue.close()


def test_its_owner_can_be_woken_without_an_item() -> None:
    queue: SelectableQueue[int] = SelectableQueue()
    queue.wake()
    assert readable(queue)
    assert queue.take() == []
    assert not readable(queue)
    queue.close()
    queue.wake()


def test_a_signal_handler_may_put_while_its_thread_is_inside() -> None:
    queue: SelectableQueue[int] = SelectableQueue()
    before = signal.signal(signal.SIGUSR1, lambda *_: queue.put(1))
    try:
        with queue._lock:
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert queue.take() == [1]
    queue.close()


def test_an_item_after_the_end_wakes_no_stranger() -> None:
    """The descriptor's number may belong to somebody else by now."""
    queue: SelectableQueue[int] = SelectableQueue()
    queue.close()
    other: SelectableQueue[int] = SelectableQueue()
    queue.put(1)
    queue.wake()

    assert not readable(other)
    other.close()
