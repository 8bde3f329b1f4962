# ranks: 1
# cause: module-missing
# certainty: likely
# says: ValueError: bad learning rate -1
"""The cleanup after an error imports what is not there, and its error hides the first one."""


def check(learning_rate: float) -> None:
    if learning_rate <= 0:
        raise ValueError(f"bad learning rate {learning_rate}")


def main() -> None:
    try:
        check(-1)
    finally:
        import tracker_of_ours

        tracker_of_ours.finish()


main()
