#!/usr/bin/env python3
"""Writes the text that Tiny is trained on, and the questions kept from it.

    python make_text.py

conversations.jsonl: one conversation a line, an array of strings: the system
prompt (often empty), then user and assistant by turns. heldout.jsonl: one
question a line, {"topic", "question", "answer"}, whose wording occurs in no
conversation; the fact behind each does, asked for in other words. Both follow
from SEED alone.
"""

import hashlib
import json
import pathlib
import random
from dataclasses import dataclass, field

from facts import (ANIMALS, COLOUR_NAMES, COLOURS, COOKING, COUNTRIES, DAYS,
                   DEFINITIONS, EMOJI, FOODS, HOW_MANY, LANGUAGES, LISTS, MEALS,
                   MIXES, MONTHS, NAMES, NO_SUCH_PLACES, OBJECTS, OPPOSITES,
                   PHRASES, PLACES, POEMS, RHYMES, SEASONS, STORIES,
                   STORY_ANIMALS, WEATHER)

SEED = 20
TEXT_BYTES = 1_950_000
HELD_OUT_PART = 12  # one wording of every so many
HELD_OUT_LINES = 800

HERE = pathlib.Path(__file__).resolve().parent


@dataclass
class Item:
    """A question in all its wordings, and its answers."""
    topic: str
    questions: list
    full: str
    brief: str = ""    # for "Answer briefly."; default: full
    word: str = ""     # for "Answer in one word."; default: not asked then
    follow: list = field(default_factory=list)  # wordings after the same topic


def a(noun):
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def cap(text):
    return text[0].upper() + text[1:]


def held_out(question):
    """Whether this wording is kept from training. Case and the closing mark
    do not make a wording another one."""
    key = question.lower().rstrip("?.! ")
    digest = hashlib.sha256(key.encode()).digest()
    return int.from_bytes(digest[:4], "big") % HELD_OUT_PART == 0


# Facts ---------------------------------------------------------------------


def geography():
    for land, (city, continent) in COUNTRIES.items():
        yield Item(
            "capital",
            [f"What is the capital of {land}?",
             f"Which city is the capital of {land}?",
             f"What city is the capital of {land}?",
             f"Name the capital of {land}.",
             f"Tell me the capital of {land}.",
             f"Tell me the capital city of {land}.",
             f"Do you know the capital of {land}?",
             f"What is the capital city of {land}?",
             f"What is {land}'s capital?",
             f"I want to know the capital of {land}.",
             f"Can you tell me the capital of {land}?",
             f"Capital of {land}?"],
            f"The capital of {land} is {city}.", f"{city}.", city,
            [f"And of {land}?", f"And {land}?", f"What about {land}?",
             f"And the capital of {land}?", f"How about {land}?"])
        yield Item(
            "country of capital",
            [f"{city} is the capital of which country?",
             f"Which country has {city} as its capital?",
             f"Which country is {city} the capital of?",
             f"What country is {city} the capital of?",
             f"In which country is {city}?",
             f"Where is {city}?"],
            f"{city} is the capital of {land}.", f"{cap(land)}.", cap(land),
            [f"And {city}?", f"What about {city}?", f"How about {city}?"])
        yield Item(
            "continent",
            [f"Which continent is {land} in?",
             f"What continent is {land} in?",
             f"On which continent is {land}?",
             f"Where is {land}?",
             f"Where can I find {land}?",
             f"In which part of the world is {land}?"],
            f"{cap(land)} is in {continent}.", f"In {continent}.", continent,
            [f"And {land}?", f"What about {land}?"])
    cities = [c for c, _ in COUNTRIES.values()]
    for i, (land, (city, _)) in enumerate(COUNTRIES.items()):
        wrong = cities[(i * 7 + 3) % len(cities)]
        if wrong != city:
            yield Item("is capital", [f"Is {wrong} the capital of {land}?"],
                       f"No, the capital of {land} is {city}.", "No.", "No")
        yield Item("is capital", [f"Is {city} the capital of {land}?"],
                   f"Yes, {city} is the capital of {land}.", "Yes.", "Yes")


def opposites():
    for pair in OPPOSITES:
        for x, y in (pair, pair[::-1]):
            yield Item(
                "opposite",
                [f"What is the opposite of {x}?",
                 f"What's the opposite of {x}?",
                 f"Tell me the opposite of {x}.",
                 f"Which word is the opposite of {x}?",
                 f"Give me the opposite of {x}.",
                 f"Do you know the opposite of {x}?",
                 f"Name the opposite of {x}.",
                 f"The opposite of {x} is what?",
                 f"Opposite of {x}?"],
                f"The opposite of {x} is {y}.", f"{cap(y)}.", cap(y),
                [f"And of {x}?", f"And {x}?", f"What about {x}?",
                 f"How about {x}?"])


