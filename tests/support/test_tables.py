"""Tables: what stands in a cell cannot break the table it stands in."""

import re

from hardpde.support.tables import Strong, html_table, markdown_table

HEAD, ROWS = ["", "|u|"], [["a <b>", 1.5], ["b | c", Strong("-0.25")]]


def test_markdown_has_a_line_for_every_row():
    assert markdown_table(HEAD, ROWS).splitlines() == [
        r"|  | \|u\| |", "| --- | --- |", "| a <b> | 1.5 |", r"| b \| c | **-0.25** |"]


def test_aligned_markdown_reads_as_text():
    lines = markdown_table(HEAD, ROWS, aligned=True).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert re.fullmatch(r"\| -+ \| -+: \|", lines[1]) and lines[2].endswith("  1.5 |")


def test_html_escapes_text_and_marks_rows_and_cells():
    assert html_table(HEAD, ROWS, ["good"], " class='left2'", " style='x'") == (
        "<table class='left2'><thead><tr><th style='x'></th><th style='x'>|u|</th></tr></thead><tbody>\n"
        "<tr class='good'><td style='x'>a &lt;b&gt;</td><td style='x'>1.5</td></tr>\n"
        "<tr><td style='x'>b | c</td><td style='x' class='best'>-0.25</td></tr>\n</tbody></table>")


def test_a_table_may_have_no_head_and_no_rows():
    assert html_table([], []) == "<table><tbody>\n</tbody></table>"
    assert markdown_table(["a", "b"], []) == "| a | b |\n| --- | --- |"
