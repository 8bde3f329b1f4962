"""Where ranks were when a run hung: told by their stacks, the odd one out first."""

from __future__ import annotations

import pytest

from launcher.diagnosis.stacks import Standstill, _kept_groups, _place_in, standstill_line, standstills
from launcher.state.events import StacksTaken

TORCH = "/v/lib/python3.11/site-packages/torch/distributed/"


def taken(rank: int, *frames: str, reason: str = "", head: str = "Current thread") -> StacksTaken:
    lines = [f"  File {frame}" for frame in frames]
    text = "\n".join([f"{head} 0x7f (most recent call first):", *lines]) + "\n" if frames else ""
    return StacksTaken(time=1.0, rank=rank, text=text, reason=reason)


MAIN = '"/w/hang.py", line 12 in main'
LAST = '"/w/hang.py", line 20 in <module>'


def test_the_odd_one_out_comes_first() -> None:
    waiting = taken(0, f'"{TORCH}x.py", line 4 in all_reduce_wait', MAIN, LAST)
    assert (
        "rank 0 waits in all_reduce_wait (hang.py:12); ranks 1-2 are in main (hang.py:12)"
        == standstill_line([taken(2, MAIN, LAST), waiting, taken(1, MAIN, LAST)])
    )


def test_who_is_in_a_collective_is_told_by_its_name_and_the_users_own_line() -> None:
    frames = f'"{TORCH}distributed_c10d.py", line 2810 in all_reduce', MAIN, LAST
    wrapped = f'"{TORCH}distributed_c10d.py", line 5 in wait', *frames
    loading = (
        '"/v/lib/python3.11/socket.py", line 9 in readinto',
        '"/w/data.py", line 7 in Loader.fetch',
        LAST,
    )
    assert ["rank 3 is in socket.readinto (data.py:7)", "ranks 0-2 wait in all_reduce (hang.py:12)"] == [
        str(group) for group in standstills([*(taken(n, *frames) for n in range(3)), taken(3, *loading)])
    ]
    assert "rank 0 waits in wait (hang.py:12)" == standstill_line([taken(0, *wrapped)])


def test_of_as_many_ranks_those_come_first_that_wait_for_nobody() -> None:
    told = standstills([taken(0, f'"{TORCH}c.py", line 1 in barrier', MAIN), taken(1, MAIN)])
    assert [False, True] == [group.waits for group in told]


def test_the_thread_that_answered_counts_and_else_the_oldest() -> None:
    other = taken(0, '"/w/x.py", line 1 in heartbeat', head="Thread").text
    both = StacksTaken(time=1.0, rank=0, text=f"{other}\n{taken(0, MAIN).text}")
    neither = StacksTaken(time=1.0, rank=0, text=f"{other}\n{taken(0, MAIN, head='Thread').text}")
    assert {"rank 0 is in main (hang.py:12)"} == {standstill_line([both]), standstill_line([neither])}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], ""),
        ([taken(0, reason="it printed none\n  more")], "rank 0 gave no stacks: it printed none"),
        ([StacksTaken(time=1.0, rank=0, text="no frames here")], "rank 0 gave no stacks"),
        ([taken(n, f'"/w/x.py", line {n} in f') for n in range(5)], "and 2 other places"),
    ],
)
def test_what_is_not_known_is_said(given: list[StacksTaken], said: str) -> None:
    assert standstill_line(given).endswith(said)


def test_library_code_alone_is_told_by_its_innermost_frame() -> None:
    (group,) = standstills([taken(0, '"/usr/lib/python3.11/runpy.py", line 3 in run')])
    assert Standstill((0,), "runpy.run", "runpy.py:3") == group


PYTHON = "/usr/lib/python3.11/"
PACKAGES = "/v/lib/python3.11/site-packages/"


@pytest.mark.parametrize(
    ("frames", "told"),
    [
        (('"/w/hang.py", line 4 in wait', MAIN), "wait (hang.py:4)"),
        (('"/w/hang.py", line 4 in reduce', MAIN), "reduce (hang.py:4)"),
        ((f'"{PYTHON}threading.py", line 629 in wait', MAIN), "threading.wait (hang.py:12)"),
        (
            (f'"{PYTHON}threading.py", line 320 in wait', f'"{PYTHON}queue.py", line 171 in get', MAIN),
            "queue.get (hang.py:12)",
        ),
        (
            (
                f'"{PACKAGES}torch/serialization.py", line 7 in save',
                f'"{PACKAGES}torch/distributed/checkpoint/utils.py", line 7 in all_reduce',
                MAIN,
            ),
            "torch.distributed.checkpoint.utils.all_reduce (hang.py:12)",
        ),
        ((f'"{PACKAGES}requests/sessions.py", line 7 in send', MAIN), "requests.sessions.send (hang.py:12)"),
        ((f'"{PYTHON}multiprocessing/connection.py", line 9 in wait', MAIN), "connection.wait (hang.py:12)"),
        ((f'"{PYTHON}subprocess/__init__.py", line 9 in wait', MAIN), "subprocess.wait (hang.py:12)"),
        (
            ('"<frozen importlib._bootstrap>", line 9 in _find', MAIN),
            "importlib._bootstrap._find (hang.py:12)",
        ),
        (
            (
                f'"{PACKAGES}torch/nn/modules/linear.py", line 9 in forward',
                f'"{PACKAGES}torch/nn/modules/module.py", line 8 in _call_impl',
                f'"{PACKAGES}torch/nn/modules/module.py", line 7 in _wrapped_call_impl',
                MAIN,
            ),
            "torch.nn.modules.linear.forward (hang.py:12)",
        ),
    ],
)
def test_only_a_library_that_communicates_has_collectives(frames: tuple[str, ...], told: str) -> None:
    (group,) = standstills([taken(0, *frames)])
    assert not group.waits
    assert str(group).endswith(told)


def test_stacks_are_read_once_however_often_the_screen_is_drawn() -> None:
    stacks = [taken(n, MAIN, LAST, head=f"Current thread 0x7f{n:04x}") for n in range(99)]
    _kept_groups.cache_clear()
    _place_in.cache_clear()
    told = {standstill_line(list(stacks)) for _ in range(5)}
    assert {"ranks 0-98 are in main (hang.py:12)"} == told
    assert (4, 1) == (_kept_groups.cache_info().hits, _kept_groups.cache_info().misses)
    assert 1 == _place_in.cache_info().misses, "all ranks are in one place"

    newer = [*stacks[:-1], taken(98, '"/w/x.py", line 1 in f')]
    assert standstill_line(newer).startswith("rank 98 is in f (x.py:1)")


def test_of_many_places_the_largest_group_is_told_too() -> None:
    many = [taken(n, f'"/w/x.py", line {n} in f') for n in range(5)]
    line = standstill_line([*many, *(taken(n, MAIN) for n in (7, 8))])
    assert line.endswith("ranks 7-8 are in main (hang.py:12); and 3 other places")
