"use strict";

/* The legend of the graph: of families, marks and states those that the run has. */
((taiyi) => {
  /** Sets the legend up: it follows updates from here on. */
  taiyi.startLegend = () => {
    taiyi.on(["updates"], tell);
    tell();
  };

  function tell() {
    const there = occurring();
    for (const entry of taiyi.find("legend").querySelectorAll("[data-when]"))
      entry.hidden = !there.has(entry.dataset.when);
  }

  /** What occurs, by the names that the legend's entries have in `data-when`. */
  function occurring() {
    const { items } = taiyi.outline;
    const series = taiyi.runs().flatMap((run) => run.series);
    const words = [...items.flatMap(wordsOf), ...series.map(({ state }) => state)];
    return new Set([...words, taiyi.findings().length ? "found" : ""]);
  }

  const PLAIN = ["op", "module"];

  function wordsOf(item) {
    const marks = [...taiyi.sides, "edits"].filter((side) => item.marks[side].length > 0);
    const isTaken = marks.some((side) => side !== "edits");
    const isPlain = !item.family && PLAIN.includes(item.kind) && !taiyi.opens(item);
    return [
      ...marks,
      item.family || isPlain ? `family-${item.family}` : "",
      isTaken ? "probed" : "",
      item.kind === "fold" || item.kind === "rest" ? "double" : "",
      taiyi.strokeOf(item),
    ];
  }
})(taiyi);
