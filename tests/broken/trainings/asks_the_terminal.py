# ranks: 2
# cause: no-terminal

"""The script asks before it overwrites."""

if input("overwrite the checkpoint? ") == "y":
    print("ok")