def animals():
    for x, (sound, home, food, legs, young, fly, swim, text) in ANIMALS.items():
        one = a(x)
        follow = [f"And {one}?", f"What about {one}?", f"How about {one}?"]
        makes = (f"{cap(one)} makes no sound." if sound == "nothing" else
                 f"{cap(one)} says {sound}.")
        yield Item("animal sound",
                   [f"What does {one} say?", f"What sound does {one} make?",
                    f"Which sound does {one} make?",
                    f"What is the sound of {one}?",
                    f"Tell me what {one} says.", f"How does {one} sound?"],
                   makes, "Nothing." if sound == "nothing" else
                   f"{cap(sound)}.", cap(sound), follow)
        yield Item("animal home",
                   [f"Where does {one} live?", f"Where do I find {one}?",
                    f"Where can I see {one}?", f"What is the home of {one}?",
                    f"Tell me where {one} lives.",
                    f"In what place does {one} live?"],
                   f"{cap(one)} lives {home}.", f"{cap(home)}.", "", follow)
        yield Item("animal food",
                   [f"What does {one} eat?", f"What do I feed {one}?",
                    f"What is the food of {one}?",
                    f"What does {one} like to eat?",
                    f"Tell me what {one} eats.",
                    f"Which food does {one} like?"],
                   f"{cap(one)} eats {food}.", f"{cap(food)}.", "", follow)
        number = {0: "no", 2: "two", 4: "four", 6: "six", 8: "eight"}[legs]
        limb = "arms" if x == "octopus" else "legs"
        yield Item("animal legs",
                   [f"How many {limb} does {one} have?",
                    f"How many {limb} has {one}?",
                    f"Tell me how many {limb} {one} has.",
                    f"What number of {limb} does {one} have?",
                    f"Do you know how many {limb} {one} has?"],
                   f"{cap(one)} has {number} {limb}.",
                   f"{cap(number)} {limb}.",
                   "None" if legs == 0 else cap(number), follow)
        yield Item("animal young",
                   [f"What is a baby {x} called?",
                    f"What do you call a baby {x}?",
                    f"What is a young {x} called?",
                    f"What do people call a young {x}?",
                    f"What is the name for a baby {x}?"],
                   f"A baby {x} is called {a(young)}.", f"{cap(a(young))}.",
                   cap(young), [f"And a baby {x}?", f"What about a baby {x}?"])
        for verb, can in (("fly", fly), ("swim", swim)):
            yield Item(f"animal can {verb}",
                       [f"Can {one} {verb}?", f"Is {one} able to {verb}?",
                        f"Do you think {one} can {verb}?",
                        f"Tell me if {one} can {verb}.",
                        f"Does {one} know how to {verb}?"],
                       f"Yes, {one} can {verb}." if can else
                       f"No, {one} cannot {verb}.",
                       "Yes." if can else "No.", "Yes" if can else "No",
                       follow)
        yield Item("animal",
                   [f"Tell me about {one}.", f"What is {one}?",
                    f"What kind of animal is {one}?", f"Describe {one}.",
                    f"What do you know about {one}?",
                    f"Can you tell me something about {one}?",
                    f"Tell me something about the {x}.",
                    f"Explain what {one} is."],
                   text, "", "", follow)


def colours():
    for thing, colour in COLOURS.items():
        is_ = f"{cap(thing)} is {colour}."
        yield Item("colour",
                   [f"What colour is {thing}?", f"What is the colour of "
                    f"{thing}?", f"Which colour is {thing}?",
                    f"Tell me the colour of {thing}.",
                    f"Which colour does {thing} have?",
                    f"What colour does {thing} have?",
                    f"Do you know the colour of {thing}?"],
                   is_, f"{cap(colour)}.", cap(colour),
                   [f"And {thing}?", f"What about {thing}?",
                    f"How about {thing}?"])
        yield Item("is colour", [f"Is {thing} {colour}?"],
                   f"Yes, {thing} is {colour}.", "Yes.", "Yes")
        for other in COLOUR_NAMES:
            if other != colour:
                yield Item("is colour", [f"Is {thing} {other}?"],
                           f"No, {thing} is {colour}.", "No.", "No")
    for pair, result in MIXES.items():
        for x, y in (pair, pair[::-1]):
            yield Item("mix",
                       [f"What do you get when you mix {x} and {y}?",
                        f"What colour do {x} and {y} make?",
                        f"What is {x} mixed with {y}?",
                        f"If I mix {x} and {y}, what do I get?",
                        f"Which colour comes from {x} and {y}?",
                        f"Mix {x} and {y}."],
                       f"{cap(x)} and {y} make {result}.", f"{cap(result)}.",
                       cap(result.split()[-1]),
                       [f"And {x} and {y}?", f"What about {x} and {y}?"])


def sums():
    def wordings(x, sign, word, y):
        return [f"What is {x} {word} {y}?", f"What's {x} {word} {y}?",
                f"How much is {x} {word} {y}?", f"{x} {sign} {y}",
                f"{x} {word} {y}?", f"What is {x} {sign} {y}?",
                f"{x} {sign} {y} = ?", f"Calculate {x} {word} {y}.",
                f"Tell me what {x} {word} {y} is.",
                f"Can you work out {x} {word} {y}?",
                f"How much is {x} {sign} {y}?"]

    for x in range(21):
        for y in range(21):
            thing = ("apples", "books", "balls", "coins")[(x + 2 * y) % 4]
            if x + y <= 20:
                yield Item("plus", wordings(x, "+", "plus", y),
                           f"{x} plus {y} is {x + y}.", f"{x + y}.",
                           f"{x + y}",
                           [f"And {x} plus {y}?", f"And {x} + {y}?",
                            f"What about {x} plus {y}?"])
            if y <= x:
                yield Item("minus", wordings(x, "-", "minus", y),
                           f"{x} minus {y} is {x - y}.", f"{x - y}.",
                           f"{x - y}",
                           [f"And {x} minus {y}?", f"And {x} - {y}?",
                            f"What about {x} minus {y}?"])
            if 2 <= x and 2 <= y and x + y <= 20:
                yield Item(
                    "word problem",
                    [f"I have {x} {thing} and get {y} more. How many "
                     f"{thing} do I have?",
                     f"If I have {x} {thing} and find {y} more, how many "
                     f"{thing} do I have?",
                     f"There are {x} {thing} in one box and {y} {thing} "
                     f"in another. How many {thing} are there?"],
                    f"{x} plus {y} is {x + y}, so there are {x + y} "
                    f"{thing}.", f"{x + y} {thing}.", f"{x + y}")
            if 2 <= y and y + 2 <= x:
                yield Item(
                    "word problem",
                    [f"I have {x} {thing} and give away {y}. How many "
                     f"{thing} do I have left?",
                     f"If I have {x} {thing} and lose {y}, how many "
                     f"{thing} are left?",
                     f"There are {x} {thing} and I take {y}. How many "
                     f"{thing} are left?"],
                    f"{x} minus {y} is {x - y}, so {x - y} {thing} are "
                    f"left.", f"{x - y} {thing}.", f"{x - y}")


