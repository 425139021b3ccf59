"""`make test COVERAGE=95`: probes see the statements that coverage.py sees."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import coverage

TOOL = Path(__file__).resolve().parents[1] / "scripts" / "probes" / "__main__.py"
EVERYTHING = '''"""A docstring
of two lines."""

from __future__ import annotations

import functools

numbers: list[int] = []


@functools.cache
@functools.wraps(
    len
)
def decorated(x, y=1):
    """Only this."""


class Point:
    """Here, too."""

    x: int = 0
    y: int
    """What y is."""
    text = (
        "one"
        "two"
    )

    @property
    def far(self):
        return [
            one
            for one in range(3)
            if one
        ]

    def never(self):
        pass


def work(kind):
    global numbers
    try:
        if kind == "value":
            raise ValueError(
                kind
            )
        elif kind == "key":
            raise KeyError(kind)
        else:
            numbers += [1]
    except TypeError:
        return 1
    except (
        KeyError,
        IndexError,
    ) as error:
        del error
    except ValueError:
        pass
    else:
        return 2
    finally:
        numbers = numbers * 2
    for number in range(3):
        if number == 1:
            continue
        with open(__file__) as stream, open(
            __file__
        ):
            stream.read()
            break
    else:
        numbers = []
    while True:
        assert numbers is not None, (
            "never"
        )
        break
    key = lambda one: (
        one
    )
    return max([1], key=key), numbers and (yield_all := list(generated(2))) or None


def generated(n):
    for one in range(n):
        yield one
    yield from ()
    return


async def waiting():
    async with None:
        pass


match len(numbers):
    case 0:
        numbers = []
    case _:
        numbers.append(2)

if __name__ == "nobody":
    import nothing
work("value"), work("key"), work("none"), Point().far, decorated(1)
try:
    work()
except Exception: numbers = None
'''


def test_probes_see_what_a_tracer_sees(tmp_path: Path):
    file = tmp_path / "everything.py"
    file.write_text(EVERYTHING, encoding="utf-8")
    tracer = coverage.Coverage(data_file=None, include=[str(file)], config_file=False)
    tracer.start()
    runpy.run_path(str(file))
    tracer.stop()
    _, statements, _, missing, _ = tracer.analysis2(str(file))

    probes = runpy.run_path(str(TOOL))["Probes"](100)
    seen = bytearray(100 + len(EVERYTHING.splitlines()) + 1)
    probed = ast.fix_missing_locations(probes.visit(ast.parse(EVERYTHING)))
    world = {"__seen__": seen, "__file__": str(file), "__name__": "everything"}
    exec(compile(probed, str(file), "exec", dont_inherit=True), world)
    found = {line - 100 for line, one in enumerate(seen) if one}
    assert sorted(found & set(statements)) == sorted(set(statements) - set(missing))
    assert world["__doc__"].startswith("A docstring") and world["Point"].__doc__ == "Here, too."
    assert len(missing) > 5


def test_kernels_have_no_probes():
    source = "@njit(nogil=True, cache=True)\ndef kernel(x):\n    return x"
    probed = runpy.run_path(str(TOOL))["Probes"](0).visit(ast.parse(source))
    assert ast.unparse(probed.body[-1]) == source and "__seen__[1]" in ast.unparse(probed)
