"""The formula of a docstring: as TeX, as text for a terminal, and in the part of TeX that matplotlib can draw."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

# TeX that matplotlib's mathematics does not know -> what says the same. Order matters.
PLAINER = (
    (r"\\t?frac\b", r"\\dfrac"),
    (r"\\(?:Bigg|bigg|Big|big)[lrm]?\b\s*", ""),
    (r"\\(?:lVert|rVert|Vert)\b", r"\\|"),
    (r"\\(?:lvert|rvert|vert)\b", "|"),
    (r"\\(?:operatorname\*?|text|mathrm|textrm|mathop)\{([^{}]*)\}", r"\\mathrm{\1}"),
    (r"\\(?:limits|nolimits|displaystyle|nonumber)\b", ""),
    (r"\\(?:begin|end)\{[a-z]*\*?\}", ""),
    (r"\\ne\b(?!q)", r"\\neq"),
    (r"\\(?:le|leqslant)\b", r"\\leq"),
    (r"\\(?:ge|geqslant)\b", r"\\geq"),
    (r"(?<!\\)&", ""),
)

# Commands of TeX as signs of a text; a command that is not here shows its name.
SIGNS: dict[str, str] = dict(
    re.findall(
        r"(\S+)=(\S)",
        "alpha=α beta=β gamma=γ delta=δ epsilon=ε theta=θ lambda=λ mu=μ nu=ν pi=π rho=ρ sigma=σ tau=τ phi=φ "
        "omega=ω ell=ℓ sum=Σ prod=Π top=ᵀ ne=≠ neq=≠ le=≤ leq=≤ ge=≥ geq=≥ in=∈ cdot=· times=× angle=∠ infty=∞ to=→ "
        "lVert=‖ rVert=‖ Vert=‖ lvert=| rvert=| frac=÷ tfrac=÷ dfrac=÷ {=⟦ }=⟧",
    )
)
RAISED, LOWERED = (str.maketrans("0123456789+-ᵀ", signs) for signs in ("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᵀ", "₀₁₂₃₄₅₆₇₈₉₊₋ᵀ"))
ATOM = r"[\w·'⁺⁻₊₋]+|\w*\([^()]*\)|\|[^|]*\|"  # what needs no brackets below a line or as an index

LONG = 100  # characters of TeX that fit one line of a picture at a readable size


def formula_of(function: Callable[..., Any]) -> str:
    """The first ``.. math::`` block of a docstring, lines joined; empty if there is none.

    Example:
        >>> def half(x):
        ...     '''Half of x.
        ...
        ...     .. math:: x / 2
        ...     '''
        >>> formula_of(half)
        'x / 2'
    """
    found = re.search(r"\.\. math::[ \t]*(.*(?:\n(?:[ \t]+.*)?)*)", inspect.getdoc(function) or "")
    return " ".join(found.group(1).split()) if found else ""


def formula_of_form(function: Callable[..., Any], form: str) -> str:
    """The formula that a docstring gives right after the form's name, else its first formula."""
    found = re.search(rf"``{re.escape(form)}``[^`()]{{0,120}}:math:`([^`]{{13,}})`", inspect.getdoc(function) or "")
    return " ".join(found.group(1).split()) if found else formula_of(function)


def description_of(function: Callable[..., Any]) -> str:
    """The docstring between its first line and its arguments, where a table stands for a formula.

    Example:
        >>> description_of(description_of)[:20]
        ''
    """
    body = (inspect.getdoc(function) or "").partition("\n")[2]
    return re.split(r"^(?:Args|Example|Shapes?|When to use):", body, maxsplit=1, flags=re.M)[0].strip()


def to_text(formula: str) -> str:
    r"""The formula in signs that a terminal shows, one line for each of its parts; no command of TeX is left.

    Example:
        >>> to_text(r"L = \frac{1}{B} \sum_i e^{-\alpha D^2_{i y_i}}")
        'L = 1/B Σ_i exp(-α D²_(i y_i))'
    """

    def sign(found: re.Match[str]) -> str:
        return SIGNS.get(found[1], found[1] if found[1].isalpha() or found[1] in "#%&_$|" else " ")

    def script(found: re.Match[str]) -> str:
        mark, index = found[1], found[2].strip()
        if set(index) <= set("0123456789+-ᵀ"):
            return index.translate(RAISED if mark[-1] == "^" else LOWERED)
        return f"exp({index})" if mark == "e^" else f"{mark}({index})" if "_" in index else mark + bracket(index)

    def fraction(found: re.Match[str]) -> str:
        made = f"{bracket(found[2])}/{bracket(found[3])}"
        return f"log({made})" if found[1] else made

    def bracket(part: str) -> str:
        return part if re.fullmatch(ATOM, part) else f"({part})"

    text = re.sub(r"\\(?:left|right|[bB]igg?[lrm]?|limits|displaystyle)\b\s*|\\(?:begin|end)\{\w+\*?\}", "", formula)
    text = re.sub(r"\\(?:operatorname\*?|text|mathrm|textrm|mathbf)\{([^{}]*)\}", r"\1", text)
    text = re.sub(r",?\s*(?:\\q?quad\b|\\\\)\s*", "\n", text)
    text = re.sub(r"\\([a-z]{3,})(?=\\[a-z])", r"\\\1 ", text)  # a name, and a sign right after it
    text = re.sub(r"\\([A-Za-z]+|.)", sign, text)
    text = re.sub(r"([_^])([^\s{])", r"\1{\2}", text)
    before = ""
    while before != text:
        before, text = text, re.sub(r"((?<!\w)e\^|[_^])\{([^{}]*)\}", script, text)
        text = re.sub(r"(log\s*)?÷\s*\{([^{}]*)\}\s*\{([^{}]*)\}", fraction, text)
    return re.sub(" +", " ", text.translate(str.maketrans("⟦⟧", "{}", "{}÷\\"))).strip()


def to_mathtext(formula: str) -> list[str]:
    r"""The formula as lines that matplotlib draws, ``$...$`` each; none if one of them cannot be drawn.

    Example:
        >>> to_mathtext(r"a \ne b")
        ['$a \\neq b$']
    """
    from matplotlib.mathtext import MathTextParser

    formula = re.sub(r"\\(?:text|mathrm|textrm)\{[^{}]*\}", lambda words: words.group(0).replace(" ", "\\ "), formula)
    for pattern, plain in PLAINER:
        formula = re.sub(pattern, plain, formula)
    lines = [f"${line}$" for line in break_lines(formula)]
    parser = MathTextParser("agg")
    try:
        for line in lines:
            parser.parse(line)
    except ValueError:
        return []
    return lines


def break_lines(formula: str) -> list[str]:
    """At most two lines: broken where the formula breaks its lines or, if it is long, at a wide space."""
    lines = [line.strip() for line in re.split(r"\\\\(?:\[\w*\])?", formula) if line.strip()]
    wide = r"\\q?quad\b"
    if len(lines) == 1 and len(formula) > LONG:
        parts = [part.strip(" ,") for part in re.split(wide, formula) if part.strip(" ,")]
        cuts = range(1, len(parts))
        best = min(cuts, key=lambda cut: max(len(" ".join(parts[:cut])), len(" ".join(parts[cut:]))), default=0)
        lines = [r", \quad ".join(part) for part in (parts[:best], parts[best:]) if part]
    return [re.sub(wide, r"\\;\\;", line) for line in lines]