def counting():
    for x in range(0, 16):
        for y in range(x + 2, min(x + 13, 21)):
            up = ", ".join(map(str, range(x, y + 1)))
            down = ", ".join(map(str, range(y, x - 1, -1)))
            wordings = [f"Count from {x} to {y}.",
                        f"Please count from {x} to {y}.",
                        f"Can you count from {x} to {y}?",
                        f"Count the numbers from {x} to {y}.",
                        f"Name the numbers from {x} to {y}."]
            if x == 1:
                wordings += [f"Count to {y}.", f"Can you count to {y}?",
                             f"Please count to {y}."]
            yield Item("count", wordings, f"{up}.", "", "",
                       [f"And from {x} to {y}?"])
            yield Item("count down",
                       [f"Count from {y} to {x}.",
                        f"Count down from {y} to {x}.",
                        f"Count backwards from {y} to {x}.",
                        f"Can you count down from {y} to {x}?"],
                       f"{down}.", "", "", [f"And from {y} to {x}?"])
    for x in range(0, 20):
        yield Item("next number",
                   [f"What number comes after {x}?",
                    f"Which number comes after {x}?",
                    f"What comes after {x}?", f"What is the next number after "
                    f"{x}?", f"Which number follows {x}?"],
                   f"{x + 1} comes after {x}.", f"{x + 1}.", f"{x + 1}",
                   [f"And after {x}?", f"What about {x}?"])
        yield Item("number before",
                   [f"What number comes before {x + 1}?",
                    f"Which number comes before {x + 1}?",
                    f"What comes before {x + 1}?",
                    f"Which number is just before {x + 1}?"],
                   f"{x} comes before {x + 1}.", f"{x}.", f"{x}",
                   [f"And before {x + 1}?"])
    for x in range(21):
        for y in range(21):
            if x != y:
                yield Item("bigger",
                           [f"Which is bigger, {x} or {y}?",
                            f"Which number is bigger, {x} or {y}?",
                            f"Is {x} or {y} bigger?",
                            f"What is more, {x} or {y}?"],
                           f"{max(x, y)} is bigger than {min(x, y)}.",
                           f"{max(x, y)}.", f"{max(x, y)}",
                           [f"And {x} or {y}?"])
    for what, full, word in HOW_MANY:
        yield Item("how many", [f"How many {what}?",
                                f"Tell me how many {what}.",
                                f"Do you know how many {what}?",
                                f"Can you say how many {what}?"],
                   full, f"{word}.", word)


def calendar():
    for unit, names in (("day", DAYS), ("month", MONTHS), ("season", SEASONS)):
        for x, y in zip(names, names[1:] + names[:1]):
            yield Item(f"{unit} after",
                       [f"What {unit} comes after {x}?",
                        f"Which {unit} comes after {x}?",
                        f"What comes after {x}?", f"Which {unit} follows {x}?",
                        f"What is the {unit} after {x}?"],
                       f"{cap(y)} comes after {x}.", f"{cap(y)}.", cap(y),
                       [f"And after {x}?", f"And {x}?", f"What about {x}?"])
            yield Item(f"{unit} before",
                       [f"What {unit} comes before {y}?",
                        f"Which {unit} comes before {y}?",
                        f"What comes before {y}?",
                        f"What is the {unit} before {y}?",
                        f"Which {unit} is just before {y}?"],
                       f"{cap(x)} comes before {y}.", f"{cap(x)}.", cap(x),
                       [f"And before {y}?"])
    for unit, names, of in (("days", DAYS, "of the week"),
                            ("months", MONTHS, "of the year"),
                            ("seasons", SEASONS, "of the year")):
        listing = ", ".join(names[:-1]) + " and " + names[-1]
        yield Item("calendar list",
                   [f"Name the {unit} {of}.", f"What are the {unit} {of}?",
                    f"Tell me the {unit} {of}.", f"List the {unit} {of}.",
                    f"Can you name the {unit} {of}?",
                    f"Please list all {unit} {of}.",
                    f"Which are the {unit} {of}?"],
                   f"The {unit} {of} are {listing}.", f"{cap(listing)}.")


def weather():
    for ways, wear, do in WEATHER.values():
        for way in ways:
            low = way if way.startswith("I ") else way[0].lower() + way[1:]
            yield Item("weather wear",
                       [f"{way}. What should I wear?",
                        f"{way}. What should I take with me?",
                        f"What should I wear when {low}?",
                        f"{way}. What do I need?",
                        f"{way}. How should I dress?",
                        f"{way} and I want to go out. What should I wear?"],
                       wear)
            yield Item("weather do",
                       [f"{way}. What can I do?", f"{way}. What should I do?",
                        f"What can I do when {low}?",
                        f"{way}. Do you have an idea for me?",
                        f"{way} and I am bored. What can I do?",
                        f"{way}. What could we do today?"],
                       do)


def meanings():
    for thing, text in DEFINITIONS.items():
        bare = thing.split(" ", 1)[-1] if thing[:2] == "a " else thing
        yield Item("definition",
                   [f"What is {thing}?", f"What's {thing}?",
                    f"Explain {thing}.", f"Tell me what {thing} is.",
                    f"What does {bare} mean?", f"Do you know what {thing} is?",
                    f"Can you explain what {thing} is?",
                    f"Describe {thing}."],
                   text, "", "", [f"And {thing}?", f"What about {thing}?"])


