"""Small files in the form of the data sets that presets train on: made-up text, seeded.

What the real files have, these have too: classes of unequal size, other scripts, empty texts,
fields that are left out, and lines that are broken.
"""

import csv
import io
import json
import re

import numpy as np

# How often each number of stars comes, about as in the real file.
STARS = (0.12, 0.08, 0.10, 0.20, 0.50)
REVIEWS = 400
SINCE = 1_300_000_000  # seconds
_PLAIN = (
    "the it is a this my was for with and battery screen cable sound price box works quality "
    "camera charger unit remote tripod lens case ipod router"
).split()
# What a number of stars tends to say, so that there is something to learn.
_TELLING = (
    "broken refund terrible useless returned",
    "poor weak disappointing noisy flimsy",
    "okay average acceptable mixed so-so",
    "good solid handy nice sturdy",
    "perfect excellent love amazing best",
)
_RARE = (
    "caf\u00e9",
    "\u00fcber",
    "\u7535\u6c60",
    "\u2605\u2605\u2605",
    "\U0001f600",
    "don't",
    "5V/2A",
)
_MARKS = (".", "!", "...", "?!", ",", " --")
_TOPICS = (
    "minister election treaty border talks",
    "cup final coach season striker",
    "shares profit oil bank market",
    "software probe browser chip orbit",
)


def _sentence(rng: np.random.Generator, telling: str, words: int) -> str:
    """Some words, about one in four of them telling, a mark at the end."""
    found = []
    for _ in range(words):
        pool = telling.split() if rng.random() < 0.25 else _PLAIN
        found.append(str(rng.choice(_RARE if rng.random() < 0.04 else pool)))
    return " ".join(found).capitalize() + str(rng.choice(_MARKS))


def _text(rng: np.random.Generator, telling: str, sentences: int) -> str:
    counts = rng.integers(3, 14, size=sentences)
    return " ".join(_sentence(rng, telling, int(count)) for count in counts)


def make_reviews(seed: int) -> bytes:
    """Reviews as Amazon's 5-core files have them, one JSON object a line, UTF-8.

    Two lines are broken, one has half a star, one is an older dump's Python literal.
    """
    rng = np.random.default_rng([seed, 1])
    lines = []
    for i in range(REVIEWS):
        stars = int(rng.choice(5, p=STARS))
        review = {
            "reviewerID": f"A{rng.integers(10**9):09d}",
            "asin": f"B{rng.integers(10**7):07d}",
            "reviewerName": f"Reader {i}",
            "helpful": [int(n) for n in np.sort(rng.integers(0, 9, size=2))],
            "reviewText": _text(rng, _TELLING[stars], int(rng.integers(1, 7))),
            "overall": float(stars + 1),
            "summary": _sentence(rng, _TELLING[stars], 3),
            "unixReviewTime": int(SINCE + rng.integers(10**8)),
            "reviewTime": "07 1, 2013",
        }
        if i % 37 == 5:
            del review["reviewerName"]
        if i % 90 == 30:
            review["reviewText"] = ""
        lines.append(json.dumps(review, ensure_ascii=i % 2 == 0))
    lines[11] = repr(json.loads(lines[11]))  # single quotes
    lines.insert(20, lines[20][: len(lines[20]) // 2])  # cut off
    lines.insert(50, '{"asin": "B0000001", "overall": 5.0}')  # says nothing
    lines.insert(70, re.sub(r'"overall": \d.0', '"overall": 4.5', lines[70]))
    return ("\n".join(lines) + "\n").encode()


def make_enwik8(seed: int) -> bytes:
    """Pages of a wiki's XML dump, UTF-8, with markup."""
    rng = np.random.default_rng([seed, 2])
    pages = ['<mediawiki xml:lang="en">\n']
    for number in range(1, 26):
        topic = _TOPICS[number % len(_TOPICS)]
        title = str(rng.choice(topic.split())).capitalize()
        body = "\n\n".join(
            f"'''{title}''' [[{rng.choice(topic.split())}|link]] &quot;{_text(rng, topic, 4)}&quot;"
            for _ in range(3)
        )
        pages.append(
            f"  <page>\n    <title>{title}</title>\n    <id>{number}</id>\n"
            f'    <text xml:space="preserve">{body}</text>\n  </page>\n'
        )
    return ("".join(pages) + "</mediawiki>\n").encode()


def make_ag_news(seed: int, part: str, count: int) -> bytes:
    """class,title,description, quoted, without a header; classes 1 to 4; one broken line."""
    rng = np.random.default_rng([seed, 3, count])
    file = io.StringIO()
    table = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
    for i in range(count):
        label = int(rng.integers(4))
        title = _sentence(rng, _TOPICS[label], 5)
        table.writerow([label + 1, title, _text(rng, _TOPICS[label], 2)])
        if i == 7 and part == "train":
            file.write('"3","a title and no description"\n')
    return file.getvalue().encode()


def make_seasons(seed: int) -> bytes:
    """60 days of an hourly series in the form of ETTh1.csv, with daily and weekly seasons.

    Three loads follow the day and the week; OT follows them a few hours later, with a slow drift.
    """
    rng = np.random.default_rng(seed + 3)
    hours = np.arange(60 * 24)
    day, week = 2 * np.pi * hours / 24, 2 * np.pi * hours / (7 * 24)
    columns = {}
    for i, name in enumerate(("load_a", "load_b", "load_c")):
        season = 3 * np.sin(day + i) + 1.5 * np.cos(week - i) + 0.5 * np.sin(2 * day)
        columns[name] = 10 + 2 * i + season + 0.4 * rng.standard_normal(hours.size)
    drift = np.cumsum(0.05 * rng.standard_normal(hours.size))
    columns["OT"] = 20 + np.roll(columns["load_a"], 4) + drift
    start = np.datetime64("2016-07-01T00:00:00")
    lines = ["date," + ",".join(columns)]
    for hour in hours:
        date = str(start + np.timedelta64(int(hour), "h")).replace("T", " ")
        lines.append(date + "," + ",".join(f"{values[hour]:.3f}" for values in columns.values()))
    return ("\n".join(lines) + "\n").encode()
