"use strict";

/* What was found wrong, at the top of the page: each leads to its place in all views. */
((taiyi) => {
  const FIRST = 3;
  const SIGNS = { alert: "!", warning: "~", note: "i" };
  const { find, element } = taiyi;
  let allowed = FIRST;

  /** Sets the list up: it follows updates from here on. */
  taiyi.startFindings = () => {
    find("more-findings").addEventListener("click", () => {
      allowed = Infinity;
      drawFindingList();
    });
    taiyi.on(["updates"], drawFindingList);
    drawFindingList();
  };

  function drawFindingList() {
    const all = taiyi.findings();
    find("findings").hidden = taiyi.header.graph_alone || taiyi.runs().every(isEmpty);
    find("findings").classList.toggle("calm", all.length === 0);
    find("findings-title").textContent = titleOf(all);
    find("looked-at").replaceChildren(...lookedAt(all));
    find("finding-list").replaceChildren(...all.slice(0, allowed).map(item));
    find("more-findings").hidden = all.length <= allowed;
    find("more-findings").textContent = `Show all ${taiyi.counted(all.length, "finding")}`;
  }

  const isEmpty = (run) => run.series.length === 0;

  function titleOf(all) {
    if (all.length === 0) return "No findings";
    const count = (severity) => all.filter((one) => one.severity === severity).length;
    const parts = Object.keys(SIGNS)
      .filter(count)
      .map((severity) => taiyi.counted(count(severity), severity));
    return `Findings: ${parts.join(", ")}`;
  }

  /** What was looked at, where nothing was found; and what is flagged all the same. */
  function lookedAt(all) {
    const series = taiyi.runs().flatMap((run) => run.series);
    if (all.length > 0) return flaggedWith(series);
    const modules = new Set(series.map((one) => one.module).filter(Boolean)).size;
    const [first, last] = taiyi.allSteps().map(taiyi.whole);
    const parts = [
      taiyi.counted(series.length, "series", "series"),
      `of ${taiyi.counted(modules, "module")}, steps ${first} to ${last}, were looked at`,
    ];
    return [`${parts.join(" ")}.`, ...stillFlagged()];
  }

  function flaggedWith(series) {
    const flagged = series.filter(({ state }) => state !== "ok").length;
    const verb = flagged === 1 ? "is" : "are";
    return [`${taiyi.whole(flagged)} of ${taiyi.counted(series.length, "series", "series")} ${verb} flagged.`];
  }

  /** What is flagged by the size of single numbers, which are no findings. */
  function stillFlagged() {
    const [first, ...rest] = taiyi.urgent();
    if (!first) return [];
    const name = taiyi.shortened(`${first.quantity} of ${first.module || "the model"}`, 60);
    const go = () => {
      taiyi.set({ mode: first.mode, quantity: first.quantity });
      taiyi.selectModule(first.module);
    };
    const count = taiyi.counted(rest.length + 1, "series", "series");
    const lead = ` But ${count} ${rest.length ? "are" : "is"} flagged as out of the usual: `;
    const button = element("button", { type: "button", class: "link", onclick: go }, name);
    return [lead, button, rest.length ? ", and others." : "."];
  }

  function item(found) {
    return element(
      "li",
      { class: `finding ${taiyi.lookOfFinding(found)}` },
      element("span", { class: `kind ${taiyi.lookOfFinding(found)}` }, mark(found)),
      element("div", {}, lead(found), whose(found), advice(found), consequences(found)),
    );
  }

  const mark = ({ severity }) => `${SIGNS[severity]} ${severity}`;

  const lead = (found) =>
    element(
      "button",
      {
        type: "button",
        class: "link what",
        title: "Go there in the graph, the heat map and the curves",
        onclick: () => taiyi.showFinding(found),
      },
      taiyi.shortened(found.text, 400),
    );

  const whose = ({ place }) =>
    taiyi.runs().length > 1
      ? element("span", { class: "muted" }, ` (${taiyi.runName(place)})`)
      : "";

  const advice = (found) =>
    found.advice ? element("p", { class: "advice" }, taiyi.shortened(found.advice, 400)) : "";

  /** What follows from a finding, folded. */
  function consequences({ consequences: all, follow, place }) {
    if (all.length === 0) return "";
    const rows = all.map((one) => element("li", {}, lead({ ...one, place })));
    if (follow > all.length)
      rows.push(element("li", { class: "muted" }, `and ${taiyi.whole(follow - all.length)} more`));
    const [verb, be] = follow === 1 ? ["follows", "is"] : ["follow", "are"];
    return element(
      "details",
      {},
      element("summary", {}, `${taiyi.whole(follow)} more ${verb} from it or ${be} like it`),
      element("ul", {}, ...rows),
    );
  }

  /**
   * Goes to a finding: its quantity in the heat map, its step under the cursor, its module in the
   * graph and among the curves.
   * @param {object} found
   */
  taiyi.showFinding = (found) => {
    const { quantity, step, place = 0 } = found;
    const mode = taiyi.modes().includes("train") ? "train" : taiyi.state.mode;
    const isShown = taiyi.quantities().includes(quantity);
    const [first, last] = taiyi.shownSteps();
    const range = step >= first && step <= last ? taiyi.state.range : null;
    const shown = { quantity: isShown ? quantity : taiyi.state.quantity, compared: String(place) };
    taiyi.set({ mode, range, ...shown });
    find("heat-section").scrollIntoView();
    const gone = taiyi.selectModule(homeOf(found, place));
    taiyi.set({ cursor: step });
    return gone;
  };

  /** The module of the first run that a finding's is aligned with, or its own. */
  function homeOf({ module }, place) {
    const series = taiyi.runs()[place].series.find((one) => one.module === module);
    return series ? taiyi.homeOf(series) : module;
  }
})(taiyi);