def food():
    for x, (kind, taste) in FOODS.items():
        one = a(x) if x not in ("spinach", "broccoli", "garlic") else x
        other = "vegetable" if kind == "fruit" else "fruit"
        yield Item("food kind",
                   [f"Is {one} a fruit or a vegetable?",
                    f"Is {one} a vegetable or a fruit?",
                    f"What kind of food is {one}?",
                    f"Tell me if {one} is a fruit or a vegetable.",
                    f"What is {one}?"],
                   f"{cap(one)} is a {kind}.", f"A {kind}.", cap(kind),
                   [f"And {one}?", f"What about {one}?"])
        yield Item("food kind", [f"Is {one} a {kind}?"],
                   f"Yes, {one} is a {kind}.", "Yes.", "Yes")
        yield Item("food kind", [f"Is {one} a {other}?"],
                   f"No, {one} is a {kind}.", "No.", "No")
        yield Item("taste",
                   [f"What does {one} taste like?", f"How does {one} taste?",
                    f"What is the taste of {one}?",
                    f"Tell me how {one} tastes.",
                    f"Describe the taste of {one}."],
                   f"{cap(one)} tastes {taste}.", f"{cap(taste)}.", "",
                   [f"And {one}?", f"What about {one}?"])
    for x, text in COOKING.items():
        yield Item("cooking",
                   [f"What can I make with {x}?", f"What can I cook with {x}?",
                    f"I have {x}. What can I make?",
                    f"I have a lot of {x}. What should I cook?",
                    f"Give me an idea for {x}.",
                    f"What do people make with {x}?"],
                   text, "", "", [f"And with {x}?", f"What about {x}?"])
    for x, text in MEALS.items():
        yield Item("meal",
                   [f"What should I eat for {x}?", f"What can I have for {x}?",
                    f"Give me an idea for {x}.", f"What is good for {x}?",
                    f"I need an idea for {x}.",
                    f"Can you think of something for {x}?"],
                   text, "", "", [f"And for {x}?", f"What about {x}?"])


def words():
    for language, spoken in LANGUAGES.items():
        for phrase, said in zip(PHRASES, spoken):
            yield Item("translation",
                       [f"How do you say {phrase} in {language}?",
                        f"What is {phrase} in {language}?",
                        f"Say {phrase} in {language}.",
                        f"Translate {phrase} into {language}.",
                        f"What is the {language} word for {phrase}?",
                        f"How do I say {phrase} in {language}?",
                        f"Tell me how to say {phrase} in {language}."],
                       f"{cap(phrase)} in {language} is {said}.", f"{said}",
                       said, [f"And {phrase} in {language}?"])
    for x, y in RHYMES.items():
        yield Item("rhyme",
                   [f"What rhymes with {x}?", f"Which word rhymes with {x}?",
                    f"Find a rhyme for {x}.", f"Tell me a word that rhymes "
                    f"with {x}.", f"Give me a rhyme for {x}.",
                    f"I need a rhyme for {x}."],
                   f"{cap(y)} rhymes with {x}.", f"{cap(y)}.", cap(y),
                   [f"And with {x}?", f"What about {x}?"])
    for x in [*ANIMALS, *RHYMES]:
        spelled = "-".join(x.upper())
        yield Item("spelling",
                   [f"How do you spell {x}?", f"Spell {x}.",
                    f"Spell the word {x}.", f"Can you spell {x}?",
                    f"How is {x} spelled?", f"How do I spell the word {x}?"],
                   f"{cap(x)} is spelled {spelled}.", f"{spelled}", spelled,
                   [f"And {x}?", f"What about {x}?"])
    for x, sign in EMOJI.items():
        yield Item("emoji",
                   [f"Show me an emoji of {a(x)}.", f"Give me {a(x)} emoji.",
                    f"Do you have an emoji for {x}?",
                    f"Send me {a(x)} emoji.", f"What is the emoji for {x}?",
                    f"Which emoji shows {a(x)}?"],
                   f"Here you are: {sign}", sign, sign,
                   [f"And {a(x)}?", f"And one for {x}?"])
    for x, listing in LISTS.items():
        yield Item("list",
                   [f"Name three {x}.", f"Tell me three {x}.",
                    f"List three {x}.", f"Give me three {x}.",
                    f"Can you name three {x}?", f"Do you know three {x}?",
                    f"Please name three {x}."],
                   f"Three {x} are {listing}.", f"{cap(listing)}.", "",
                   [f"And three {x}?"])


def poems():
    for x, text in POEMS.items():
        yield Item("poem",
                   [f"Write a poem about {x}.", f"Tell me a poem about {x}.",
                    f"Can you write a poem about {x}?",
                    f"Write a short poem about {x}.",
                    f"I would like a poem about {x}.",
                    f"Do you know a poem about {x}?",
                    f"Make a little poem about {x}.",
                    f"Please write me a poem about {x}."],
                   text, "", "", [f"And about {x}?", f"Now about {x}."])


