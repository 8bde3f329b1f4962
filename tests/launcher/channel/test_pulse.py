"""When to beat and when to give up, on a clock that only moves when told to."""

from __future__ import annotations

from launcher.channel.connection import Heartbeat


def test_a_beat_is_due_after_a_fifth_of_the_limit() -> None:
    pulse = Heartbeat(20.0)
    assert (False, False) == (pulse.due(100.0), pulse.due(103.9))
    assert pulse.due(104.0)
    pulse.sent(104.0)
    assert (False, True) == (pulse.due(107.9), pulse.due(108.0))


def test_the_clock_starts_with_the_first_question() -> None:
    pulse = Heartbeat(5.0)
    assert (1.0, 0.0) == (pulse.timeout(1e9), pulse.silence(1e9))


def test_silence_kills_at_the_limit_and_not_before() -> None:
    pulse = Heartbeat(5.0)
    assert not any(pulse.dead(float(t)) for t in range(5))
    assert pulse.dead(5.0)
    assert 5.0 == pulse.silence(5.0)


def test_whatever_is_heard_counts_as_life() -> None:
    pulse = Heartbeat(5.0)
    for t in range(50):
        assert not pulse.dead(float(t))
        if t % 4 == 0:
            pulse.heard(float(t))


def test_what_is_sent_is_no_sign_of_the_others_life() -> None:
    pulse = Heartbeat(5.0)
    for t in range(5):
        pulse.sent(float(t))
    assert pulse.dead(5.0)


def test_the_timeout_is_the_nearer_of_the_next_beat_and_the_end() -> None:
    pulse = Heartbeat(5.0)
    assert 1.0 == pulse.timeout(0.0)
    for t in range(1, 5):
        pulse.sent(float(t))
        assert 1.0 == pulse.timeout(float(t))
    pulse.sent(4.5)
    assert 0.5 == pulse.timeout(4.5)


def test_no_timeout_is_negative() -> None:
    pulse = Heartbeat(5.0)
    pulse.timeout(0.0)
    assert 0.0 == pulse.timeout(1.5)


def test_a_process_that_did_not_run_itself_blames_nobody() -> None:
    pulse = Heartbeat(5.0)
    pulse.heard(0.0)
    assert not pulse.dead(3600.0)
    assert 1.0 == pulse.silence(3600.0)


def test_a_process_that_stops_again_and_again_still_gives_up() -> None:
    pulse, stops = Heartbeat(5.0), 0
    pulse.heard(0.0)
    while not pulse.dead(stops * 100.0):
        stops += 1
    assert 5 == stops


def test_silence_before_a_stop_is_not_forgotten() -> None:
    pulse = Heartbeat(5.0)
    for t in range(5):
        assert not pulse.dead(float(t))
    assert pulse.dead(1000.0)
