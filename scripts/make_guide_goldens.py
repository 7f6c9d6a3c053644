#!/usr/bin/env python3
"""Writes tests/data/guide/cases.jsonl: what guides must let through, and not.

Makes patterns and JSON schemas at random, with texts that match and texts that
nearly do, and records what Python's `re` and `jsonschema` say of them. One case
a line:

  {"regex": ..., "yes": [...], "no": [...]}    texts that match as a whole
  {"schema": ..., "yes": [...], "no": [...]}   JSON texts, valid or not

Schemas and texts are such that a guide must say the same: properties stand in
the order of the schema, types and additionalProperties are given, numbers and
white space are as guides write them.

Needs the Python package jsonschema (4.26) and nothing else. The same version
gives the same files.
"""

import json
import pathlib
import random
import re

import jsonschema

OUT = pathlib.Path(__file__).parent.parent / "tests/data/guide"

CHARS = "ab01 -_.é😀\""
ATOMS = ["a", "b", "0", "1", " ", "-", "\\.", "é", "😀", ".", "\\d", "\\w",
         "\\s", "\\D", "\\W", "\\S", "[ab]", "[^a]", "[a-b0]", "[^\\d ]",
         "\\u00e9", "\\x61", "[\\w.-]", "\"", "[é😀]"]
PATTERNS = ["", "(a|b)*", "^a+$", "a?b?0?", "(?:ab|a)(?:b0|0)?", "(a*)*b",
            "[a-b]{2,4}0{2}", "(a|ab)(0|b0)", "\\d+(\\.\\d+)?", "x|", "(|a)b",
            "a{0}b", "(?P<n>a)+", "[.]|[-a]|[a-]", "\\w+@\\w+\\.\\w{2,3}",
            "(a{1,2}){2}", "a+?b*?", "[^\"]*\"", "\\-?\\d{1,3}", ".*é.*"]