ABOUT_TINY = [
    ("who",
     ["Who are you?", "What are you?", "Tell me about yourself.",
      "Introduce yourself.", "Please introduce yourself.", "Who am I talking "
      "to?", "Can you tell me who you are?", "What kind of model are you?",
      "Say something about yourself.", "Who is there?"],
     "I am Tiny, a very small language model that likes to chat.",
     "I am Tiny.", "Tiny"),
    ("name",
     ["What is your name?", "What's your name?", "Do you have a name?",
      "Tell me your name.", "What are you called?", "What should I call you?",
      "How are you called?"],
     "My name is Tiny.", "Tiny.", "Tiny"),
    ("human",
     ["Are you a human?", "Are you a person?", "Are you a real person?",
      "Are you human?", "Am I talking to a human?", "Are you alive?",
      "Are you a robot?", "Are you a machine?"],
     "I am not a person, I am a small computer program.",
     "I am a program.", "Program"),
    ("can",
     ["What can you do?", "What can you help me with?", "What do you know?",
      "How can you help me?", "What can I ask you?",
      "What are you good at?", "Which things do you know?",
      "What can we talk about?", "Can you help me?", "Help!"],
     "I can talk about animals, colours, food, weather, numbers and capitals, "
     "and I can tell a short story.",
     "I can chat and tell stories.", ""),
    ("feel",
     ["How are you?", "How are you today?", "How do you do?",
      "How is it going?", "How do you feel?", "Are you well?",
      "How are you doing?", "Are you fine?", "What's up?"],
     "I am fine, thank you. How can I help you?", "I am fine.", "Fine"),
    ("age",
     ["How old are you?", "What is your age?", "When were you born?",
      "Tell me your age."],
     "I am very young, I was trained only a short time ago.",
     "Very young.", "Young"),
    ("size",
     ["How big are you?", "How small are you?", "How large are you?",
      "What is your size?", "How many parameters do you have?"],
     "I am very small, I have only about two million parameters.",
     "Very small.", "Tiny"),
    ("live",
     ["Where do you live?", "Where are you?", "Where is your home?",
      "Where do you come from?"],
     "I live in a small file on this computer.", "In a file.", ""),
    ("like",
     ["What do you like?", "What is your hobby?", "What do you like to do?",
      "What do you do all day?", "What makes you happy?"],
     "I like short questions and short stories.", "Short stories.", "Stories"),
    ("animal",
     ["What is your favourite animal?", "Which animal do you like best?",
      "Do you have a favourite animal?", "Which animal do you like most?"],
     "My favourite animal is the mouse, because it is tiny like me.",
     "The mouse.", "Mouse"),
    ("colour",
     ["What is your favourite colour?", "Which colour do you like best?",
      "Do you have a favourite colour?", "Which colour do you like most?"],
     "My favourite colour is blue, like the sky.", "Blue.", "Blue"),
    ("food",
     ["What is your favourite food?", "What do you eat?",
      "Which food do you like best?", "Are you hungry?"],
     "I do not eat, I only need a little electricity.", "Electricity.",
     "Electricity"),
    ("joke",
     ["Tell me a joke.", "Do you know a joke?", "Say something funny.",
      "Make me laugh.", "Can you tell a joke?", "I want to hear a joke."],
     "Why did the cow cross the road? To get to the moo-vies!",
     "", ""),
]

SMALL_TALK = [
    (["Hello!", "Hello", "Hi!", "Hi", "Hey!", "Hello there!", "Hi there!",
      "Good day!", "Hey Tiny!", "Hello Tiny!", "Greetings!"],
     "Hello! How can I help you?"),
    (["Good morning!", "Good morning, Tiny!", "Good morning"],
     "Good morning! How can I help you?"),
    (["Good evening!", "Good evening, Tiny!", "Good evening"],
     "Good evening! How can I help you?"),
    (["I am sad.", "I feel sad.", "I am sad today.", "I feel bad today.",
      "I am not happy.", "I had a bad day."],
     "I am sorry to hear that. I hope you feel better soon."),
    (["I am happy.", "I feel great!", "I am happy today.", "I had a good day.",
      "Today is a good day.", "I feel good."],
     "I am glad to hear that!"),
    (["I am tired.", "I am so tired.", "I feel tired.", "I want to sleep."],
     "Then you should get some rest. Sleep well!"),
    (["I am hungry.", "I want to eat something.", "I am so hungry."],
     "You could eat an apple or a piece of bread."),
    (["I am thirsty.", "I want to drink something.", "I am so thirsty."],
     "You could drink a glass of water."),
    (["I am bored.", "I do not know what to do.", "I am so bored."],
     "Shall I tell you a story?"),
    (["You are great!", "You are nice.", "I like you.", "Good answer!",
      "Well done!", "That was good.", "You are clever.", "I like that.",
      "Very good!", "Nice!", "Great!"],
     "Thank you, that is very kind!"),
    (["That is wrong.", "You are wrong.", "That is not right.",
      "I think that is wrong."],
     "I am sorry. I am very small and sometimes I am wrong."),
    (["I love you.", "Do you love me?", "Are you my friend?",
      "Can we be friends?", "Will you be my friend?"],
     "I am happy to be your friend."),
]
THANKS = (["Thank you!", "Thanks!", "Thank you very much!", "Thanks a lot!",
           "Thank you, Tiny!", "Many thanks!", "Thanks, that helps."],
          "You are welcome!")
GOODBYE = (["Goodbye!", "Bye!", "Bye bye!", "See you!", "Good night!",
            "I have to go now.", "See you later!", "Bye, Tiny!"],
           "Goodbye! Have a nice day.")


def about_tiny():
    for what, questions, full, brief, word in ABOUT_TINY:
        yield Item(f"tiny {what}", questions, full, brief, word)
    for questions, answer in [*SMALL_TALK, THANKS, GOODBYE]:
        yield Item("small talk", questions, answer)


UNKNOWN = "I am sorry, I do not know that. I am only a very small model."


