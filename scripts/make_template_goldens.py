#!/usr/bin/env python3
"""Writes tests/data/text/templates/golden.jsonl: what jinja2, set up by
transformers, makes of small templates that cover each construct.

Needs transformers and jinja2. Run from anywhere; the output is committed.
A case that jinja2 refuses is written with "error": null, for its words are
jinja2's own; only that it is refused is compared.
"""

import datetime
import json
import os
import pathlib
import time

os.environ["TZ"] = "UTC"
time.tzset()

from transformers.utils import chat_template_utils  # noqa: E402

NOW = 1721995200  # 2024-07-26 12:00 UTC


class FixedClock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW)


CONTEXT = {
    "messages": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi <b>&'\"</b>"},
        {"role": "assistant", "content": "Grüße, 世界 🌍!\n  second line  \n"},
        {"role": "user", "content": "", "name": "Zoë"},
    ],
    "add_generation_prompt": True,
    "bos_token": "<s>",
    "eos_token": "</s>",
    "tools": [
        {"type": "function", "function": {"name": "f", "parameters": {
            "type": "object", "properties": {"x": {"type": "integer"}},
            "required": ["x"]}}},
    ],
    "documents": None,
    "n": 7, "neg": -3, "big": 9007199254740993, "x": 2.5, "tiny": 1e-7,
    "huge": 1e16, "third": 0.1, "t": True, "f": False, "nothing": None,
    "s": "Hello World", "u": "naïve ΣΑΣ ﬁ ß İ ǆ", "ws": " \t a  b \n c ",
    "empty": "", "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "e": [],
    "d": {"b": 1, "a": [1, {"k": None}], "items": "shadow", "é": "ü"},
    "people": [
        {"name": "Bob", "age": 30, "city": {"name": "Oslo"}},
        {"name": "al", "age": 25, "city": {"name": "bonn"}},
        {"name": "Cy", "age": 30, "city": {"name": "oslo"}},
        {"name": "dee"},
    ],
    "nested": [["a", ["b", ["c"]]], "d"],
    "tree": [{"v": 1, "c": [{"v": 2, "c": [{"v": 3, "c": []}]}]},
             {"v": 4, "c": []}],
}

