"""The pages of a benchmark run show the measures, missed aims and void races."""

import json
import xml.etree.ElementTree as ElementTree

import pytest
from harness.pages import pages
from harness.plots import Axis, label, svg
from harness.report import Measure, Plot, Report

MACHINE = {"facts": {"processors": "2 | of them"}, "postgres": {"jit": "off"},
           "fdatasync": {"bytes": 8192, "count": 3, "min": 0.1, "p50": 0.2, "p90": 0.3, "p99": 0.4, "max": 0.5}}
SUITES = {"puts": {"title": "Durable writes", "text": "What it is."}, "reads": {"title": "Reads", "text": "What they are."}}


def results(report: Report, **facts) -> dict:
    return json.loads(report.json(**{"quick": False, "othersShare": 0, "failures": [], "suites": SUITES, "machine": MACHINE, **facts}))


@pytest.fixture
def report():
    return Report(
        measures=[Measure("puts", "PUTs / puts", [2.0, 4.0, 3.5], aim=3.0, absolute="1 against 2"),
                  Measure("puts", "  their latency", [1.5, 1.1], at_most=1.2),
                  Measure("reads", "GETs | constants", [0.8], unit=" ms")],
        plots=[Plot("puts", "Writes a second", "connections", "writes", {"one": [[1, 10], [64, 1000]], "other": [[1, 5]]})],
        notes=["puts: all answers were 2xx", "others ran"])


def test_every_measure_has_its_row(report):
    page = pages(results(report))["benchmarks.md"]
    assert "| PUTs / puts | 3.50 | 2.00 – 4.00 | at least 3.00: met | 1 against 2 |" in page
    assert "| … their latency | 1.30 | 1.10 – 1.50 | at most 1.20: **missed** |  |" in page
    assert "| GETs \\| constants | 0.80 ms |  |  |  |" in page
    assert "- all answers were 2xx" in page and "- others ran" in page


def test_every_sentence_of_a_note_has_its_line(report):
    report.notes = ["puts: " + "word " * 40 + "end. The next sentence", "ran at 0.5 of the rate. Other programs ran"]
    page = pages(results(report))["benchmarks.md"]
    assert "\n  The next sentence\n" in page and "- ran at 0.5 of the rate.\n  Other programs ran\n" in page
    assert max(len(line) for line in page.splitlines() if not line.startswith("|")) <= 160


def test_what_was_missed_stands_at_the_top(report):
    page = pages(results(report))["benchmarks.md"]
    summary = page[:page.index("## Durable writes")]
    assert "1 of 2 aims are met." in summary
    assert "[Durable writes](#durable-writes) | PUTs / puts … their latency | 1.30 | at most 1.20 |" in summary


def test_a_void_race_a_busy_machine_and_a_quick_run_are_said(report):
    page = pages(results(report, failures=["reads: 3 answers were not 2xx\nand more"], quick=True, othersShare=0.5))["benchmarks.md"]
    assert "**Void:** reads: 3 answers were not 2xx" in page and "and more" not in page
    assert "quick run" in page and "50% of the processors" in page
    assert "Void" not in pages(results(report))["benchmarks.md"]


def test_a_void_race_is_withdrawn_whole(report):
    report.withdraw("puts")
    assert [measure.suite for measure in report.measures] == ["reads"]
    assert report.plots == [] and report.notes == ["others ran"]


def test_links_lead_to_what_is_written(report):
    made = pages(results(report))
    links = {line.split("](")[1].rstrip(")") for line in made["benchmarks.md"].splitlines() if line.startswith("![")}
    assert links == {name for name in made if name.endswith(".svg")} == {"benchmarks/puts-writes-a-second.svg"}
    assert pages(json.loads(made["benchmarks/results.json"])) == made


def test_two_plots_of_one_name_are_refused(report):
    report.plots.append(report.plots[0])
    with pytest.raises(ValueError, match="two plots"):
        pages(results(report))


def test_a_plot_is_xml_with_all_of_its_points():
    root = ElementTree.fromstring(svg("A < B", "x & y", "z", {"one": [[1, 10], [64, 1000]], "two": [[1, 5]]}, log_y=True))
    tags = [element.tag.rsplit("}")[-1] for element in root.iter()]
    # One mark each, and one in the legend.
    assert tags.count("circle") == 3 and tags.count("rect") == 2
    assert "A < B" in "".join(root.itertext())


def test_what_has_no_logarithm_is_left_out_and_nothing_at_all_is_refused():
    root = ElementTree.fromstring(svg("t", "x", "y", {"one": [[0, 1], [10, 1]]}))
    assert sum(element.tag.endswith("circle") for element in root.iter()) == 2
    with pytest.raises(ValueError, match="nothing to plot"):
        svg("t", "x", "y", {"one": []})


@pytest.mark.parametrize("values", [[0, 1], [5, 5], [0.001, 0.0011], [3, 1e6], [-2, 7], [0, 0]])
def test_linear_axes_hold_their_values(values):
    axis = Axis(values, False, 0, 100)
    assert all(-1e-6 <= axis.place(value) <= 100 + 1e-6 for value in values)
    assert 2 <= len(axis.ticks()) <= 8


def test_axes_of_logarithms_go_by_decades():
    assert Axis([1, 256], True, 0, 300).ticks() == [1, 10, 100, 1000]
    assert Axis([1, 1], True, 0, 300).ticks() == [1, 10]
    assert Axis([1, 100], True, 0, 100).place(10) == 50


def test_labels_are_short():
    assert [label(value) for value in (0, 0.25, 100, 2500, 1e6)] == ["0", "0.25", "100", "2.5k", "1M"]
