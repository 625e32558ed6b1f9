"use strict";

/* Curves of what is selected: a chart for each quantity, mean lines within bands of min and max. */
((taiyi) => {
  const HEIGHT = 260;
  const TOP = 14;
  const BOTTOM = 28;
  const MOST_LINES = 8;
  const MOST_CHARTS = 6;
  const OLD = 0.2; // of all steps
  const { find, element } = taiyi;
  let charts = [];
  let allowed = MOST_CHARTS;
  let turn = 0;

  /** Sets the curves up: they follow the state from here on. */
  taiyi.startCurves = () => {
    taiyi.on(["selection"], () => {
      allowed = MOST_CHARTS;
    });
    taiyi.on(["selection", "pattern", "quantity", "mode", "updates"], taiyi.drawCurves);
    taiyi.on(["range", "valueScale", "theme"], () => charts.forEach(draw));
    taiyi.on(["cursor"], () => charts.forEach(drawOverlay));
    taiyi.onResize(find("charts"), () => charts.forEach(draw));
  };

  /** Draws the charts of the present selection, as soon as their numbers are there. */
  taiyi.drawCurves = async () => {
    turn += 1;
    const mine = turn;
    find("curves-title").textContent = heading();
    const wanted = wantedCharts();
    const made = await Promise.all(wanted.slice(0, allowed).map(chartOf));
    if (mine !== turn) return;
    charts = made;
    find("charts").replaceChildren(...charts.map((chart) => chart.home));
    find("more-charts").hidden = wanted.length <= allowed;
    find("more-charts").textContent =
      `Show ${taiyi.counted(wanted.length - allowed, "more quantity", "more quantities")}`;
    charts.forEach(draw);
  };

  /** Shows the charts that were left out. */
  taiyi.showAllCharts = () => {
    allowed = Infinity;
    return taiyi.drawCurves();
  };

  function heading() {
    const { selection } = taiyi.state;
    if (selection.length === 0) return "Curves";
    const names = selection.slice(0, 3).map((entry) => taiyi.shortened(entry.label || "model", 40));
    const more = selection.length > 3 ? ` and ${selection.length - 3} more` : "";
    return `Curves of ${names.join(", ")}${more}`;
  }

  /**
   * Quantities with their series: the present one, or all that the selection has by their gravity,
   * of those equally grave the present one first.
   */
  function wantedCharts() {
    const { quantity, selection } = taiyi.state;
    const modules = taiyi.selectedModules();
    const isChosen = taiyi.chooser();
    const isWanted = (series) =>
      selection.length === 0
        ? isChosen(taiyi.homeOf(series))
        : modules.has(taiyi.homeOf(series)) || modules.has(series.module);
    const quantities = [quantity, ...taiyi.quantities().filter((one) => one !== quantity)];
    const all = quantities.map((one) => ({
      quantity: one,
      all: taiyi.runs().map((run) => taiyi.seriesOf(run, one).filter(isWanted)),
    }));
    const some = selection.length === 0 ? all.slice(0, 1) : all;
    const filled = some.filter((one) => one.all.flat().length > 0);
    const gravity = (one) => taiyi.gravityOf(one.all.flat());
    return filled.sort((one, other) => gravity(one) - gravity(other));
  }

  async function chartOf({ quantity, all }) {
    const filled = all.findIndex((series) => series.length > 0);
    const [run, most] = [taiyi.runs()[filled], all[filled]];
    const chosen = taiyi.sample(most, MOST_LINES, await extremesOf(run, most));
    const names = chosen.map(taiyi.homeOf);
    const lines = [];
    for (const [place, run] of taiyi.runs().entries()) {
      for (const series of all[place].filter((one) => names.includes(taiyi.homeOf(one)))) {
        const chunk = await taiyi.chunk(run, series.chunk);
        lines.push({ series, chunk, place, colour: names.indexOf(taiyi.homeOf(series)) });
      }
    }
    const total = new Set(all.flat().map(taiyi.homeOf)).size;
    const chart = { quantity, lines, total, count: names.length, unit: lines[0].series.unit };
    const [gravest] = taiyi.bySeverity(all.flat());
    const shown = { state: gravest.state, sign: taiyi.stateSign(gravest).trim() };
    return { ...chart, ...furniture({ ...chart, ...shown }) };
  }

  /** The series with the largest number of all, and that with the smallest. */
  async function extremesOf(run, series) {
    if (series.length <= MOST_LINES) return [];
    const chunks = await Promise.all(series.map(({ chunk }) => taiyi.chunk(run, chunk)));
    const ends = series.map((one, k) => ({ one, ...taiyi.ends({ chunk: chunks[k], row: one.row }) }));
    const filled = ends.filter(({ least, most }) => least <= most);
    const pick = (isBetter) => filled.reduce((best, end) => (isBetter(end, best) ? end : best), filled[0]);
    const [low, high] = [pick((a, b) => a.least < b.least), pick((a, b) => a.most > b.most)];
    return [high, low].filter(Boolean).map(({ one }) => one);
  }

  function furniture(chart) {
    const canvas = element("canvas", { "aria-hidden": "true" });
    const overlay = element("canvas", { class: "overlay", "aria-hidden": "true" });
    const caption = element("p", { class: "caption" });
    const legend = element("table", { class: "legend" });
    const title = element("h3", {}, taiyi.shortened(chart.quantity, 60));
    if (chart.sign) title.append(element("span", { class: `state ${chart.state}` }, chart.sign));
    if (chart.unit) title.append(element("span", { class: "unit" }, chart.unit));
    const sheet = element("div", { class: "sheet" }, canvas, overlay);
    const home = element("figure", { class: "chart" }, title, caption, sheet, legend);
    const area = {};
    taiyi.followPointer(overlay, () => area);
    return { home, canvas, overlay, caption, legend, area };
  }

  function draw(chart) {
    const width = chart.home.clientWidth;
    Object.assign(chart.area, taiyi.areaOf(width, TOP, HEIGHT - TOP - BOTTOM));
    const points = chart.lines.map((line) => taiyi.pointsOf(line, chart.area));
    const isLog = taiyi.usesLog(points, taiyi.state.valueScale, chart.unit);
    const limits = taiyi.limitsOf(points, isLog);
    const scale = taiyi.scale(limits, [TOP + chart.area.height, TOP], isLog);
    const pen = taiyi.paper(chart.canvas, width, HEIGHT);
    taiyi.drawValues(pen, chart.area, { limits, scale, isLog });
    taiyi.drawBoundaries(pen, chart.area, taiyi.ink("line-strong"));
    taiyi.drawLines(pen, chart, points, { scale, isLog });
    taiyi.drawSteps(pen, chart.area);
    drawEvents(pen, chart.area);
    taiyi.drawFindings(pen, chart.area);
    chart.caption.textContent = captionOf(chart, points, isLog);
    chart.scale = scale;
    fillLegend(chart);
    drawOverlay(chart);
  }

  /** Events as ticks on the axis of steps. */
  function drawEvents(pen, area) {
    const scale = taiyi.stepScale(area);
    const [first, last] = taiyi.shownSteps();
    const bottom = area.top + area.height;
    for (const { step, kind } of taiyi.runs()[0].events) {
      if (step < first || step > last) continue;
      pen.strokeStyle = taiyi.ink(taiyi.lookOf(kind));
      pen.lineWidth = 2;
      taiyi.line(pen, [scale.at(step), bottom - 7], [scale.at(step), bottom]);
    }
    pen.lineWidth = 1;
  }

  function captionOf(chart, points, isLog) {
    const { count, total, lines } = chart;
    const parts = [
      count < total
        ? `${count} of ${taiyi.counted(total, "module")}, ${taiyi.whole(total - count)} left out: ` +
          "what was found, the extremes and flagged ones come first"
        : "",
      bandText(lines, points),
      dashText(),
      isLog ? "log scale" : "",
      taiyi.findings().length ? "dotted lines: findings, since their steps" : "",
      taiyi.runs()[0].events.length ? "ticks at the bottom: events" : "",
      isLog && points.flat().some((point) => point.min <= 0)
        ? "what is not positive is left out"
        : "",
    ];
    return parts.filter(Boolean).join(" · ");
  }

  const dashText = () =>
    taiyi.runs().length < 3
      ? taiyi.runs().length === 2
        ? "dashed: the second run"
        : ""
      : `dashes: ${taiyi.counted(taiyi.runs().length, "run")}, the first without`;

  function bandText(lines, points) {
    const widths = lines.flatMap(({ chunk }) => {
      const middle = Math.floor(chunk.start.length / 2);
      return chunk.end[middle] - chunk.start[middle] + 1;
    });
    const widest = Math.max(...widths);
    if (widest > 1) return `mean line, min … max band, ${taiyi.whole(widest)} steps a bin`;
    const isDense = points.flat().some((point) => point.weight > 1);
    return isDense ? "mean line, min … max band of each pixel" : "every number";
  }

  /** Below a chart, by gravity: which line is whose, with its value at the cursor, or its latest. */
  function fillLegend(chart) {
    const gravity = ({ series }) => taiyi.gravity(series.state);
    const sorted = chart.lines.toSorted((one, other) => gravity(one) - gravity(other));
    const rows = sorted.map((line) => {
      const value = element("td", { class: "value" });
      line.reading = value;
      return element(
        "tr",
        {},
        swatch(line),
        nameCell(line),
        value,
        element("td", {}, bounds(line)),
      );
    });
    const head = ["", "module", "", "least … most"].map((text) =>
      element("th", { scope: "col" }, text),
    );
    chart.legend.replaceChildren(
      element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...rows),
    );
    chart.readingHead = head[2];
  }

  function swatch({ colour, place }) {
    const mark = element("span", { class: place ? "swatch dashed" : "swatch" });
    mark.style.borderTopColor = taiyi.lineInks()[colour];
    return element("td", {}, mark);
  }

  function nameCell({ series, place }) {
    const name = taiyi.shortened(series.module || "model", 48);
    const go = () => taiyi.goTo(taiyi.homeOf(series));
    const button = element(
      "button",
      { type: "button", class: "link", onclick: go, title: taiyi.visible(series.module) },
      name,
    );
    const run = place ? ` (${taiyi.runName(place)})` : "";
    return element("td", {}, button, run);
  }

  const bounds = ({ chunk, series }) => {
    const { min, max } = taiyi.extremes({ chunk, row: series.row });
    return min === max ? min : `${min} … ${max}`;
  };

  function drawOverlay(chart) {
    const { area, overlay } = chart;
    const { cursor } = taiyi.state;
    const pen = taiyi.paper(overlay, chart.home.clientWidth, HEIGHT);
    taiyi.drawCursor(pen, area);
    chart.readingHead.textContent = cursor === null ? "latest" : `step ${taiyi.whole(cursor)}`;
    for (const one of chart.lines) {
      const found = taiyi.readingOf(one, cursor);
      one.reading.textContent = found.text;
      one.reading.className = `value state ${found.state}`;
    }
  }

  /**
   * A line's number at a step, or its latest.
   * @param {{chunk: object, series: object}} line
   * @param {number | null} cursor
   * @returns {{text: string, state: string}}
   */
  taiyi.readingOf = ({ chunk, series }, cursor) => {
    if (cursor === null) {
      const latest = taiyi.latestText(series);
      if (latest === null) return { text: "–", state: "" };
      const step = isOld(series) ? ` (step ${taiyi.whole(series.last)})` : "";
      return { text: latest + taiyi.stateSign(series) + step, state: taiyi.lookOfLatest(series) };
    }
    const columns = chunk.start.length;
    for (let column = columnAt(chunk, cursor); column >= 0; column -= 1) {
      const { mean, nan, inf } = taiyi.cell(chunk, series.row * columns + column);
      if (Number.isNaN(mean) && !nan && !inf) continue;
      const isFault = inf > 0 || (nan > 0 && !series.undefined);
      const bad = isFault ? (nan && !series.undefined ? "NaN" : "Inf") : "–";
      const number = Number.isNaN(mean) ? bad : taiyi.numeral(mean);
      return isFault ? { text: `${number} !`, state: "alert" } : { text: number, state: "" };
    }
    return { text: "–", state: "" };
  };

  /** Whether the latest number of a series is from long before the run's last step. */
  function isOld({ last }) {
    const [from, to] = taiyi.axisSteps();
    return to - last > OLD * (to - from);
  }

  const columnAt = (chunk, step) => chunk.start.findLastIndex((from) => from <= step);
})(taiyi);