# One expression a line, each rendered as {{ expression }}.
EXPRESSIONS = r"""
1
-1
1_000
0x1F + 0o17 + 0b11
1.5
1e3
1.5e-7
1e16
1e22
123456789012345678.0
1e15
0.0001
0.00001
-0.0
100.0
'a' 'b' "c"
'\n\t\\\'\x41\u00e9\U0001F600\101\q'
"it's"
true
True
none
None
[1, 'a', none, true, 1.0]
(1,)
()
(1, 2, 'x')
{'a': 1, 2: 'b', none: [], true: {}}
{1: 'a', 1.0: 'b', true: 'c'}
['it\'s', "q\"", 'both \' and "', '\n\t\x00\x7f', 'é世🌍', '\u200b\xa0']
1 + 2 * 3 - 4 / 2
7 // 2
-7 // 2
7 // -2
7 % 3
-7 % 3
7 % -3
7.5 // 2
-7.5 // 2
-7.5 % 2
7.5 % -2
2 ** 10
2 ** -1
-2 ** 2
2 ** 3 ** 2
2 ** 0.5
0 ** 0
1 / 3
10 / 5
1 // 0
1 % 0
1 / 0
1.0 / 0
5.0 // 0
true + true
true * 3
1 + 1.0
'a' + 'b'
'a' + 1
1 + 'a'
'ab' * 3
3 * 'ab'
'ab' * -1
[1] * 2
(1, 2) * 2
[1] + [2]
(1,) + (2,)
[1] + (2,)
'a' ~ 1 ~ none ~ 1.0 ~ [1] ~ missing
9223372036854775807
not true
not ''
-neg
+x
-'a'
not 1 == 2
1 == 1.0
1 == true
'1' == 1
none == false
[1, 2] == [1, 2.0]
(1, 2) == [1, 2]
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
1 < 2 < 3
1 < 3 < 2
1 < 2 == 2
'a' < 'b'
'B' < 'a'
'é' > 'z'
[1, 2] < [1, 3]
[1] < [1, 0]
1 < 'a'
none < 1
1 != 2
1 in l
4 not in l
'Hello' in s
'' in ''
1 in 'abc'
'a' in d
'z' in d
'k' in nothing
1 in (1, 2)
2 in range(5)
true in [1]
'a' in missing
0 or 'x'
1 and 'y'
0 and 'y'
'' or none or []
1 or 1/0
'yes' if t else 'no'
'yes' if f
('yes' if f) is undefined
'a' if f else 'b' if t else 'c'
1 if 0 or 1 else 2
missing
missing is defined
missing.x
missing['x']
missing()
missing + 1
missing == other
missing != 1
missing == none
missing < 1
missing | length
missing | list
missing | last
missing or 'fallback'
missing[0:1]
d.missing
d.missing.x
d['missing'] is undefined
d.b
d['a'][1]['k']
d.a.0
d.a[0]
d.a.1.k
d.items
d['items']
d.get('b')
d.get('zz')
d.get('zz', 5)
d.get('b', default=5)
d.keys() | list
d.values() | list
d.items() | list
d.keys()
d.items()
d.values()
d.copy() == d
d.pop
d.pop('b')
d.update({})
d.clear()
d.setdefault('q', 1)
d.__class__
d._private
l.append(4)
l.append is defined
l.sort()
l.__len__
l.index(2)
l.index(9)
l.count(1)
l.nope
l[0]
l[-1]
l[5]
l[-4]
l[1.0]
l['0']
l[true]
l.0
s[0]
s[-1]
s[100]
u[2]
u[-1]
l[1:]
l[:-1]
l[::2]
l[::-1]
l[5:1:-2]
l[-100:100]
l[::0]
l['a':]
s[1:4]
s[::-1]
s[8:2:-2]
u[2:7]
u[::-1]
u[:3]
(1,2,3)[1:]
range(10)[2:8:2]
range(4)[1:-1:-1]
range(9)[::-3] | list
range(10)[3]
range(10)[-1]
range(10) | list
range(5, 0, -2) | list
range(3)
range(1, 5, 2)
range(0)
range(100001)
range(10**12)
range(1, 2, 0)
range('a')
range(5) | length
n.real is defined
nothing.x
nothing['x'] is undefined
5[0] is undefined
s.upper()
s.lower()
s.title()
s.capitalize()
s.swapcase()
u.upper()
u.lower()
u.title()
u.capitalize()
u.casefold()
'ΑΣ ΑΣΑ Σ'.lower()
ws.strip() ~ '|'
ws.lstrip() ~ '|'
ws.rstrip() ~ '|'
'xxaxx'.strip('x')
'xyaxy'.strip('yx')
'éaé'.strip('é')
'abc'.lstrip('ab')
'abc'.rstrip('c')
' a '.strip(none)
ws.split()
ws.split(none, 1)
ws.rsplit(none, 1)
'a,b,,c'.split(',')
'a,b,c'.split(',', 1)
'a,b,c'.rsplit(',', 1)
'a,b,c'.split(',', maxsplit=1)
'a,b,c'.split(sep=',')
''.split()
''.split(',')
'abc'.split('')
'a--b--c'.split('--')
'a\nb\r\nc\rd\x0be\u2028f'.splitlines()
'a\nb\n'.splitlines(true)
''.splitlines()
s.startswith('Hello')
s.startswith(('x', 'H'))
s.startswith('World', 6)
s.startswith('')
s.startswith(1)
s.endswith('ld')
s.endswith('lo', 0, 5)
s.find('o')
s.find('o', 5)
s.find('zz')
s.rfind('o')
s.index('W')
s.index('zz')
u.find('ﬁ')
s.count('o')
s.count('')
s.count('l', 3)
s.replace('o', '0')
s.replace('o', '0', 1)
s.replace('', '-')
s.replace('', '-', 2)
'-'.join(['a', 'b'])
'-'.join('abc')
'-'.join([1])
'-'.join(d)
'a'.join([])
'7'.zfill(3)
'-7'.zfill(4)
'a'.center(4) ~ '|'
'ab'.center(5, '*')
'a'.ljust(3, '.')
'a'.rjust(3)
'é'.center(4, '·')
'abc'.removeprefix('a')
'abc'.removesuffix('c')
'abc'.removesuffix('')
'a=b=c'.partition('=')
'a=b=c'.rpartition('=')
'abc'.partition('x')
'abc'.rpartition('x')
'a\tb'.expandtabs(4)
'12'.isdigit()
'²'.isdigit()
'²'.isdecimal()
'½'.isnumeric()
'五'.isnumeric()
''.isdigit()
'aé'.isalpha()
'a1'.isalnum()
' \n'.isspace()
'abc'.islower()
'ABC'.isupper()
'A1'.isupper()
'1'.isupper()
'Ab Cd'.istitle()
'a_1'.isidentifier()
'1a'.isidentifier()
'a\n'.isprintable()
'abc'.isascii()
'{} {}'.format(1, 'a')
'{0}-{1}-{0}'.format('x', 'y')
'{a} {b!r}'.format(a=1, b='q')
'{:>5}|{:<5}|{:^5}|'.format('a', 'b', 'c')
'{:*^9}'.format('mid')
'{:05d} {:+d} {:,}'.format(42, 7, 1234567)
'{:x} {:X} {:#x} {:b} {:o} {:c}'.format(255, 255, 255, 5, 8, 65)
'{:.2f} {:8.3f}| {:e} {:g} {:%}'.format(3.14159, 2.5, 12345.678, 0.0001, 0.25)
'{:_} {:010,}'.format(1234567, 1234)
'{:10.3}|'.format('abcdef')
'{!r:>6}'.format('a')
'{:{w}}|'.format('a', w=4)
'{0[a]} {1.b}'.format({'a': 1}, {'b': 2})
'{0[0]}'.format([9])
'{{}}'.format()
'{'.format()
'}'.format()
'{}'.format()
'{} {0}'.format(1)
'{:d}'.format('a')
'{:s}'.format(1)
'{} {} {}'.format(none, true, 1.0)
'{:5}|{:5}|'.format(true, 1.5)
'{:.3}'.format(2.0)
'{0.__class__}'.format(1)
'{a}'.format_map({'a': 3})
'%s %d %r' % ('a', 3, 'b')
'%s' % 'x'
'%s' % [1, 2]
'%s' % (1,)
'%5s|%-5s|%05d|%+d' % ('a', 'b', 42, 7)
'%.2f %e %g %x %X %o %c %%' % (3.14159, 12345.678, 0.5, 255, 255, 8, 'z')
'%(a)s %(b)d' % {'a': 1, 'b': 2}
'%s %s' % ('a',)
'%s' % ('a', 'b')
'abc' % 1
'abc' % []
'%d' % 'a'
'%d' % 3.7
'%x' % 3.7
'%i' % true
'%*d' % (5, 42)
'%.3s|' % 'abcdef'
'%#x %#o' % (255, 8)
'%z' % 1
-5 | abs
x | abs
'a' | abs
l | batch(2) | list
l | batch(2, 'x') | list
l | slice(2) | list
l | slice(2, 'x') | list
[1,2,3,4,5] | slice(3) | map('join', ',') | list
'hello wORLD' | capitalize
'ab' | center(6) ~ '|'
nothing | default('x')
missing | default('x')
missing | d
'' | default('x', true)
'' | default('x', boolean=true)
{'b': 1, 'A': 2, 'c': 0} | dictsort
{'b': 1, 'A': 2, 'c': 0} | dictsort(true)
{'b': 1, 'A': 2, 'c': 0} | dictsort(false, 'value')
{'b': 1, 'A': 2, 'c': 0} | dictsort(reverse=true)
{'b': 1} | dictsort(by='zz')
'<a href="x">\'&' | escape
('<a>' | e) ~ '<b>'
('<a>' | safe) + '<b>'
'<a>' | e | e
('<a>' | safe) | e
'<' | forceescape
('<%s>' | safe) % '<x>'
('<{}>' | safe).format('<x>')
('a<' | safe).upper() + '<'
('-' | safe).join(['<', '>' | safe])
'x' | safe is escaped
['a' | safe]
l | first
e | first
'abc' | first
l | last
e | last
'abc' | last
d | last
[1] | map('abs') | last
'1.5' | float
'abc' | float
'abc' | float(2.5)
'inf' | float
'  1_0.5 ' | float
true | float
none | float
missing | float
'%s-%s' | format('a', 'b')
'%(x)s' | format(x=1)
people | groupby('age') | list
people | selectattr('age', 'defined') | groupby('age') | list
people | groupby('age', default=0) | map(attribute='grouper') | list
people | groupby('city.name', default='?') | map('first') | list
'a\nb\n\nc' | indent
'a\nb\n\nc' | indent(2, true)
'a\nb\n\nc' | indent(2, blank=true)
'a\nb' | indent('> ', true)
'' | indent
'42' | int
'42.7' | int
'abc' | int
'abc' | int(-1)
'0x1f' | int(base=16)
'1f' | int(0, 16)
'0b11' | int(base=0)
'-1_000' | int
' 7 ' | int
42.9 | int
-42.9 | int
none | int
[] | int(5)
('9' * 30) | int
d | items | list
missing | items | list
5 | items | list
l | join
l | join(', ')
people | join(',', attribute='name')
[none, true, 1.5] | join('-')
'abc' | join('.')
5 | join
s | length
u | length
d | count
l | length
5 | length
none | length
[1] | map('abs') | length
'abc' | list
d | list
{'a': 1}.items() | list
'ABC É' | lower
5 | lower
people | map(attribute='name') | list
people | map(attribute='age', default=0) | list
people | map(attribute='city.name') | list
people | map(attribute='city') | map(attribute='name') | list
ls | map('upper') | list
ls | map('replace', 'a', 'x') | join
l | map('nofilter') | list
l | map() | list
l | map
missing | map('upper') | list
l | max
l | min
ls | max
ls | min
ls | min(case_sensitive=true)
ls | max(true)
e | max
people | selectattr('age', 'defined') | max(attribute='age')
[1, 'a'] | max
[1,2,3,4] | reject('odd') | list
[0, 1, '', 'a', none] | select | list
[0, 1, '', 'a', none] | reject | list
[1,2,3,4] | select('divisibleby', 2) | list
[1,2,3] | select('gt', 1) | list
[1,2,3] | select('in', [1, 3]) | list
[1,2,3] | select('notest') | list
people | selectattr('age') | map(attribute='name') | list
people | selectattr('age', 'equalto', 30) | map(attribute='name') | list
people | selectattr('age', '==', 25) | list
people | rejectattr('age', 'defined') | list
people | rejectattr('city.name', 'undefined') | list
messages | selectattr('role', 'equalto', 'user') | list | length
messages | rejectattr('role', 'in', ['system', 'user']) | map(attribute='role') | join(',')
s | replace('o', '0')
s | replace('o', '0', 1)
5 | replace('5', 'five')
s | replace('l', '')
s | reverse
u | reverse
l | reverse | list
l | reverse | length
d | reverse | list
5 | reverse
2.5 | round
3.5 | round
2.567 | round(2)
2.675 | round(2)
2.4 | round(method='ceil')
2.6 | round(0, 'floor')
2.567 | round(1, 'ceil')
1234 | round(-2)
1250 | round(-2)
5 | round
1234.5 | round(-2)
'a' | round
2.5 | round(method='x')
l | sort
l | sort(reverse=true)
ls | sort
ls | sort(case_sensitive=true)
people | sort(attribute='name') | map(attribute='name') | list
people | selectattr('age', 'defined') | sort(attribute='age,name') | map(attribute='name') | list
people | sort(attribute='age') | list
[1, 'a'] | sort
d | sort
'hello' | sort | join
5 | string
5 | string + 'a'
none | string
l | sum
[1.5, 2] | sum
people | sum(attribute='age') is defined
people | selectattr('age', 'defined') | sum(attribute='age')
l | sum(start=10)
['a'] | sum
[[1], [2]] | sum(start=[])
'hello wORLD-foo (bar) [baz] it\'s' | title
u | title
d | tojson
messages | tojson
tools | tojson(indent=2)
tools | tojson(indent=0)
[] | tojson(indent=4)
[[], {}, [1]] | tojson(indent=1)
tools | tojson(indent='\t')
d | tojson(sort_keys=true)
d | tojson(ensure_ascii=true)
'é世🌍\x7f' | tojson(ensure_ascii=true)
'\x00\x1f\n\r\t\b\f"\\/<>&\x7f\u2028' | tojson
d | tojson(separators=(',', ':'))
d | tojson(separators=[',', ':'], indent=2)
(1, 2.0, none, true, 'x') | tojson
{1: 'a', none: 'b', true: 'c', 1.5: 'd'} | tojson
{'b': 1, 1: 2} | tojson(sort_keys=true)
{(1, 2): 1} | tojson
missing | tojson
range(3) | tojson
1e16 | tojson
0.1 | tojson
[1e400, -1e400] | tojson
s | tojson(bogus=1)
'  a b  ' | trim ~ '|'
'xxaxx' | trim('x')
5 | trim
missing | trim
'foo bar baz qux' | truncate(9)
'foo bar baz qux' | truncate(9, true)
'foo bar baz qux' | truncate(11)
'foo bar baz qux' | truncate(11, false, '...', 0)
'foo bar baz qux' | truncate(2)
'foobarbazqux' | truncate(6, leeway=0)
['a', 'A', 'b', 'a'] | unique | list
['a', 'A', 'b', 'a'] | unique(true) | list
people | unique(attribute='age') | map(attribute='name') | list
[1, 1.0, true] | unique | list
'straße' | upper
'a b/c&d=é' | urlencode
{'a b': 1, 'c': 'x&y'} | urlencode
[('a', 1), ('b', '/')] | urlencode
'Hello, big world_1 é' | wordcount
{'a': '<', 'b': none, 'c': 1} | xmlattr
{'a b': 1} | xmlattr
1000 | filesizeformat
123456789 | filesizeformat
1 | filesizeformat
1023 | filesizeformat(true)
1024 | filesizeformat(true)
1e30 | filesizeformat
d | attr('b') is undefined
d | attr('keys') is defined
d | attr('pop')
s | attr('upper')()
l | nofilter
'x' if f else l | length
1 if t else (l | nofilter)
1 if f else (l | nofilter)
t is boolean
1 is boolean
s.upper is callable
1 is callable
range is callable
nothing is defined
n is divisibleby 7
n is divisibleby(2)
n is divisibleby 0
n is eq 7
n is ne 7
n is lt 8
n is le 7
n is gt 7
n is ge 7
n is lessthan 8
n is greaterthan 8
n is equalto 7
n is even
n is odd
x is odd
's' is odd
f is false
t is true
1 is true
'upper' is filter
'nope' is filter
'odd' is test
x is float
1 is float
1 is in [1, 2]
1 is in(l)
n is integer
t is integer
l is iterable
5 is iterable
missing is iterable
s is iterable
'abc' is lower
'aBc' is lower
'ABC' is upper
d is mapping
l is mapping
nothing is none
n is none
n is not none
n is number
t is number
'1' is number
nothing is sameas none
t is sameas true
1 is sameas true
l is sequence
s is sequence
d is sequence
5 is sequence
range(3) is sequence
missing is sequence
d.keys() is sequence
s is string
5 is string
missing is undefined
s is notest
n is defined and n is number
not n is defined
n is defined is true
dict(a=1, b=2)
dict([('a', 1)])
dict({'a': 1}, b=2)
dict(5)
namespace(a=1).a
namespace({'a': 1}).a
namespace(a=1)['a']
namespace(a=1).b is undefined
namespace(_a=1)
namespace(a=1).items is undefined
joiner('|')() ~ 'x'
cycler('a', 'b').next()
cycler()
raise_exception('Stop here')
raise_exception()
strftime_now('%d %b %Y')
strftime_now('%Y-%m-%dT%H:%M:%S %A %B %j %p %% %y %f[%z%Z]')
strftime_now()
nofunction(1)
s()
none()
s.upper(1)
s.nomethod()
l.0.real is defined
range(3) == range(3)
range(0) == range(2, 2)
[range(2), (1,), {}]
'a' is in 'abc'
big
big + 0.0
tiny
huge
third + 0.2
1e100
1.0e-5
5e-324
1.7976931348623157e308
1e308 * 10
-1e308 * 10
2 ** 62
10 ** 400.0
7 - - 3
1 / big
('<a>' | e) | list
'a b'.split(none, -5)
'a'.splitlines('x')
l | sort('x')
l is filter
[[1, 2], [3]] | map('first') | list
(1, 2) | first
d | map('upper') | join(' ')
'x'.join(l | map('string'))
l | map('string') | list
s | list | unique | join
'abc' is eq 'abc'
[none, missing, 1.0]
{'k': missing}
'%s|%s' % (missing, none)
(l | map('string')) is iterable
messages[-1].name
messages[0]['role']
messages[1:] | length
messages[::-1][0].role
messages | map(attribute='role') | unique | join(',')
(messages | last).role
messages[0].content.split(' ')[0]
'a' < 1
{} is mapping
{}.x is undefined
[] == []
[1, [2, [3]]] | string
1.0 | int
1e300 | int
'٣' | int
--1
not not 1
1 .real is defined
"a" "b" | upper
{'a': {'b': [1, 2]}}.a.b[1]
[1, 2, 3][1]
(1, 2)[0]
'abc'[1]
'abc'.1
s[missing]
d[missing] is undefined
d[l] is undefined
l[nothing] is undefined
{[1]: 2}
{'a': 1}.a.b.c
loop
loop.index
caller()
"""

