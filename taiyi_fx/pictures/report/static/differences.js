"use strict";

/* What differs most between runs: what differs more than seeds of one group do comes first. */
((taiyi) => {
  const FIRST = 5;
  const { find, element } = taiyi;
  let allowed = FIRST;

  /** Sets the list up, where the page has several runs. */
  taiyi.startDifferences = () => {
    find("more-differences").addEventListener("click", () => {
      allowed = Infinity;
      drawDifferences();
    });
    drawDifferences();
  };

  function drawDifferences() {
    const all = taiyi.header.differences ?? [];
    find("differences").hidden = all.length === 0;
    find("differences-note").textContent = noteOf(all);
    find("difference-rows").replaceChildren(...all.slice(0, allowed).map(row));
    find("more-differences").hidden = all.length <= allowed;
    find("more-differences").textContent = `Show ${taiyi.counted(all.length, "difference")}`;
  }

  function noteOf(all) {
    const isMeasured = all.some(({ spread }) => spread !== null);
    return isMeasured
      ? "Medians of the second half, by how much more they differ than runs of one group do."
      : "Medians of the second half, the largest factors first. Give lists of runs, such as seeds, " +
          "for a yardstick.";
  }

  function row(difference) {
    const { module, quantity, mode, place, factor, spread } = difference;
    const name = `${taiyi.shortened(quantity, 40)} of ${taiyi.shortened(module || "the model", 48)}`;
    const within = spread === null ? "" : `within a group × ${taiyi.numeral(spread)}`;
    return element(
      "tr",
      {},
      element("td", {}, element("button", { type: "button", class: "link", onclick: () => go(difference) }, name)),
      element("td", { class: "muted" }, mode === "train" ? "" : mode),
      element("td", { class: "number" }, `× ${taiyi.numeral(factor)}`),
      element("td", { class: "muted" }, within),
      element("td", { class: "muted" }, taiyi.runName(place)),
    );
  }

  function go({ module, quantity, mode, place }) {
    taiyi.set({ quantity, mode, compared: `ratio${place}` });
    taiyi.selectModule(module);
  }
})(taiyi);