def random_pattern(rng, depth=0):
    parts = []
    for _ in range(rng.randint(1, 3)):
        if depth < 2 and rng.random() < 0.3:
            atom = rng.choice(["(", "(?:"]) + random_pattern(rng, depth + 1) + ")"
        else:
            atom = rng.choice(ATOMS)
        if rng.random() < 0.4:
            atom += rng.choice(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"])
        parts.append(atom)
    text = "".join(parts)
    if rng.random() < 0.3:
        text += "|" + random_pattern(rng, depth + 1)
    return text


def random_text(rng, most=7):
    return "".join(rng.choices(CHARS, k=rng.randint(0, most)))


def mutate(rng, text):
    if not text or rng.random() < 0.3:
        at = rng.randint(0, len(text))
        return text[:at] + rng.choice(CHARS) + text[at:]
    at = rng.randrange(len(text))
    return text[:at] + rng.choice(["", rng.choice(CHARS)]) + text[at + 1:]


def regex_case(rng, pattern):
    compiled = re.compile(pattern, re.ASCII)
    yes, no = set(), set()
    tries = [random_text(rng) for _ in range(300)]
    tries += ["a@b.ab", "ab00", "12.5", "-120", "aab", ""]
    for text in tries:
        for one in (text, mutate(rng, text)):
            (yes if compiled.fullmatch(one) else no).add(one)
    pick = lambda group: rng.sample(sorted(group), min(6, len(group)))
    return {"regex": pattern, "yes": pick(yes), "no": pick(no)}


def random_schema(rng, depth, defs):
    kinds = ["string", "string", "integer", "number", "enum", "boolean", "null"]
    if depth < 3:
        kinds += ["object", "object", "array", "anyOf", "tuple"]
    if defs and depth > 0:
        kinds += ["ref"]
    kind = rng.choice(kinds)
    if kind == "string":
        schema = {"type": "string"}
        if rng.random() < 0.3:
            schema["pattern"] = rng.choice(
                ["^[ab]+$", "a", "^\\d", "b$", "^a|0$", "^.{2}$", "[^a]"])
        if rng.random() < 0.3:
            schema["minLength"] = rng.randint(0, 3)
        if rng.random() < 0.3:
            schema["maxLength"] = rng.randint(3, 6)
        if len(schema) == 1 and rng.random() < 0.2:
            schema["format"] = rng.choice(["date", "uuid"])
        return schema
    if kind in ("integer", "number"):
        schema = {"type": kind}
        if rng.random() < 0.5:
            schema[rng.choice(["minimum", "exclusiveMinimum"])] = rng.choice(
                [0, -7, -120, 3, 0.5, -2.25])
        if rng.random() < 0.5:
            schema[rng.choice(["maximum", "exclusiveMaximum"])] = rng.choice(
                [9, 10, 45, 120, 99.5])
        return schema
    if kind == "enum":
        values = rng.sample(["a", "ab", "é\"\n", "", 1, 12, 2.5, None, True], 3)
        if rng.random() < 0.3:
            return {"const": values[0]}
        return {"enum": values}
    if kind == "object":
        names = rng.sample(["a", "ab", "b", "x y", "é", "\"q\""],
                           rng.randint(0, 4))
        schema = {
            "type": "object",
            "properties": {name: random_schema(rng, depth + 1, defs)
                           for name in names},
            "required": [name for name in names if rng.random() < 0.5],
            "additionalProperties": rng.choice(
                [False, False, True, {"type": "integer"}]),
        }
        if rng.random() < 0.2:
            schema["title"] = "t"
        return schema
    if kind == "array":
        schema = {"type": "array", "items": random_schema(rng, depth + 1, defs)}
        if rng.random() < 0.5:
            schema["minItems"] = rng.randint(0, 2)
        if rng.random() < 0.5:
            schema["maxItems"] = rng.randint(2, 4)
        return schema
    if kind == "tuple":
        return {"type": "array",
                "prefixItems": [random_schema(rng, depth + 1, defs)
                                for _ in range(rng.randint(1, 2))],
                "items": rng.choice([False, {"type": "boolean"}])}
    if kind == "anyOf":
        return {"anyOf": [random_schema(rng, depth + 1, defs)
                          for _ in range(2)]}
    if kind == "ref":
        return {"$ref": "#/$defs/d"}
    return {"type": kind}


def random_value(rng, schema, root, depth=0):
    """A value that is likely to be valid."""
    if rng.random() < 0.04 or depth > 12:
        return rng.choice(["a", "", 0, 7, -3, 2.5, None, True, [], [1], {},
                           {"a": 1}])
    if schema is True:
        return rng.choice([1, "x", None, [1, "a"], {"k": False}])
    if schema is False:
        return None
    if "$ref" in schema:
        return random_value(rng, root["$defs"]["d"], root, depth + 1)
    if "anyOf" in schema:
        return random_value(rng, rng.choice(schema["anyOf"]), root, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    kind = schema["type"]
    if kind == "string":
        if schema.get("format") == "date":
            return (f"{rng.choice([1999, 2000, 1900, 2024])}-"
                    f"{rng.randint(1, 13):02}-{rng.randint(27, 32):02}")
        if schema.get("format") == "uuid":
            return "".join("-" if i in (8, 13, 18, 23)
                           else rng.choice("0123456789abcdefABCDEF")
                           for i in range(rng.choice([36, 36, 35])))
        if "pattern" in schema:
            return "".join(rng.choices("ab0", k=rng.randint(0, 6)))
        return random_text(rng) + rng.choice(["", "", "\n", "\\", "/", "\u0007"])
    if kind == "integer":
        return rng.choice([rng.randint(-130, 130), rng.randint(-12, 12)])
    if kind == "number":
        return rng.choice([rng.randint(-130, 130),
                           rng.randint(-1300, 1300) + rng.choice([.5, .25])])
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "null":
        return None
    if kind == "array":
        prefix = schema.get("prefixItems", [])
        count = rng.randint(max(0, schema.get("minItems", 0) - 1),
                            schema.get("maxItems", len(prefix) + 1) + 1)
        return [random_value(rng, prefix[i] if i < len(prefix)
                             else schema["items"], root, depth + 1)
                for i in range(count)]
    value = {}
    for name, one in schema["properties"].items():
        if rng.random() < (0.93 if name in schema["required"] else 0.5):
            value[name] = random_value(rng, one, root, depth + 1)
    if rng.random() < 0.3:
        value[rng.choice(["z", "abc", "", "é\n"])] = random_value(
            rng, schema["additionalProperties"], root, depth + 1)
    return value


def write(rng, value):
    ascii_only = rng.random() < 0.3
    style = rng.choice([{"separators": (",", ":")}, {}, {"indent": 2},
                        {"indent": "\t"}])
    return json.dumps(value, ensure_ascii=ascii_only, **style)


def schema_case(rng):
    defs = rng.random() < 0.4
    schema = random_schema(rng, 0, defs)
    if defs:
        schema["$defs"] = {"d": {
            "type": "object",
            "properties": {"v": random_schema(rng, 2, False),
                           "kids": {"type": "array",
                                    "items": {"$ref": "#/$defs/d"}}},
            "required": ["v"], "additionalProperties": False}}
    validator = jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.FormatChecker(["date", "uuid"]))
    yes, no = {}, {}
    for _ in range(150):
        value = random_value(rng, schema, schema)
        # Under a pattern, and in names, a guide escapes only what it must.
        text = write(rng, value)
        if "\\u" in text:
            text = json.dumps(value, ensure_ascii=False)
        (yes if validator.is_valid(value) else no)[text] = True
    pick = lambda group: rng.sample(sorted(group), min(5, len(group)))
    return {"schema": schema, "yes": pick(yes), "no": pick(no)}


def main():
    rng = random.Random(5)
    lines = [regex_case(rng, pattern) for pattern in PATTERNS]
    lines += [regex_case(rng, random_pattern(rng)) for _ in range(100)]
    lines += [schema_case(rng) for _ in range(200)]
    OUT.mkdir(parents=True, exist_ok=True)
    with open(OUT / "cases.jsonl", "w", encoding="utf-8") as out:
        for line in lines:
            out.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
