from __future__ import annotations

import ast
import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.errors import SpecError
from launcher.spec.signature import Parameter, ParameterKind, Signature, literal, signature_of


def read(source: str) -> Signature:
    node = ast.parse(source).body[-1]
    assert isinstance(node, ast.FunctionDef)
    return signature_of(node)


def typed(annotation: str, default: str | None = None) -> Parameter:
    (parameter,) = read(f"def f(x: {annotation}{'' if default is None else '=' + default}): ...").parameters
    return parameter


def untyped(default: str | None = None) -> Parameter:
    (parameter,) = read(f"def f(x{'' if default is None else '=' + default}): ...").parameters
    return parameter


def value(parameter: Parameter, text: str) -> Any:
    return ast.literal_eval(literal(parameter, text))


def exactly(value: Any) -> tuple[type, Any]:
    return type(value), value


def test_every_kind_of_parameter_is_told_apart() -> None:
    signature = read("def f(a, /, b=1, *rest, c, d=2, **more): ...")
    kinds = [(p.name, p.kind.value, p.required, p.unnamed) for p in signature.parameters]
    assert kinds == [
        ("a", "positional", True, True),
        ("b", "positional", False, False),
        ("rest", "var_positional", False, False),
        ("c", "keyword", True, False),
        ("d", "keyword", False, False),
        ("more", "var_keyword", False, False),
    ]


def test_a_signature_has_its_line_and_the_first_line_of_its_docstring() -> None:
    signature = read('\n@record\ndef train():\n    """Train it.\n\n    Slowly."""\n')
    assert (signature.line, signature.doc) == (3, "Train it.")


def test_annotations_and_defaults_are_source_text() -> None:
    (parameter,) = read("def f(x: 'dict[str, int]' = dict(a=1)): ...").parameters
    assert (parameter.annotation, parameter.default) == ("dict[str, int]", "dict(a=1)")


@pytest.mark.parametrize(
    ("annotation", "choices"),
    [
        ("Literal['adam', 'sgd']", ("adam", "sgd")),
        ("typing.Literal[1, -2]", ("1", "-2")),
        ("Literal['a'] | None", ("a",)),
        ("Annotated[Optional[Literal['a']], 'doc']", ("a",)),
        ("Literal[Colour.RED]", ()),
        ("int", ()),
    ],
)
def test_choices_come_from_a_literal(annotation: str, choices: tuple[str, ...]) -> None:
    assert typed(annotation).choices == choices


@pytest.mark.parametrize(
    ("source", "decorated"),
    [
        ("def f(): ...", False),
        ("@record\ndef f(): ...", False),
        ("@torch.no_grad()\ndef f(): ...", False),
        ("@hydra.main(config_path='conf')\ndef f(): ...", True),
        ("@wrappers[0]\ndef f(): ...", True),
    ],
)
def test_a_decorator_that_may_change_the_signature_is_said(source: str, decorated: bool) -> None:
    assert read(source).decorated is decorated


@pytest.mark.parametrize(
    ("annotation", "text", "expected"),
    [
        ("int", "5", 5),
        ("int", " -5 ", -5),
        ("int", "1_000", 1000),
        ("int", "0x10", 16),
        ("float", "1e-3", 0.001),
        ("float", "1", 1.0),
        ("float", ".5", 0.5),
        ("float", "inf", float("inf")),
        ("float", "-inf", float("-inf")),
        ("bool", "true", True),
        ("bool", "False", False),
        ("bool", "1", True),
        ("bool", "0", False),
        ("str", "5", "5"),
        ("str", "", ""),
        ("str", "'quoted'", "'quoted'"),
        ("Path", "/data/a b", "/data/a b"),
        ("pathlib.Path", "None", "None"),
        ("Optional[str]", "5", "5"),
        ("Optional[str]", "None", None),
        ("int | None", "None", None),
        ("None", "None", None),
        ("complex", "1+2j", 1 + 2j),
        ("bytes", "b'x'", b"x"),
        ("Literal['adam', 'sgd']", "sgd", "sgd"),
        ("Literal['adam', 'sgd']", "'sgd'", "sgd"),
        ("Literal[1, 2]", "2", 2),
        ("Literal['auto'] | int", "auto", "auto"),
        ("Literal['auto'] | int", "3", 3),
        ("float | int", "1", 1),
        ("Union[int, float]", "1.5", 1.5),
        ("bool | int", "1", 1),
        ("bool | int", "true", True),
        ("str | int", "5", 5),
        ("str | int", "five", "five"),
        ("list[int]", "[1, 2]", [1, 2]),
        ("list[float]", "1, 2", [1.0, 2.0]),
        ("List[str]", "['a']", ["a"]),
        ("Sequence[int]", "(1,)", [1]),
        ("list", "[1, 'a']", [1, "a"]),
        ("tuple[int, ...]", "[1, 2, 3]", (1, 2, 3)),
        ("tuple[int, str]", "1, 'a'", (1, "a")),
        ("tuple", "1, 2", (1, 2)),
        ("set[int]", "{1, 2}", {1, 2}),
        ("dict[str, list[float]]", "{'a': [1]}", {"a": [1.0]}),
        ("Mapping[str, Any]", "{'a': 'x'}", {"a": "x"}),
        ("dict", "{}", {}),
        ("'float'", "2", 2.0),
        ("Annotated[float, 'rate']", "2", 2.0),
        ("Final[int]", "2", 2),
        ("Tensor", "5", 5),
        ("Tensor", "a b", "a b"),
        ("Any", "[1]", [1]),
        ("'not a type!'", "5", 5),
    ],
)
def test_text_becomes_the_value_that_the_annotation_allows(annotation: str, text: str, expected: Any) -> None:
    assert exactly(value(typed(annotation), text)) == exactly(expected)


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        ("int", "abc"),
        ("int", "1.5"),
        ("int", "True"),
        ("int", ""),
        ("float", "abc"),
        ("float", "nan"),
        ("float", "True"),
        ("bool", "yes"),
        ("bool", "2"),
        ("None", "0"),
        ("int | None", "none"),
        ("Literal['adam']", "sgd"),
        ("Literal[1]", "True"),
        ("list[int]", "5"),
        ("list[int]", "['a']"),
        ("list[float]", "[1e999]"),
        ("list[float]", "[1" + "0" * 400 + "]"),
        ("tuple[int, str]", "1, 'a', 2"),
        ("tuple[int, str]", "1, 2"),
        ("set[int]", "[1]"),
        ("dict[str, int]", "[1]"),
        ("dict[str, int]", "{1: 1}"),
        ("dict[str, int]", "{'a': 'b'}"),
        ("bytes", "x"),
        ("int", "(" * 500),
    ],
)
def test_text_that_the_annotation_does_not_allow_is_refused(annotation: str, text: str) -> None:
    with pytest.raises(SpecError, match="parameter 'x' takes"):
        literal(typed(annotation), text)


