"""Turns a public header in C or C++ into a page of the reference: its comments are the text, its declarations the code."""
import re
import textwrap

COMMENT = re.compile(r"^\s*(//|/\*| \*)")
# What begins and ends the declarations of a header.
BEGIN = re.compile(r"^namespace capstan(?:::\w+)? \{$|^#pragma GCC visibility push.*$", re.M)
END = re.compile(r"^\}  // namespace capstan(?:::\w+)?$|^#pragma GCC visibility pop", re.M)
LABEL = re.compile(r"^(Kind|Limits|Fails|Why|Use):[^\S\n]*", re.M)


def plain(comment):
    """Returns the text of a comment without the marks of the language."""
    lines = [re.sub(r"^\s*(///?|/\*|\*/| \*) ?", "", line) for line in comment.splitlines()]
    return re.sub(r"\s*\*/\s*$", "", "\n".join(lines)).strip("\n")


def escaped(text):
    """Returns the text as Markdown that shows it as it is, in one line for each paragraph."""
    parts = re.split(r"(`[^`]*`)", text)
    text = "".join(part if part.startswith("`") else re.sub(r"([*<>])", r"\\\1", part) for part in parts)
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def code_block(kind, code):
    return f"```{kind}\n{textwrap.dedent(code).rstrip()}\n```\n"


def introduction(text, kind):
    """Returns the page's head from the comment at the top of a header."""
    head, *labels = LABEL.split(text)
    parts, outlines, more = [escaped(head.strip()), ""], [], []
    for label, body in zip(labels[::2], labels[1::2]):
        if label == "Use":
            outlines.append(f"```{kind}\n{textwrap.dedent(body).strip()}\n```")
            continue
        first, *rest = body.strip().split("\n\n")
        parts.append(f"- **{label}**: {escaped(first)}")
        more += map(escaped, rest)
    return "\n".join(parts) + "\n\n" + "\n\n".join([*more, *outlines]) + "\n"


def items(lines):
    """Yields (comment, code) of each declaration."""
    comment, code, depth = [], [], 0
    for line in lines:
        if depth == 0 and not code:
            if COMMENT.match(line):
                comment.append(line)
                continue
            if not line.strip():
                comment = []  # a comment about several declarations
                continue
            if re.match(r"\s*(#|public:)", line):
                continue
        code.append(line)
        bare = re.sub(r"//.*|/\*.*?\*/|\"[^\"]*\"", "", line)
        depth += bare.count("{") + bare.count("(") - bare.count("}") - bare.count(")")
        if depth == 0 and bare.rstrip().endswith((";", "}")):
            yield "\n".join(comment), "\n".join(code)
            comment, code = [], []


def name_of(code):
    """Returns the name of what a declaration declares."""
    code = re.sub(r"//.*|/\*.*?\*/|\[\[.*?\]\]", "", code, flags=re.S)
    for pattern in (r"^\s*(?:typedef )?(?:enum class|enum|struct|class)\s+(\w+)", r"constexpr .*?(\w+) =", r"(~?\w+)\s*\(",
                    r"(\w+)\s*=", r"(\w+);"):
        if match := re.search(pattern, code):
            return match[1]
    raise ValueError(f"a declaration without a name: {code}")


def class_members(code):
    """Returns the lines behind `public:`; None for a type whose body is shown whole."""
    match = re.match(r"class .*?\{\n public:\n(.*?)(?:\n private:.*)?\n\};", code, re.S)
    return match[1].splitlines() if match else None


def page(title, header, kind, left_out=()):
    """Returns the page of a header. `left_out`: declarations that no user needs."""
    top = re.match(r"(?://[^\n]*\n)+|/\*.*?\*/", header, re.S)[0]
    body = header[BEGIN.search(header).end():]
    parts = [f"# {title}\n\n{introduction(plain(top), kind)}"]
    for comment, code in items(body[:END.search(body).start()].splitlines()):
        name = name_of(code)
        if name in left_out or re.fullmatch(r"\s*(class|typedef struct) \w+( \w+)?;", code):
            continue
        parts.append(f"## {name}\n\n" + text_and_code(comment, code, kind))
    return "\n".join(parts)


def text_and_code(comment, code, kind):
    text = escaped(plain(comment)) + "\n\n" if comment else ""
    members = class_members(code)
    if members is None:
        return text + code_block(kind, code)
    return text + "\n".join(f"### {name_of(code)}::{name_of(inner)}\n\n" + text_and_code(note, inner, kind)
                            for note, inner in items(members))
