"""Texts at which tokenizers part ways: what step 2 gives to both sides' tokenizers.

Written with escapes, so that no editor or version control changes them.
"""

SENTENCE = "It is a nice day today , I want to go to the park !"  # the first port's own example
LONG_BYTES = 100_000

HARD_TEXTS = (
    SENTENCE,
    "",
    " ",
    " \t\n\r\n \v\f ",
    "It's  a CAT... (really?!) -- x_1 3.14, e.g. http://a.b/c?d=e",
    "caf\u00e9 cafe\u0301 \u212b \u00c5 A\u030a",  # one text composed and decomposed
    "\u0301 starts with a mark, ends with one\u0308\u0323",
    "\U0001f600 \U0001f44d\U0001f3fd \U0001f469\u200d\U0001f469\u200d\U0001f467",
    "flags \U0001f1eb\U0001f1ee\U0001f1f8\U0001f1ea, keys 1\ufe0f\u20e3 #\ufe0f\u20e3",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u3053\u3093\u306b\u3061\u306f \ud55c\uad6d\uc5b4",
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u202babc\u202c \u200fx",
    "zero\u200bwidth\u200djoin\u2060er\ufeff soft\u00adhyphen",
    "nul\x00 bell\x07 esc\x1b[0m del\x7f next\x85line sep\u2028para\u2029end",
    "\uff21\uff22\uff23 \uff11\uff12\uff13 \uff01 \ufb01 \u338f \u00bd \u2460 \u2122",
    "\u0130stanbul \u1e9e STRASSE \u03a3\u03a3 \ua7ae",  # lower case that changes the length
    "\u00a0no\u00a0break\u3000wide\u2003em\u202fnarrow",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u0928\u092e\u0938\u094d\u0924\u0947 \u2581_",
    "\U00010348\U0001d7d8\U000e0041 \ufffd \ufdd0 \U0010ffff",  # beyond 16 bits, no characters
    "<pad> <s> </s> <unk> [MASK] \\n %s {0}",
    "a" * 300 + "!" * 300,
    ("The quick brown fox, na\u00efve, jumps \u2014 again. " * LONG_BYTES)[:LONG_BYTES],
    "only the last text has: \u0431\u0443\u043a\u0432\u044b zyzzyva",  # no vocabulary has these
)