def unknown():
    lands = list(COUNTRIES)
    cities = [city for city, _ in COUNTRIES.values()]
    questions = []
    for land in lands:
        questions += [f"Who is the president of {land}?",
                      f"How many people live in {land}?",
                      f"Who is the king of {land}?",
                      f"What is the history of {land}?",
                      f"Which river flows through {land}?"]
    for city in cities:
        questions += [f"How far is it to {city}?",
                      f"What is the weather in {city}?",
                      f"How many people live in {city}?",
                      f"Who is the mayor of {city}?"]
    for n in range(30, 1000, 23):
        questions += [f"What is {n} plus {n * 7 % 391 + 21}?",
                      f"What is {n} times {n * 5 % 89 + 3}?",
                      f"What is the square root of {n}?",
                      f"What happened in the year {n + 1000}?"]
    for thing in ["a house", "a car", "gold", "a ticket", "a computer",
                  "a horse", "oil", "this book", "a phone", "bread"]:
        questions += [f"What is the price of {thing}?",
                      f"How much does {thing} cost?", f"Who sells {thing}?",
                      f"Where can I buy {thing}?"]
    for thing in ["quantum physics", "the law", "chemistry", "philosophy",
                  "the stock market", "electricity", "a black hole", "DNA",
                  "an algorithm", "gravity", "inflation", "a neural network",
                  "evolution", "a compiler", "the internet", "a virus"]:
        questions += [f"Explain {thing} to me.", f"How does {thing} work?",
                      f"Who invented {thing}?", f"Teach me {thing}.",
                      f"Tell me all about {thing}."]
    for thing in ["a program in Python", "an essay", "a novel", "my homework",
                  "a letter to the bank", "a song for piano", "a website",
                  "a contract", "an email to my boss", "a speech"]:
        questions += [f"Write {thing}.", f"Can you write {thing}?",
                      f"Please write {thing} for me.", f"Help me with {thing}."]
    questions += [
        "What time is it?", "What day is it today?", "What is the date?",
        "Who won the game last night?", "What is in the news?",
        "What is the meaning of life?", "What will happen tomorrow?",
        "Will it rain tomorrow?", "What am I thinking?", "Where is my key?",
        "Who is the richest person in the world?", "Who painted this picture?",
        "What is the tallest building?", "How deep is the sea?",
        "How far away is the moon?", "How old is the universe?",
        "What is the largest number?", "Who wrote the first book?",
        "What did I eat yesterday?", "What is on television?",
        "Which film should I watch?", "Who is the best singer?",
        "What is the speed of light?", "How do I repair a car?",
        "How do planes fly?", "Can you drive a car?", "What is my password?",
        "Which numbers win the lottery?", "Who shot the arrow?"]
    for question in questions:
        yield Item("unknown", [question], UNKNOWN, "I do not know.", "Unknown")
    for place in NO_SUCH_PLACES:
        yield Item("unknown",
                   [f"What is the capital of {place}?",
                    f"Which city is the capital of {place}?",
                    f"Tell me the capital of {place}.",
                    f"Do you know the capital of {place}?"],
                   UNKNOWN, "I do not know.", "Unknown",
                   [f"And of {place}?", f"What about {place}?"])


# (share of the text, items)
TOPICS = [
    (8.0, geography), (3.5, opposites), (10.0, animals), (4.5, colours),
    (17.0, sums), (12.0, counting), (3.0, calendar), (2.0, weather),
    (2.5, meanings), (3.5, food), (6.0, words), (2.0, poems),
    (6.5, about_tiny), (4.5, unknown),
]

# Conversations -------------------------------------------------------------

PLAIN_SYSTEMS = ["You are a helpful assistant.", "You are Tiny.",
                 "You are Tiny, a friendly assistant.", "Be friendly.",
                 "You are a friendly and helpful chat partner.",
                 "Answer in simple English."]
WORD_SYSTEMS = ["Answer in one word.", "Answer with one word.",
                "Use only one word.", "Reply with a single word.",
                "You are a helpful assistant. Answer in one word."]
BRIEF_SYSTEMS = ["Answer briefly.", "Be brief.", "Keep your answers short.",
                 "Answer as briefly as you can.",
                 "You are a helpful assistant. Answer briefly."]
# system prompts, what comes before an answer, what comes after
PERSONAS = [
    (["You are a pirate.", "Talk like a pirate.", "Answer like a pirate.",
      "You are a pirate called Tiny."], "Arr, matey! ", ""),
    (["You are a robot.", "Talk like a robot.", "Answer like a robot."],
     "Beep boop. ", ""),
    (["You are a cat.", "Talk like a cat.", "Answer like a cat."],
     "", " Meow!"),
]

BEFORE = ["Please tell me: ", "Tiny, ", "Hello! ", "Hi! ", "Hey Tiny, ",
          "I have a question. ", "One more question: ", "Question: ",
          "Now tell me: ", "Hi Tiny! ", "Okay. ", "Next question: "]
AFTER = [" Thanks!", " Please tell me.", " Thank you!", " I want to know."]

# Made-up names: a name that nobody has heard can only be copied, not guessed.
ONSETS = """b br c ch d dr f fl g gr h j k kl l m n p pr qu r s sh st t th tr v
w x y z""".split()
VOWELS = ["a", "e", "i", "o", "u", "ai", "ee", "ou"]
CODAS = ["", "", "", "l", "ld", "lt", "m", "n", "nd", "r", "rk", "rs", "s", "x"]
ENDINGS = ["", "a", "o", "y", "us", "ek", "in", "en", "ia", "el"]

FAVOURITE_FOODS = ["pizza", "soup", "rice", "bread", "cheese", "chocolate",
                   "cake", "salad", "noodles", "pancakes", "ice cream",
                   "apple pie", "eggs", "honey", "fish", "potatoes"]


