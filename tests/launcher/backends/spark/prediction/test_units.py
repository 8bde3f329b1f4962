"""The units of a prediction: every file is in one, and what is done is not done again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from launcher.backends.spark.prediction import units
from launcher.backends.spark.prediction.units import (
    LEAST_UNITS,
    InputFile,
    file_name,
    how_predicted,
    part_name,
    plan_units,
)
from launcher.spec.job import Target, TargetKind
from launcher.spec.prediction import IfExists, Prediction

FILES = st.lists(
    st.builds(InputFile, uri=st.text(max_size=8), size=st.integers(0, 10 << 30)),
    unique_by=lambda file: file.uri,
    max_size=600,
)


@given(FILES, st.data())
def test_every_file_is_done_once(files: list[InputFile], data: st.DataObject) -> None:
    names = {file_name(file, "how"): file for file in files}
    done = data.draw(st.sets(st.sampled_from(sorted(names)))) if names else set()

    plan = plan_units(files, "how", done)

    left = [name for unit in plan.units for name in unit.names]
    assert sorted(left) == sorted(names.keys() - done)
    assert sorted(uri for unit in plan.units for uri in unit.files) == sorted(names[n].uri for n in left)
    assert all(len(unit.files) == 1 or unit.size <= units.UNIT_BYTES for unit in plan.units)
    shares = [plan.share(count) for count in range(len(plan.units) + 1)]
    assert shares == sorted(shares)
    assert 1.0 == shares[-1]
    assert plan.skipped == shares[0]


def test_units_keep_all_slots_busy_and_are_several() -> None:
    def sizes(count: int, slots: int, size: int = 1000) -> list[int]:
        files = [InputFile(f"file:/in/{i:05}", size) for i in range(count)]
        return [len(unit.files) for unit in plan_units(files, "how", slots=slots).units]

    assert [2, 1] == sizes(3, 1)
    assert [8, 8, 4] == sizes(20, 4)
    assert [100] * LEAST_UNITS == sizes(800, 4)
    assert [256] == sorted(set(sizes(10_240, 4)))
    assert [1000] * 2 == sizes(2000, 500)
    assert [1] * 3 == sizes(3, 4, size=3 << 30), "of large files, one has tasks enough"
    assert ([], 1.0) == (sizes(0, 4), plan_units([], "how").skipped)


def test_a_file_that_changed_is_another() -> None:
    file = InputFile("file:/in/a", 10, "monday")
    done = {file_name(file, "how")}

    assert not plan_units([file], "how", done).units
    for other in (InputFile("file:/in/a", 11, "monday"), InputFile("file:/in/a", 10, "tuesday")):
        assert plan_units([other], "how", done).units
    assert plan_units([file], "otherwise", done).units


def test_how_it_is_predicted_is_more_than_where() -> None:
    target = Target(TargetKind.FUNCTION, "/score.py", "load")
    base = Prediction(input="/in", output="/out")

    how = how_predicted(base, target)

    elsewhere = Prediction(input="/in2", output="/out2", if_exists=IfExists.APPEND, batch_size=2, workers=3)
    assert how == how_predicted(elsewhere, target)
    for other in (
        Prediction(input="/in", output="/out", returns="string"),
        Prediction("/in", "", {"a": "b"}, "/out"),
    ):
        assert how != how_predicted(other, target)
    assert how != how_predicted(base, Target(TargetKind.FUNCTION, "/score.py", "load", kwargs=(("k", "1"),)))


def test_files_of_a_unit_bear_its_name() -> None:
    (unit,) = plan_units([InputFile("file:/in/a", 10)], "how").units

    assert f"part-{unit.name}-00000-x.parquet" == part_name(unit, "part-00000-x.parquet")
