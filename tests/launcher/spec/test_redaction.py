"""What is secret and what is not: names, shapes, places; and that what was masked comes back whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launcher.spec.job import JobSpec, SparkSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.redaction import (
    REDACTED,
    Redactor,
    hides,
    looks_secret,
    redacted_source,
    redacted_text,
    without_secrets,
)
from launcher.state import events as ev

SECRET_NAMES = (  # noqa: SIM905
    "HF_TOKEN API_KEY api_key api-key --api-key --token token TOKEN AWS_SECRET_ACCESS_KEY wandb_key "
    "OPENAI_KEY db.password DB_PASSWORD SSHPASS pwd Pwd oauthToken authToken apikey userPassword key KEY "
    "spark.ssl.keyPassword spark.hadoop.fs.s3a.secret.key spark.hadoop.fs.s3a.access.key "
    "fs.azure.account.key.x.blob.core.windows.net"
).split()
ORDINARY_NAMES = (  # noqa: SIM905
    "tokenizer --tokenizer tokenizer_name --max-tokens num_tokens max_token --key-bits key_dim sort_key "
    "label-key image_key pad_token eos_token TOKENIZERS_PARALLELISM PYTHONPATH PATH author keyboard "
    "compass bypass monkey spark.sql.session.timeZone num-passes passes PUBLIC_KEY"
).split()
KEYS = [
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_" + "a1B2" * 9,
    "github_pat_" + "a1B2_" * 9,
    "hf_" + "aBcDe" * 7,
    "xoxb-123456789012-abcdefghij",
    "sk-proj-" + "aB3_" * 10,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijk",
    "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_value_is_hidden_by_its_name(name: str) -> None:
    assert looks_secret(name)
    assert REDACTED == Redactor().mask("abc", name)


@pytest.mark.parametrize("name", ORDINARY_NAMES)
def test_an_ordinary_name_hides_nothing(name: str) -> None:
    assert not looks_secret(name)
    assert "gpt2" == Redactor().mask("gpt2", name)


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("use_auth_token", "True", False),
        ("token", "None", False),
        ("api_key", "", False),
        ("key", "42", False),
        ("private", "false", False),
        ("password", "42", True),
        ("password", "None", False),
        ("token", "1234567890", True),
    ],
)
def test_a_switch_or_a_number_is_no_secret_unless_it_is_a_password(
    name: str, value: str, *, secret: bool
) -> None:
    assert secret == hides(name, value)


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_known_by_its_shape(key: str) -> None:
    assert f"({REDACTED})" == Redactor().mask(f"({key})")


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgres://u:PASS@h/db", "postgres://u:***@h/db"),
        ("redis://:pw@h:6379/0", "redis://:***@h:6379/0"),
        ("https://u:p/a@ss@h/x", "https://u:***@h/x"),
        ("sc://h:1/;token=abc;user_id=ada", "sc://h:1/;token=***;user_id=ada"),
        (
            "jdbc:postgresql://h/db?user=u&password=x&ssl=true",
            "jdbc:postgresql://h/db?user=u&password=***&ssl=true",
        ),
        ("--api-key=X", "--api-key=***"),
        ("--token=a b;c", "--token=***"),
        ("+model.token=XYZ", "+model.token=***"),
        ("{'token': 'abc', 'lr': 0.1}", "{'token': '***', 'lr': 0.1}"),
        ('[{"a": {"db_password": "x\'y"}}]', '[{"a": {"db_password": "***"}}]'),
        ("Authorization: Bearer abcdefghijkl", "Authorization: Bearer ***"),
    ],
)
def test_a_secret_within_a_text_is_hidden_where_it_stands(text: str, masked: str) -> None:
    assert masked == redacted_text(text)
    assert masked == redacted_text(masked)


@pytest.mark.parametrize(
    "text",
    [
        "0123456789abcdef" * 4,
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "/data/key=abc/part=3/model.pt",
        "http://h:8080/a@b",
        "spark://h1:7077,h2:7077",
        "kafka://h1:9092,h2:9092/x@y",
        "git@github.com:a/b.git",
        "s3a://bucket/path",
        "sk-learn-model-2024-final-version",
        "task-1234567890Abcdefghijklmn",
        "hf_model_small",
        "--max-tokens=512",
        "num_tokens=5",
        "--tokenizer=gpt2",
        "--pad-token=<pad>",
        "{'lr': 0.1, 'tokenizer': 'gpt2', 'sort_key': 'length'}",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert text == redacted_text(text)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece", ["a", "eyJ-", "-sk-", "a://b:", "a='", "'a':", "-----BEGIN PRIVATE KEY-----", "a: "]
)
def test_no_text_keeps_it_searching_for_ever(piece: str) -> None:
    assert redacted_text(piece * (60_000 // len(piece)))


ARGS = (
    "--token",
    "hunter2xyz",
    "--lr",
    "0.1",
    "--out=/tmp/hunter2xyz/x",
    "pos",
    "--api-key=KK",
    "--token",
    "zz",
)
SPEC = JobSpec(
    Target(TargetKind.SCRIPT, "/p/train.py", args=tuple(ARGS)),
    name="run hunter2xyz",
    env={"DATABASE_URL": "postgres://u:PASSWD1@h/d", "HF_TOKEN": "abc", "A": "1"},
    mode=Mode.CONNECT,
    spark=SparkSpec(
        remote="sc://h/;token=tok12345", conf={"spark.hadoop.fs.s3a.secret.key": "a/b", "spark.ui.port": "0"}
    ),
)


def test_a_secret_that_was_found_is_hidden_wherever_it_stands() -> None:
    shown = SPEC.redacted()

    assert (
        "--token",
        REDACTED,
        "--lr",
        "0.1",
        "--out=/tmp/***/x",
        "pos",
        "--api-key=***",
        "--token",
        REDACTED,
    ) == shown.target.args
    assert "run ***" == shown.name
    assert {"DATABASE_URL": "postgres://u:***@h/d", "HF_TOKEN": REDACTED, "A": "1"} == shown.env
    assert {"spark.hadoop.fs.s3a.secret.key": REDACTED, "spark.ui.port": "0"} == shown.spark.conf
    assert "sc://h/;token=***" == shown.spark.remote
    assert shown == shown.redacted()


def test_what_was_hidden_is_put_back_by_its_place() -> None:
    shown, private = SPEC.redacted(), SPEC.private()

    assert set(shown.withheld) == private.keys()
    assert SPEC == replace(shown.with_texts(private), withheld=())
    assert (
        {}
        == replace(
            SPEC, target=Target(TargetKind.SCRIPT, "a.py"), name="", env={}, spark=SparkSpec()
        ).private()
    )


def test_arguments_may_come_and_go_around_a_hidden_one() -> None:
    shown = SPEC.redacted()
    edited = replace(shown, target=replace(shown.target, args=("--new", "1", "--token", REDACTED)))

    assert ("--new", "1", "--token", "hunter2xyz") == edited.with_texts(SPEC.private()).target.args


def test_a_fact_that_quotes_a_secret_is_told_without_it() -> None:
    fact = ev.RunEnded(time=1.0, state="failed", exit_code=1, why="cannot reach postgres://u:PASSWD1@h/d")

    assert "cannot reach postgres://u:***@h/d" == without_secrets(fact, SPEC.secrets()).why
    assert "failed" == without_secrets(fact, {"failed"}).state


@pytest.mark.parametrize(
    ("line", "masked"),
    [
        ('API_KEY = "hunter2abc"', 'API_KEY = "***"'),
        ("    token: str | None = 'abcdef'", "    token: str | None = '***'"),
        ("login(token=config.token, password='hunter2')", "login(token=config.token, password='***')"),
        ("headers = {'api_key': f'{a}b', 'lr': '0.1'}", "headers = {'api_key': f'***', 'lr': '0.1'}"),
        ('os.environ["HF_TOKEN"] = "hunter2"', 'os.environ["HF_TOKEN"] = "***"'),
        ("secret = '''begin", "secret = '''***"),
        ('url = "postgres://u:hunter2@h/d"', 'url = "postgres://u:***@h/d"'),
        (f"key = [{KEYS[0]}]", "key = [***]"),
    ],
)
def test_secrets_that_are_written_in_source_are_masked(line: str, masked: str) -> None:
    assert masked == redacted_source(line)


@pytest.mark.parametrize(
    "line",
    [
        "max_tokens = '12'",
        "x = tokens['a']",
        "password = getpass()",
        "for key in 'abc':",
        "lr: float = 0.1",
        "",
    ],
)
def test_source_without_secrets_stays_as_it_is(line: str) -> None:
    assert line == redacted_source(line)


def test_a_lines_secrets_take_no_time_without_end() -> None:
    for text in ("name='" * 4000, "a" * 100_000, "key: " * 4000, "'\\" * 10_000):
        redacted_source(text)


def test_secrets_of_the_request_are_masked_in_source_and_variables() -> None:
    raised = ev.RankRaised(
        time=1.0, rank=0, kind="E", message="no hunter2", traceback="hunter2",
        excerpts=(ev.SourceExcerpt(file="t.py", line=1, lines=("login('hunter2')", "x = 1")),),
        variables=(ev.Variable(name="word", type="str", text="'hunter2'"), ev.Variable(name="n", type="int")),
    )  # fmt: skip
    masked = without_secrets(raised, {"hunter2"})

    assert "hunter2" not in str(masked)
    assert ("login('***')", "x = 1") == masked.excerpts[0].lines
    assert ("'***'", None) == tuple(each.text for each in masked.variables)
    assert raised == without_secrets(raised, {"another"})