# Whole templates, separated by lines of "===".
TEMPLATES = r"""
{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }}|{{ loop.previtem.role }}|{{ loop.nextitem.role }}
{% endfor %}
===
{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{{ loop.nextitem }}{% endfor %}
===
{% for x in e %}{{ x }}{% else %}none{% endfor %}
===
{% for x in missing %}{{ x }}{% else %}none{% endfor %}
===
{% for x in nothing %}{{ x }}{% endfor %}
===
{% for x in 5 %}{% endfor %}
===
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}
===
{% for k, v in d | items %}{{ k }}={{ v }};{% endfor %}
===
{% for k in d %}{{ k }};{% endfor %}
===
{% for a, (b, c) in [(1, (2, 3)), [4, [5, 6]]] %}{{ a }}{{ b }}{{ c }};{% endfor %}
===
{% for a, b in [(1, 2, 3)] %}{% endfor %}
===
{% for a, b in ['xy', 'zw'] %}{{ b }}{{ a }}{% endfor %}
===
{% for x in range(10) if x is odd %}{{ loop.index }}:{{ x }}{{ loop.last }}{{ loop.length }} {% else %}none{% endfor %}
===
{% for x in range(10) if x > 20 %}{{ x }}{% else %}none{% endfor %}
===
{% for x in l if loop %}{{ x }}{% endfor %}
===
{% for x in l %}{% for y in l if y != x %}{{ loop.index }}{{ x }}{{ y }} {% endfor %}{{ loop.index }}{% endfor %}
===
{% for x in tree recursive %}{{ loop.depth }}{{ loop.depth0 }}-{{ x.v }}[{{ loop(x.c) }}]{% else %}leaf{% endfor %}
===
{% for x in l %}{{ loop(x) }}{% endfor %}
===
{% for x in nested recursive %}{% if x is string %}{{ x }}{% else %}({{ loop(x) }}){% endif %}{% endfor %}
===
{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}
===
{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }} {% endfor %}
===
{% for x in l %}{{ loop.cycle() }}{% endfor %}
===
{% for x in [1,2,3,4,5] %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}
===
{% for x in [1,2] %}{% continue %}{% else %}else{% endfor %}
===
{% for x in [1,2] %}{% break %}{% else %}else{% endfor %}
===
{% for x in [1,2] %}{{ x }}{% if x == 2 %}{% break %}{% endif %}{% else %}else{% endfor %}
===
{% for x in l %}{% for y in l %}{% if y == 1 %}{% break %}{% endif %}{{ y }}{% endfor %}{{ x }}{% endfor %}
===
{% break %}
===
{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}
===
{% for x in l %}{% set y %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endset %}{{ y }}{% endfor %}
===
{% for x in l %}{{ loop }}{% endfor %}
===
{% for x in l %}{{ loop | length }}{% endfor %}
===
{% set y = 1 %}{% for x in l %}{{ y }}{% set y = x %}{{ y }}{% endfor %}{{ y }}
===
{% set ns = namespace(n=0, s='') %}{% for x in l %}{% set ns.n = ns.n + x %}{% set ns.s = ns.s ~ x %}{% endfor %}{{ ns.n }}{{ ns.s }}
===
{% set d.x = 1 %}
===
{% set missing.x = 1 %}
===
{% set ns = namespace() %}{% set ns._x = 1 %}
===
{% set ns = namespace() %}{% set ns.a, b = 1, 2 %}{{ ns.a }}{{ b }}
===
{% set ns = namespace(x=1) %}{% set ns.x %}abc{% endset %}{{ ns.x }}
===
{% set a, b = 1, 2 %}{{ a }}{{ b }}
===
{% set a, b = b, a %}{{ a }}
===
{% set (a, b) = (1, 2) %}{{ a }}{{ b }}
===
{% set a = 1, 2 %}{{ a }}
===
{% set a = 1, %}{{ a }}
===
{% set true = 1 %}
===
{% set 1 = 1 %}
===
{% set x.y.z = 1 %}
===
{% set a %}x{{ n }}y{% endset %}{{ a }}
===
{% set a | upper | replace('X', 'z') %}x{{ n }}y{% endset %}{{ a }}
===
{% if n == 7 %}a{% elif n == 8 %}b{% else %}c{% endif %}
===
{% if f %}a{% elif t %}b{% else %}c{% endif %}
===
{% if f %}a{% elif f %}b{% else %}c{% endif %}
===
{% if f %}a{% endif %}
===
{% if n %}{% set q = 1 %}{% endif %}{{ q }}
===
{% if f %}{% set n = 1 %}{% endif %}{{ n }}
===
{% if t %}{{ l | length }}{% endif %}{% if f %}{{ l | nofilter }}{% endif %}
===
{% if t %}{{ l | nofilter }}{% endif %}
===
{{ l | nofilter }}
===
{% if f %}{% for x in l %}{{ x | nofilter }}{% endfor %}{% endif %}
===
{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1, c=5) }}|{{ m(a='x') }}|{{ m() }}
===
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
===
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}
===
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, z=2) }}{{ m() }}
===
{% macro m(a, b) %}{{ a is defined }}{{ b is defined }}{% endmacro %}{{ m(1) }}
===
{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}body {{ n }}{% endcall %}
===
{% macro m() %}[{{ caller(1, 2) }}]{% endmacro %}{% call(a, b=5, c=6) m() %}{{ a }}{{ b }}{{ c }}{% endcall %}
===
{% macro m() %}x{% endmacro %}{% call m() %}body{% endcall %}
===
{% macro m() %}[{{ caller() }}]{% endmacro %}{{ m() }}
===
{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}
===
{% macro m(caller=none) %}{{ caller() if caller }}{% endmacro %}{{ m() }}{% call m() %}x{% endcall %}
===
{% macro fib(n) %}{% if n < 2 %}{{ n }}{% else %}{{ fib(n - 1) | int + fib(n - 2) | int }}{% endif %}{% endmacro %}{{ fib(10) }}
===
{% macro m() %}{{ q }}{% endmacro %}{% set q = 1 %}{{ m() }}{% set q = 2 %}{{ m() }}
===
{% macro m() %}{% set q = 3 %}{% endmacro %}{% set q = 1 %}{{ m() }}{{ q }}
===
{% for x in l %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}{{ m is defined }}
===
{% macro m(x) %}a{% endmacro %}{{ m }}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.catch_varargs }}{{ m.caller }}
===
{% macro m() %}  a
{% endmacro %}{{ m() | trim }}|{{ m() }}|{{ m() is string }}
===
{% macro m(a, a) %}{% endmacro %}
===
{% macro m(a=1, b) %}{% endmacro %}
===
{% macro m(x) %}{{ x }}{% endmacro %}{{ m(*[1]) }}{{ m(**{'x': 2}) }}{{ l | map('string') | map('upper') | join }}
===
{{ dict(a=1, a=2) }}
===
{{ s.replace(*('o', '0')) }}
===
{{ s.replace('o', *['0'], **{}) }}
===
{% filter upper %}abc {{ s }}{% endfilter %}
===
{% filter replace('a', 'b') | upper %}aaa{% endfilter %}
===
{% filter length %}aaa{% endfilter %}
===
{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}
===
{% with %}{% set z = 1 %}{{ z }}{% endwith %}{{ z }}
===
{% with a = 1, b = a %}{{ b }}{% endwith %}
===
{% block x %}in {{ n }}{% endblock %}{% block y %}{% set n = 1 %}{{ n }}{% endblock y %}{{ n }}
===
{% block x %}{% endblock %}{% block x %}{% endblock %}
===
{% for x in l %}{% block q scoped %}{{ x }}{% endblock %}{% endfor %}
===
{% for x in l %}{% block q %}{{ x }}{% endblock %}{% endfor %}
===
{% generation %}gen {{ n }}{% endgeneration %}|
===
{% generation %}{% set q = 1 %}{% endgeneration %}{{ q }}
===
{% raw %}{{ x }} {% for %} {# c #}{% endraw %}
===
a
{% raw -%}
  {{ x }}
{%- endraw %}
b
===
a
   {%- raw %}
 x
   {% endraw %}
b
===
{# comment #}a{#- c -#} b {# multi
line #}c
===
a
  {# c #}
b
===
a {#- c #} b
===
{# unclosed
===
a
  {% if t %}
  b
  {% endif %}
c
===
a
  {%- if t %}
  b
  {%- endif %}
c
===
a
  {% if t -%}
  b
  {% endif -%}
c
===
a
  {%+ if t %}
  b
  {%+ endif %}
c
===
a
  {% if t +%}
  b
  {% endif +%}
c
===
  {% if t %}x{% endif %}  y
===
x  {% if t %}  y  {% endif %}  z
===
a
  {{ n }}
  {{- n }}
  {{ n -}}
  b
===
{{- '  x  ' -}}
===
{% if t %}

a

{% endif %}


===
{% set a = 1 %}
{% set b = 2 %}

{{ a }}{{ b }}

===
	{% if t %}	x
	{% endif %}
===
a{% if t %}{% endif %}
b
===
{{ n }}
{{ s }}
===
{% if t %}a{% endif %} 
{% if t %}b{% endif %}
===
{%if t%}a{%else%}b{%endif%}
===
{{n}}{{ n}}{{n }}
===
{{ {'a': {'b': 1}} }}
===
{{ '}}' }}{{ "%}" }}{{ '{{' }}
===
{ n } { { n } } {n}% %} }}
===
{% print n %}{% print n, s %}
===
{% do n %}
===
{% include 'x' %}
===
{% import 'x' as y %}
===
{% from 'x' import y %}
===
{% extends 'x' %}
===
{% unknown %}
===
{% if %}{% endif %}
===
{% if t %}
===
{% endif %}
===
{% for x in l %}{% endif %}
===
{{ }}
===
{{ n
===
{% if t
===
{{ n n }}
===
{{ (1 }}
===
{{ [1, 2 }}
===
{{ 1] }}
===
{{ n. }}
===
{{ n | }}
===
{{ n is }}
===
{{ 'abc }}
===
{{ a $ b }}
===
{{ n ! }}
===
{{ f(a=1, 2) }}
===
{{ f(**d, *l) }}
===
{{ 1 if }}
===
{% for x l %}{% endfor %}
===
{% for in l %}{% endfor %}
===
{% for loop in l %}{% endfor %}
===
{% for x in l %}{% set loop = 1 %}{% endfor %}
===
{% set loop = 1 %}{{ loop }}
===
{{ '\x4' }}
===
{{ 0123 }}
===
{{ 1__0 }}
===
{{ 1.e5 }}
===
{{ .5 }}
===
{{ 1a }}
===
{% call m %}{% endcall %}
===
{% set j = joiner(', ') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}
===
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.reset() }}{{ c.current }}
===
{% for x in l | map('string') %}{{ loop.last }}{{ loop.length }}{{ x }} {% endfor %}
===
{% set g = l | map('string') %}{{ g | list }}{{ g | list }}
===
{% set g = l | select('odd') %}{% for x in g %}{{ x }}{{ loop.nextitem }}{% endfor %}{% for x in g %}{{ x }}{% endfor %}
===
{% for group in people | selectattr('age', 'defined') | groupby('age') %}{{ group.grouper }}:{{ group.list | map(attribute='name') | join(',') }}:{{ group[0] }};{% endfor %}
===
{% for x, y in {'a': 1}.items() %}{{ x }}{{ y }}{% endfor %}
===
{% for c in u %}{{ c }}.{% endfor %}
===
{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if loop.index0 == 0 and system_message != false %}{{ system_message + message['content'] }}{% endif %}{{ message.role ~ ': ' ~ message.content.strip() + eos_token }}{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}
===
{{ bos_token }}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% endfor %}
===
{%- for message in messages -%}
    {%- if message['role'] == 'user' -%}
        {{ '<|user|>\n' + message['content'] | trim + eos_token }}
    {%- elif message['role'] == 'system' -%}
        {{ '<|system|>\n' + message['content'] + eos_token }}
    {%- endif -%}
    {%- if loop.last and add_generation_prompt -%}
        {{ '<|assistant|>' }}
    {%- endif -%}
{%- endfor -%}
===
{%- if tools is not none and tools is iterable %}
  {{- "Tools: [" }}
  {%- for tool in tools %}
    {{- tool | tojson }}{{ "," if not loop.last }}
  {%- endfor %}
  {{- "]" }}
{%- endif %}
===
{% if documents %}x{% elif documents is none %}none{% endif %}
===
{% macro render(tool) -%}
{%- for k, v in tool.function.parameters.properties.items() %}
- {{ k }}: {{ v.type }}{% if k in tool.function.parameters.required %} (required){% endif %}
{% endfor -%}
{%- endmacro %}
{{ render(tools[0]) }}
===
{{ messages | selectattr('role', 'equalto', 'system') | map(attribute='content') | first | default('none') }}
===
{% set ns = namespace(found=false) %}{% for m in messages %}{% if m.role == 'assistant' and not ns.found %}{% set ns.found = true %}{{ m.content.split('\n')[0] }}{% endif %}{% endfor %}{{ ns.found }}
===
{% set content = messages[2].content %}{% if '</think>' in content %}x{% else %}{{ content.rstrip('\n').split('!')[-1].lstrip('\n') }}{% endif %}
===
{%- set date = strftime_now('%d %b %Y') -%}
{{ date if date is defined else 'x' }}
===
{{ '%02d' % n }}{{ '%s' | format(n) }}{{ "{:02}".format(n) }}
===
{{ self.x() }}
===
é{{ n }}世
{% if t %}🌍{% endif %}
===
{{ super() }}
===
{% autoescape true %}x{% endautoescape %}
===
{{ lipsum() }}
===
{{ [1, 2] | random }}
===
{% set x = [] %}{% for i in range(5) %}{% set x = x + [i] %}{% endfor %}{{ x }}
===
{% for i in range(3) %}{% if loop.first %}{% set first = i %}{% endif %}{{ first is defined }}{% endfor %}
===
{% for i in range(3) %}{% with j = loop.index %}{{ j }}{{ loop.last }}{% endwith %}{% endfor %}
===
{% for i in l %}{% for j in l %}{{ loop.index }}{% endfor %}{{ loop.index }}|{% endfor %}
===
{% for i in l %}{% for j in [loop.index, loop.last] %}{{ j }}{% endfor %}{% endfor %}
===
{% for i in l %}{% else %}{{ loop }}{% endfor %}
===
{% for i in e %}{% else %}{{ loop is defined }}{% endfor %}
"""


