"""A page without a script in Chinese: its sentences, its labels, and what stays as it is."""

import pytest

from twincheck.extras.chinese.markup import written


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("<p>Found no more</p>", "<p>不再出现</p>"),
        ("<h2>Found no more <b>3</b></h2>", "<h2>不再出现 <b>3</b></h2>"),
        ("<td>1 row got worse\n</td>", "<td>1 行变差 </td>"),
        # A sentence with an element in it is one text; the element may stand elsewhere in it.
        (
            "<p>All are in what <code>--json FILE</code> writes.</p>",
            "<p><code>--json FILE</code> 会写出全部。</p>",
        ),
        ('<table aria-label="Steps and models">', '<table aria-label="步骤与模型">'),
        # Names and code stay; words of several, and a row's heading, are no names.
        (
            "<bdi>before</bdi><code>Found no more</code>",
            "<bdi>before</bdi><code>Found no more</code>",
        ),
        ("<th><bdi>optimizer</bdi></th>", "<th><bdi>优化器</bdi></th>"),
        ("<bdi>steps per epoch</bdi>", "<bdi>每轮步数</bdi>"),
        ("<style>a > b</style><br>", "<style>a > b</style><br>"),
        # What came from a result stays text.
        ("<p>found now: &lt;b&gt; &amp; more</p>", "<p>新出现：&lt;b&gt; &amp; more</p>"),
        ("<p>no entry has this <i>at all</i></p>", "<p>no entry has this <i>at all</i></p>"),
        ('<html lang="en"><p>x</html>', '<html lang="zh-CN"><p>x</html>'),
    ],
)
def test_a_page_in_chinese(page, said):
    assert written(page) == said
