# ranks: 2
# cause: no-terminal
# remedy: --env

"""The script asks before it overwrites."""

if input("overwrite the checkpoint? ") == "y":
    print("ok")