@pytest.mark.parametrize(
    ("default", "text", "expected"),
    [
        (None, "5", 5),
        (None, "abc", "abc"),
        (None, "[1, 2]", [1, 2]),
        (None, "1 +", "1 +"),
        ("None", "0.5", 0.5),
        ("0.1", "1", 1.0),
        ("10", "0.5", 0.5),
        ("10", "3", 3),
        ("-1", "3", 3),
        ("False", "true", True),
        ("'adam'", "5", "5"),
        ("(1, 2)", "[3]", (3,)),
        ("Path('x')", "a/b", "a/b"),
        ("DEFAULT", "3", 3),
    ],
)
def test_without_an_annotation_the_default_is_the_hint(default: str | None, text: str, expected: Any) -> None:
    assert exactly(value(untyped(default), text)) == exactly(expected)


@pytest.mark.parametrize(("default", "text"), [("0.1", "abc"), ("10", "many"), ("False", "yes"), ("[]", "5")])
def test_a_value_unlike_its_default_is_refused(default: str, text: str) -> None:
    with pytest.raises(SpecError, match="takes a value like its default"):
        literal(untyped(default), text)


def test_none_is_allowed_where_it_is_the_default() -> None:
    assert value(typed("float", "None"), "None") is None


@pytest.mark.parametrize(
    ("parameter", "text", "message"),
    [
        (typed("float"), "abc", "parameter 'x' takes float, not 'abc'"),
        (typed("bool"), "yes", "parameter 'x' takes bool, not 'yes' (write true or false)"),
        (untyped("0.1"), "abc", "parameter 'x' takes a value like its default 0.1, not 'abc'"),
        (
            typed("Literal['adam', 'sgd']"),
            "adm",
            "parameter 'x' takes Literal['adam', 'sgd'], not 'adm' (did you mean 'adam'?)",
        ),
        (
            typed("Literal['adam', 'sgd']"),
            "x",
            "parameter 'x' takes Literal['adam', 'sgd'], not 'x' (choose one of adam, sgd)",
        ),
    ],
)
def test_a_refusal_says_what_is_wanted(parameter: Parameter, text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        literal(parameter, text)
    assert str(caught.value) == message


_LITERALS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(_LITERALS)
def test_a_literal_reaches_an_unannotated_parameter_unchanged(expected: Any) -> None:
    assert exactly(value(untyped(), repr(expected))) == exactly(expected)


@given(st.text())
def test_text_reaches_a_text_parameter_unchanged(text: str) -> None:
    assert value(typed("str"), text) == text


@given(st.floats(allow_nan=False))
def test_a_float_reaches_a_float_parameter_unchanged(expected: float) -> None:
    assert exactly(value(typed("float"), repr(expected))) == exactly(expected)


@given(
    st.text(), st.sampled_from(["int", "float", "bool", "list[int]", "dict[str, int]", "Literal['a']", "X"])
)
def test_any_text_gives_a_literal_or_a_spec_error(text: str, annotation: str) -> None:
    with contextlib.suppress(SpecError):
        ast.literal_eval(literal(typed(annotation), text))


def test_a_parameter_knows_whether_it_must_be_given() -> None:
    assert [Parameter("x", kind).required for kind in ParameterKind] == [True, True, False, False]