def main():
    chat_template_utils.datetime = FixedClock
    cases = ["{{ %s }}" % e for e in EXPRESSIONS.strip("\n").split("\n")]
    cases += TEMPLATES.strip("\n").split("\n===\n")
    cases += ["{{ n }}\r\n{% if t %}\r\nx\r\n{% endif %}\r\ny\rz\r\n",
              "", "\n", "\n\n", "a\n", "a\n\n", "{% if t %}a\n{% endif %}\n",
              "{{ '\r\n' | tojson }}"]
    # Where we end in an error and Python has integers without end, or text
    # that is not supported here, by the case's own words.
    refused_here = {"{{ ('9' * 30) | int }}", "{{ n.real is defined }}",
                    "{{ l.0.real is defined }}", "{{ 1 .real is defined }}",
                    "{{ lipsum() }}", "{{ [1, 2] | random }}",
                    "{{ l | map }}", "{{ s | attr('upper') }}",
                    "{{ 1e300 | int }}", "{{ super() }}", "{{ self.x() }}",
                    "{% autoescape true %}x{% endautoescape %}"}
    out = [{"now": NOW, "context": CONTEXT}]
    for source in cases:
        row = {"template": source}
        try:
            compiled = chat_template_utils._compile_jinja_template(source)
            row["text"] = compiled.render(**json.loads(json.dumps(CONTEXT)))
            row["text"].encode()
        except Exception:
            row = {"template": source, "error": None}
        if source in refused_here or " at 0x" in row.get("text", ""):
            row = {"template": source, "error": None}
        out.append(row)
    path = (pathlib.Path(__file__).resolve().parent.parent /
            "tests/data/text/templates/golden.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n"
                            for row in out), encoding="utf-8")
    refused = sum("error" in row for row in out)
    print(f"{path}: {len(out) - 1} cases, {refused} of them refused")


if __name__ == "__main__":
    main()