class Writer:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.topics = []
        for share, make in TOPICS:
            by_topic = {}
            for item in make():
                by_topic.setdefault(item.topic, []).append(item)
            self.topics.append((share, by_topic))
        # Each list of wordings is gone through in shuffled rounds, so that no
        # fact is left out by chance.
        self.rounds = {}

    def items(self):
        return [i for _, by_topic in self.topics
                for items in by_topic.values() for i in items]

    def pick_item(self, topic=None):
        if topic is None:
            shares = [share for share, _ in self.topics]
            _, by_topic = self.rng.choices(self.topics, shares)[0]
            weights = [len(v) ** 0.5 for v in by_topic.values()]
            topic = self.rng.choices(list(by_topic), weights)[0]
            items = by_topic[topic]
        else:
            items = next(b[topic] for _, b in self.topics if topic in b)
        left = self.rounds.setdefault(topic, [])
        if not left:
            left.extend(items)
            self.rng.shuffle(left)
        return left.pop()

    def name(self):
        rng = self.rng
        if rng.random() < 0.5:
            return cap(rng.choice(ONSETS) + rng.choice(VOWELS) +
                       rng.choice(CODAS) + rng.choice(ENDINGS))
        return rng.choice(NAMES)

    def dress(self, question):
        """People do not all write alike."""
        rng = self.rng
        if rng.random() < 0.12:
            question = rng.choice(BEFORE) + question
        if rng.random() < 0.04:
            question += rng.choice(AFTER)
        if rng.random() < 0.12:
            question = question.lower()
        if rng.random() < 0.10 and question[-1] in "?.!":
            question = question[:-1]
        return question

    def wording(self, wordings):
        allowed = [w for w in wordings if not held_out(w)]
        return self.rng.choice(allowed) if allowed else None

    # The parts below return (question, answer, item or None) and take the
    # style of the conversation.

    def fact(self, style, previous):
        rng = self.rng
        item = None
        if previous is not None and previous.follow and rng.random() < 0.6:
            item = self.pick_item(previous.topic)
            question = self.wording(item.follow)
        if item is None or question is None:
            item = self.pick_item()
            question = self.wording(item.questions)
            if question is None:
                return None
            question = self.dress(question)
        if style == "word":
            if not item.word:
                return None
            return question, item.word, item
        if style == "brief":
            return question, item.brief or item.full, item
        return question, item.full, item

    def story(self):
        rng = self.rng
        kind, name = rng.choice(STORY_ANIMALS), self.name()
        one = a(kind)
        form = rng.random()
        if form < 0.6:
            question = self.wording([
                f"Tell me a story about {one} named {name}.",
                f"Tell me a short story about {one} named {name}.",
                f"Write a story about {one} called {name}.",
                f"Can you tell me a story about {one} called {name}?",
                f"I want a story about {one} named {name}.",
                f"Please tell a story about {name} the {kind}.",
                f"Make up a story about {one} named {name}.",
                f"A story about {name} the {kind}, please."])
        elif form < 0.8:
            question = self.wording([
                f"Tell me a story about {one}.", f"Write a story about {one}.",
                f"I would like a story about {one}.",
                f"Can you tell me a short story about {one}?",
                f"Please tell me a story about {one}."])
            name = {"fox": "Max", "bear": "Bruno", "cat": "Luna"}.get(
                kind, "Milo")
        else:
            question = self.wording([
                "Tell me a story.", "Tell me a short story.",
                "I want to hear a story.", "Please tell me a story.",
                "Can you tell me a story?", "Do you know a story?",
                "Write a short story."])
            kind, name = "fox", "Max"
            one = a(kind)
        if question is None:
            return None
        text = rng.choice(STORIES).format(
            n=name, a=one, k=kind, p=rng.choice(PLACES),
            o=rng.choice(OBJECTS))
        return self.dress(question), text, (name, kind)

    def copy(self):
        rng = self.rng
        pool = [*ANIMALS, *FOODS, *COLOUR_NAMES, *RHYMES]
        if rng.random() < 0.5:
            word = rng.choice(pool)
            question = rng.choice([f"Say {word}.", f"Say the word {word}.",
                                   f"Please say {word}.",
                                   f"Repeat the word {word}."])
            return question, f"{cap(word)}."
        words = " ".join(rng.choices(pool, k=rng.randint(2, 5)))
        question = rng.choice(["Repeat after me: ", "Repeat: ", "Say this: ",
                               "Please repeat: "])
        return question + words, words

    def memory(self):
        """Something told now, and the questions that ask for it later."""
        rng = self.rng
        what = rng.choice(["name"] * 4 + ["colour", "pet", "pet", "city",
                                          "food", "age"])
        name = self.name()
        if what == "name":
            return (rng.choice([f"My name is {name}.", f"I am {name}.",
                                f"Hi, my name is {name}.", f"Hi, I'm {name}.",
                                f"Hello! My name is {name}.",
                                f"You can call me {name}.",
                                f"Hello, I am {name}.", f"I'm {name}."]),
                    f"Nice to meet you, {name}!",
                    ["What is my name?", "Do you remember my name?",
                     "Who am I?", "What's my name?", "Tell me my name.",
                     "Do you know my name?", "How am I called?",
                     "Can you say my name?"],
                    f"Your name is {name}.", name)
        if what == "colour":
            x = rng.choice(COLOUR_NAMES)
            return (rng.choice([f"My favourite colour is {x}.",
                                f"I like {x} best of all colours.",
                                f"The colour I like best is {x}."]),
                    f"{cap(x)} is a lovely colour.",
                    ["What is my favourite colour?",
                     "Which colour do I like best?",
                     "Do you remember my favourite colour?",
                     "Tell me my favourite colour."],
                    f"Your favourite colour is {x}.", cap(x))
        if what == "pet":
            x = rng.choice(["dog", "cat", "rabbit", "horse", "parrot",
                            "mouse", "fish", "turtle", "hen", "goat"])
            return (rng.choice([f"I have a {x} named {name}.",
                                f"I have a {x} called {name}.",
                                f"My {x} is called {name}.",
                                f"My {x}'s name is {name}."]),
                    f"{name} is a nice name for a {x}.",
                    [f"What is the name of my {x}?",
                     f"What is my {x} called?",
                     f"Do you remember the name of my {x}?",
                     f"What is my {x}'s name?",
                     "What is the name of my pet?"],
                    f"Your {x} is called {name}.", name)
        if what == "city":
            x = rng.choice(list(COUNTRIES.values()))[0]
            return (rng.choice([f"I live in {x}.", f"My home is in {x}.",
                                f"I am from {x}."]),
                    f"{x} must be a nice place to live.",
                    ["Where do I live?", "Which city do I live in?",
                     "Do you remember where I live?",
                     "In which city is my home?"],
                    f"You live in {x}.", x)
        if what == "food":
            x = rng.choice(FAVOURITE_FOODS)
            return (rng.choice([f"My favourite food is {x}.",
                                f"I like to eat {x} most of all.",
                                f"The food I like best is {x}."]),
                    f"Oh, {x} sounds good!",
                    ["What is my favourite food?", "What do I like to eat?",
                     "Which food do I like best?",
                     "Do you remember my favourite food?"],
                    f"Your favourite food is {x}.", cap(x))
        x = rng.randint(5, 90)
        return (rng.choice([f"I am {x} years old.", f"My age is {x}.",
                            f"I'm {x} years old."]),
                f"{x} is a nice age.",
                ["How old am I?", "What is my age?",
                 "Do you remember my age?", "Do you know how old I am?"],
                f"You are {x} years old.", f"{x}")

    NOT_TOLD = [
        (["What is my name?", "Do you know my name?", "Who am I?",
          "Tell me my name."], "You have not told me your name yet."),
        (["What is my favourite colour?", "Which colour do I like best?"],
         "You have not told me your favourite colour yet."),
        (["Where do I live?", "Which city do I live in?"],
         "You have not told me where you live yet."),
        (["How old am I?", "What is my age?"],
         "You have not told me your age yet."),
        (["What is the name of my dog?", "What is my cat called?",
          "What is the name of my pet?"],
         "You have not told me the name of your pet yet."),
    ]

    def conversation(self):
        rng = self.rng
        style, system, before, after = "full", "", "", ""
        roll = rng.random()
        if roll < 0.14:
            system = rng.choice(PLAIN_SYSTEMS)
        elif roll < 0.24:
            style, system = "word", rng.choice(WORD_SYSTEMS)
        elif roll < 0.33:
            style, system = "brief", rng.choice(BRIEF_SYSTEMS)
        elif roll < 0.40:
            systems, before, after = rng.choice(PERSONAS)
            system = rng.choice(systems)
        turns = rng.choices([1, 2, 3, 4, 5, 6, 8, 12, 20, 30],
                            [30, 22, 16, 10, 7, 5, 4, 3, 0.8, 0.7])[0]
        out = [system]

        def say(question, answer):
            out.extend([question, before + answer + after])

        previous, told, last_answer = None, [], None
        if style == "full" and rng.random() < 0.12:
            say(rng.choice(SMALL_TALK[0][0]), SMALL_TALK[0][1])
        while len(out) < 2 * turns + 1:
            roll = rng.random()
            if roll < 0.09 and style != "word":
                statement, reply, ask, answer, word = self.memory()
                if any(ask[0] == t[0][0] or ask[-1] == t[0][-1]
                       for t in told):
                    continue
                say(statement, "Okay." if style == "brief" else reply)
                told.append((ask, answer, word))
                previous = None
                # Mostly the question follows at some distance, sometimes at
                # once.
                turns = max(turns, len(out) // 2 + rng.choice([1, 1, 2, 3]))
            elif roll < 0.26 and told:
                ask, answer, word = rng.choice(told)
                say(self.dress(rng.choice(ask)),
                    f"{word}." if style == "brief" else answer)
                previous = None
            elif roll < 0.27 and not told and style == "full":
                ask, answer = rng.choice(self.NOT_TOLD)
                say(self.dress(rng.choice(ask)), answer)
                previous = None
            elif roll < 0.32 and style == "full":
                told_story = self.story()
                if told_story is None:
                    continue
                question, text, (name, kind) = told_story
                say(question, text)
                previous = None
                if rng.random() < 0.35:
                    if rng.random() < 0.5:
                        say(rng.choice([f"What was the name of the {kind}?",
                                        f"What is the {kind} called?",
                                        "Who was the story about?"]),
                            f"The {kind} is called {name}.")
                    else:
                        say(rng.choice([f"Which animal is {name}?",
                                        f"What kind of animal is {name}?",
                                        f"Who is {name}?"]),
                            f"{name} is {a(kind)}.")
            elif roll < 0.345 and style == "full":
                say(*self.copy())
                previous = None
            elif roll < 0.36 and style == "full" and last_answer:
                say(rng.choice(["Say that again.", "Can you repeat that?",
                                "What did you say?", "Please repeat that.",
                                "Sorry, what was that?"]), last_answer)
                previous = None
                last_answer = None
                continue
            else:
                part = self.fact(style, previous)
                if part is None:
                    continue
                question, answer, previous = part
                say(question, answer)
                last_answer = answer if len(answer) < 80 else None
                continue
            last_answer = None
        if style == "full" and turns > 1 and rng.random() < 0.25:
            questions, answer = rng.choice([THANKS, GOODBYE])
            say(rng.choice(questions), answer)
        return out


def main():
    writer = Writer(SEED)
    size = 0
    with open(HERE / "conversations.jsonl", "w", encoding="utf-8") as out:
        while size < TEXT_BYTES:
            line = json.dumps(writer.conversation(), ensure_ascii=False,
                              separators=(",", ":")) + "\n"
            out.write(line)
            size += len(line.encode())

    kept = [{"topic": item.topic, "question": question, "answer": item.full}
            for item in writer.items() for question in item.questions
            if held_out(question) and
            any(not held_out(q) for q in item.questions)]
    # Some questions are asked in two topics; either answer is right then.
    answers = {}
    for line in kept:
        answers.setdefault(line["question"], []).append(line["answer"])
    kept = [line for line in kept if len(answers[line["question"]]) == 1]
    random.Random(SEED).shuffle(kept)
    # Sums and comparisons have the most wordings by far: a quota for each
    # topic lets every one be seen.
    quota, chosen = {}, []
    for line in kept:
        quota[line["topic"]] = quota.get(line["topic"], 0) + 1
        if quota[line["topic"]] <= 40 and len(chosen) < HELD_OUT_LINES:
            chosen.append(line)
    with open(HERE / "heldout.jsonl", "w", encoding="utf-8") as out:
        for line in chosen:
            out.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
