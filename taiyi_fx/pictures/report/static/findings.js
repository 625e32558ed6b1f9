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
    find("changed").replaceChildren(...(all.length === 0 ? changedMost() : []));
    find("findings-title").textContent = titleOf(all);
    find("looked-at").replaceChildren(...lookedAt(all));
    find("finding-list").replaceChildren(...all.slice(0, allowed).map(item));
    find("more-findings").hidden = all.length <= allowed;
    find("more-findings").textContent = `Show all ${taiyi.counted(all.length, "finding")}`;
  }

  const isEmpty = (run) => run.series.length === 0;

  function titleOf(all) {
    if (all.length === 0) return "Nothing recognised";
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
      `None of the faults that taiyi_fx knows is in ${taiyi.counted(series.length, "series", "series")}`,
      `of ${taiyi.counted(modules, "module")}, steps ${first} to ${last}; another one may be.`,
    ];
    return [parts.join(" "), ...stillFlagged()];
  }

  /** What changed most in the first run, as a place to begin where nothing was found. */
  function changedMost() {
    const [{ changed = [] }] = taiyi.runs();
    if (changed.length === 0) return [];
    return [element("li", { class: "muted" }, "What changed most:"), ...changed.map(changedItem)];
  }

  function changedItem({ module, quantity, first, last }) {
    const name = taiyi.shortened(`${quantity} of ${module || "the model"}`, 60);
    const go = () => goTo({ mode: "train", quantity, module });
    const [from, to] = [first, last].map(taiyi.numeral);
    const title = "Go there in the graph, the heat map and the curves";
    const button = element("button", { type: "button", class: "link", title, onclick: go }, name);
    return element("li", {}, button, ` from ${from} to ${to}`);
  }

  function goTo({ mode, quantity, module }) {
    taiyi.set({ mode, quantity });
    return taiyi.selectModule(module);
  }

  function flaggedWith(series) {
    const flagged = series.filter(({ state }) => state !== "ok").length;
    if (flagged === 0) return [];
    const verb = flagged === 1 ? "is" : "are";
    return [`${taiyi.whole(flagged)} of ${taiyi.counted(series.length, "series", "series")} ${verb} flagged, with ! or ~.`];
  }

  /** What is flagged by the size of single numbers, which are no findings. */
  function stillFlagged() {
    const [first, ...rest] = taiyi.urgent();
    if (!first) return [];
    const name = taiyi.shortened(`${first.quantity} of ${first.module || "the model"}`, 60);
    const go = () => goTo(first);
    const count = taiyi.counted(rest.length + 1, "series", "series");
    const lead = ` But ${count} ${rest.length ? "are" : "is"} flagged as out of the usual: `;
    const button = element("button", { type: "button", class: "link", onclick: go }, name);
    return [lead, button, rest.length ? ", and others." : "."];
  }

  function item(found) {
    return element(
      "li",
      { class: `finding ${taiyi.lookOfFinding(found)}`, tabindex: -1 },
      element("span", { class: `kind ${taiyi.lookOfFinding(found)}` }, mark(found)),
      element("div", {}, lead(found), when(found), whose(found), advice(found), consequences(found)),
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

  const when = (found) => element("span", { class: "muted when" }, ` ${taiyi.whenOf(found)} · ${found.kind}`);

  /** Brings the entry of a finding at the top to sight. */
  taiyi.showEntry = (found) => {
    const place = taiyi.findings().findIndex(
      (one) => one.place === found.place && one.kind === found.kind && one.module === found.module,
    );
    allowed = Math.max(allowed, place + 1);
    drawFindingList();
    const entry = find("finding-list").children[place];
    entry.scrollIntoView({ block: "center" });
    entry.focus({ preventScroll: true });
  };

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
    const { opens: quantity, step, place = 0 } = found;
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
