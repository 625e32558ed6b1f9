"use strict";

/* Layers by steps: a row for each module in the order of execution, a colour for each number. */
((taiyi) => {
  const TOP = 8;
  const BOTTOM = 26;
  const { find, element } = taiyi;
  let shown = null;
  let turn = 0;
  let hovered = null;
  let at = { row: 0, column: 0 };

  /** Sets the heat map up: it follows the state from here on. */
  taiyi.startHeatMap = () => {
    const overlay = find("heat-overlay");
    taiyi.followPointer(overlay, () => shown.area, { hover: onHover, click: onClick });
    overlay.addEventListener("keydown", onKey);
    find("heat-table").addEventListener("toggle", fillTable);
    const topics = ["quantity", "mode", "compared", "colourScale", "range", "theme", "updates"];
    taiyi.on([...topics, "pattern", "rowOrder"], taiyi.drawHeatMap);
    find("pattern").addEventListener("input", ({ target }) => taiyi.set({ pattern: target.value }));
    taiyi.on(["selection"], () => shown && draw());
    taiyi.on(["cursor"], drawOverlay);
    taiyi.onResize(find("heat"), taiyi.drawHeatMap);
  };

  /** Draws the heat map of the present quantity, as soon as its numbers are there. */
  taiyi.drawHeatMap = async () => {
    turn += 1;
    const mine = turn;
    const rows = await rowsOf(taiyi.state.quantity);
    if (mine !== turn) return;
    find("heat-empty").hidden = rows.length > 0;
    find("heat").hidden = rows.length === 0;
    hovered = null;
    if (rows.length === 0) tellWhyEmpty();
    else show(rows);
  };

  function show(rows) {
    const prefix = taiyi.prefixOf(rows.map(({ module }) => module));
    shown = { rows, prefix, ...measured(rows) };
    find("heat-title").textContent = heatTitle();
    const order = taiyi.state.rowOrder === "role" ? "Rows by role, what was found first, then in" : "Rows in";
    const shared = prefix ? `, all in ${taiyi.shortened(prefix.slice(0, -1), 60)}` : "";
    find("heat-order").textContent = `${order} the order of execution${shared}.`;
    draw();
    fillTable();
  }

  function tellWhyEmpty() {
    const { pattern, quantity } = taiyi.state;
    find("heat-title").textContent = taiyi.shortened(quantity, 60);
    find("heat-empty").textContent = pattern.trim()
      ? `No row's name matches ${taiyi.shortened(pattern.trim(), 60)}.`
      : "This quantity has no numbers in this mode.";
  }

  function heatTitle() {
    const name = taiyi.shortened(taiyi.state.quantity, 60);
    if (taiyi.showsRatio()) return `${name}: ${overText()}`;
    return shown.isLog ? `log₁₀ |${name}|` : name;
  }

  /** The run that is shown over the first, in words. */
  function overText() {
    if (taiyi.runs().length === 2) return "second over first";
    return `${taiyi.runName(taiyi.shownPlace())} over ${taiyi.runName(0)}`;
  }

  /** Rows that the pattern chooses, in the order chosen. */
  async function rowsOf(quantity) {
    const isChosen = taiyi.chooser();
    const rows = (await allRows(quantity)).filter(({ module }) => isChosen(module));
    if (taiyi.state.rowOrder === "role") return foundFirst(taiyi.byRole(rows));
    return rows.map((row) => ({ ...row, isAlone: true }));
  }

  /** Rows with the roles first in which something was found. */
  function foundFirst(rows) {
    const found = new Set(rows.filter(({ module }) => foundAt(module).length).map(({ role }) => role));
    const isOther = ({ role }) => (found.has(role) ? 0 : 1);
    return rows.toSorted((one, other) => isOther(one) - isOther(other));
  }

  /** Rows with what each run has of a module; the first run gives their order. */
  async function allRows(quantity) {
    const byModule = new Map();
    for (const [place, run] of taiyi.runs().entries()) {
      for (const series of taiyi.seriesOf(run, quantity)) {
        const home = taiyi.homeOf(series);
        const row = byModule.get(home) ?? { module: home, sources: [], series: [] };
        row.series[place] = series;
        const chunk = await taiyi.chunk(run, series.chunk);
        row.sources[place] = { chunk, row: series.row, undefined: series.undefined };
        byModule.set(home, row);
      }
    }
    return [...byModule.values()];
  }

  function measured(rows) {
    const width = find("heat").clientWidth;
    const ideal = rows.length * (rows.length <= 32 ? 16 : 12);
    const height = Math.round(Math.min(Math.max(ideal, 60), Math.max(600, 2 * rows.length), 900));
    const area = taiyi.areaOf(width, TOP, height);
    return { area, width, height: height + TOP + BOTTOM, ...look(rows, area.width) };
  }

  /** The raster of what is compared, and how its values become colours. */
  function look(rows, columns) {
    const { colourScale } = taiyi.state;
    const of = (place) =>
      taiyi.raster(
        rows.map((row) => row.sources[place] ?? null),
        taiyi.shownSteps(),
        columns,
      );
    const place = taiyi.shownPlace();
    if (taiyi.showsRatio()) return ratioLook(taiyi.ratio(of(0), of(place)));
    const raster = of(place);
    const [unit] = rows.flatMap(({ series }) => series.filter(Boolean).map((one) => one.unit));
    const isFar = !taiyi.isShare(unit ?? "") && taiyi.spansFar(raster);
    return taiyi.colouring(raster, colourScale === "auto" ? isFar : colourScale === "log");
  }

  function ratioLook(raster) {
    const measure = (value) => value;
    const found = taiyi.colourLimits(raster, measure).filter(Number.isFinite);
    const widest = Math.max(...found.map(Math.abs), 0.1);
    const limits = [-widest, widest];
    const labels = (powers) =>
      taiyi.numerals(powers.map((power) => 2 ** power)).map((text) => `× ${text}`);
    const ticks = taiyi.ticks(limits, 4);
    return { raster, measure, map: taiyi.maps.diverging, limits, labels, ticks };
  }

  function draw() {
    const { area, raster, width, height } = shown;
    const pen = taiyi.paper(find("heat-canvas"), width, height);
    taiyi.paintAbsent(pen, area);
    taiyi.paint(pen, area, raster, shown);
    taiyi.drawBoundaries(pen, area, taiyi.ink("boundary"));
    taiyi.drawSteps(pen, area);
    drawGaps(pen);
    drawNames(pen);
    drawRings(pen);
    taiyi.paintColourBar(find("heat-bar"), shown);
    const kinds = new Set(raster.flags);
    for (const [name, flag] of Object.entries(taiyi.flags)) {
      const key = find(`key-${name.toLowerCase()}`);
      if (key) key.hidden = !kinds.has(flag);
    }
    find("key-zero").hidden = !(shown.isLog && taiyi.hasZero(raster));
    find("key-ring").hidden = !shown.rows.some(({ module }) => foundAt(module).length > 0);
    drawOverlay();
  }

  const rowHeight = () => shown.area.height / shown.rows.length;

  const middleOf = (row) => shown.area.top + (row + 0.5) * rowHeight();

  /** Thin gaps between roles. */
  function drawGaps(pen) {
    const { rows, area } = shown;
    pen.fillStyle = taiyi.ink("surface");
    rows.forEach((row, k) => {
      if (k === 0 || (row.isAlone && rows[k - 1].isAlone) || !(row.isAlone || row.isFirst)) return;
      pen.fillRect(area.left, Math.round(area.top + k * rowHeight()) - 1, area.width, 2);
    });
  }

  /**
   * As many names as there is room for: what is selected and what was found first, then the
   * first row of each role, with the role at its left.
   */
  function drawNames(pen) {
    const taken = { name: [], layer: [] };
    const isFree = (columns, y) =>
      columns.every((column) => taken[column].every((other) => Math.abs(other - y) >= 12));
    pen.textBaseline = "middle";
    const ranked = shown.rows.map((row, k) => ({ row, k, rank: rankOf(row) }));
    for (const { row, k, rank } of ranked.toSorted((one, other) => one.rank - other.rank)) {
      const y = middleOf(k);
      const columns = row.isAlone ? ["name", "layer"] : row.isFirst ? ["name"] : [];
      if (row.isAlone ? !isFree(columns, y) : !isFree(["layer"], y)) continue;
      const hasName = columns.includes("name") && isFree(["name"], y);
      if (hasName) taken.name.push(y);
      taken.layer.push(y);
      drawName(pen, { row, y, rank, hasName });
    }
  }

  /** What has to be named: what is selected, what was found, the first of a role, the others. */
  function rankOf({ module, isFirst }) {
    if (taiyi.selectedModules().has(module)) return 0;
    if (foundAt(module).length) return 1;
    return isFirst ? 2 : 3;
  }

  const foundAt = (module) => {
    const { quantity } = taiyi.state;
    const isHere = (one) => isWithin(module, one.module) && one.evidence === quantity;
    return taiyi.findings().filter(isHere);
  };

  /** Whether a module is another or in it; in the model as a whole is itself alone. */
  const isWithin = (module, outer) =>
    module === outer || (outer !== "" && module.startsWith(`${outer}.`));

  function drawName(pen, { row, y, rank, hasName }) {
    const { area, prefix } = shown;
    const room = Math.floor((area.left - 18) / 6);
    const mark = rank === 0 ? " ▸" : "";
    const [found] = foundAt(row.module);
    pen.fillStyle = taiyi.ink(rank === 0 ? "accent" : found ? taiyi.lookOfFinding(found) : "muted");
    pen.textAlign = "right";
    if (row.isAlone) {
      const name = row.module ? row.module.slice(prefix.length) : "model";
      pen.fillText(taiyi.ending(name, room) + mark, area.left - 6, y);
      return;
    }
    pen.fillText(row.layer + mark, area.left - 6, y);
    if (!hasName || row.role === "*") return;
    pen.textAlign = "left";
    pen.fillStyle = taiyi.ink("muted");
    const left = Math.max(room - row.layer.length - 2, 6);
    pen.fillText(taiyi.ending(row.role.slice(prefix.length), left), 2, y);
  }

  /** Rings around what was found, in its row at its step. */
  function drawRings(pen) {
    const { rows, area } = shown;
    const [first, last] = taiyi.shownSteps();
    const scale = taiyi.stepScale(area);
    pen.lineWidth = 2;
    rows.forEach(({ module }, k) => {
      for (const found of foundAt(module)) {
        if (found.step < first || found.step > last) continue;
        pen.strokeStyle = taiyi.ink(taiyi.lookOfFinding(found));
        pen.beginPath();
        pen.arc(Math.max(scale.at(found.step), area.left + 8), middleOf(k), 7, 0, 2 * Math.PI);
        pen.stroke();
      }
    });
  }

  function drawOverlay() {
    if (!shown) return;
    const { area, width, height } = shown;
    const pen = taiyi.paper(find("heat-overlay"), width, height);
    taiyi.drawCursor(pen, area);
    if (hovered !== null) drawHovered(pen);
    if (document.activeElement !== find("heat-overlay")) return;
    pen.strokeStyle = taiyi.ink("text");
    pen.lineWidth = 2;
    const x = area.left + at.column;
    pen.strokeRect(x - 4, area.top + at.row * rowHeight() - 2, 8, rowHeight() + 4);
  }

  /** The whole name of the row under the pointer, over those at the left. */
  function drawHovered(pen) {
    const { rows, area, prefix } = shown;
    const name = rows[hovered].module ? rows[hovered].module.slice(prefix.length) : "model";
    const text = taiyi.ending(name, Math.floor((area.left + area.width / 2) / 6));
    const y = middleOf(hovered);
    const wide = pen.measureText(text).width + 14;
    pen.fillStyle = taiyi.ink("accent-soft");
    pen.fillRect(Math.max(area.left - wide, 0), y - 8, wide, 16);
    pen.fillStyle = taiyi.ink("text");
    pen.textBaseline = "middle";
    pen.textAlign = wide > area.left ? "left" : "right";
    pen.fillText(text, wide > area.left ? 6 : area.left - 6, y);
  }

  const rowAt = (y) => {
    const row = Math.floor(((y - shown.area.top) / shown.area.height) * shown.rows.length);
    return row >= 0 && row < shown.rows.length ? row : null;
  };

  function onHover(place) {
    const row = place && rowAt(place.y);
    hovered = row;
    drawOverlay();
    find("heat-reading").textContent =
      row === null ? "" : reading(row, Math.floor(place.x - shown.area.left));
  }

  function onClick(place) {
    const row = rowAt(place.y);
    if (row !== null) taiyi.selectModule(shown.rows[row].module);
  }

  /** What stands at a row and a pixel column, in words. */
  function reading(row, column) {
    const { rows, raster, area } = shown;
    const [first, last] = taiyi.shownSteps();
    const step = first + (column / area.width) * (last - first);
    const cell = row * raster.columns + Math.min(Math.max(column, 0), raster.columns - 1);
    const name = taiyi.shortened(rows[row].module || "model", 60);
    return `${name} · ${stepsAt(rows[row], step)} · ${valueAt(raster, cell)}`;
  }

  function stepsAt(row, step) {
    const { start, end } = (row.sources[taiyi.shownPlace()] ?? row.sources.find(Boolean)).chunk;
    const column = Math.max(
      start.findLastIndex((from) => from <= step),
      0,
    );
    const [from, to] = [start[column], end[column]].map(taiyi.whole);
    return from === to ? `step ${from}` : `steps ${from} to ${to}`;
  }

  function valueAt(raster, cell) {
    const { ABSENT, UNDEFINED, INF, NAN } = taiyi.flags;
    const flag = raster.flags[cell];
    if (flag === ABSENT) return "nothing was taken";
    if (flag === UNDEFINED) return taiyi.undefinedText;
    if (flag === NAN) return "NaN among the values";
    if (flag === INF) return "Inf among the values";
    const value = raster.values[cell];
    if (taiyi.showsRatio()) return `${overText()}: × ${taiyi.numeral(2 ** value)}`;
    return `${taiyi.state.quantity} ${taiyi.numeral(value)}`;
  }

  const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

  function onKey(event) {
    const move = MOVES[event.key];
    if (move) walk(move, event.shiftKey ? 40 : 8);
    else if (event.key === "Enter") taiyi.selectModule(shown.rows[at.row].module);
    else if (event.key === "Escape") taiyi.set({ range: null });
    else return;
    event.preventDefault();
  }

  function walk([down, right], stride) {
    const within = (value, most) => Math.min(Math.max(value, 0), most);
    at = {
      row: within(at.row + down, shown.rows.length - 1),
      column: within(at.column + right * stride, shown.area.width - 1),
    };
    const [first, last] = taiyi.shownSteps();
    taiyi.set({ cursor: Math.round(first + (at.column / shown.area.width) * (last - first)) });
    const text = reading(at.row, at.column);
    find("heat-reading").textContent = text;
    taiyi.announce(text);
  }

  /** The same numbers as a table, for those who do not see the colours. */
  function fillTable() {
    const home = find("heat-table");
    if (!home.open || !shown) return;
    const body = shown.rows.map(({ module, series, sources }) => {
      const place = series.findIndex(Boolean);
      const { min, max } = extremes(sources[place]);
      const { nan, inf, undefined: isUndefined } = series[place];
      const bad = isUndefined ? `${nan} × 0/0` : nan;
      const cells = [taiyi.latestText(series[place]) ?? "–", min, max, bad, inf];
      return tableRow(module, cells.map(String));
    });
    const head = ["module", "latest", "least", "most", "NaN", "Inf"];
    const heads = head.map((text) => element("th", { scope: "col" }, text));
    home
      .querySelector("table")
      .replaceChildren(
        element("thead", {}, element("tr", {}, ...heads)),
        element("tbody", {}, ...body),
      );
  }

  const tableRow = (module, cells) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, taiyi.shortened(module, 60)),
      ...cells.map((text) => element("td", {}, text)),
    );

  /** The least and the most finite number of a row; Infinity and -Infinity where there is none. */
  taiyi.ends = ({ chunk, row }) => {
    let [least, most] = [Infinity, -Infinity];
    const columns = chunk.start.length;
    for (let cell = row * columns; cell < (row + 1) * columns; cell += 1) {
      const { min, max } = taiyi.cell(chunk, cell);
      if (min < least) least = min;
      if (max > most) most = max;
    }
    return { least, most };
  };

  function extremes(source) {
    const { least, most } = taiyi.ends(source);
    if (least > most) return { min: "–", max: "–" };
    const [min, max] = taiyi.numerals([least, most]);
    return { min, max };
  }

  taiyi.extremes = extremes;
})(taiyi);
