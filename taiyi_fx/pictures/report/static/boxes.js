"use strict";

/* What a box of the graph says, and how large it has to be to say it. */
((taiyi) => {
  const FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif";
  const FONTS = { name: `600 13px ${FONT}`, class: `11.5px ${FONT}`, row: `11.5px ${FONT}` };
  const ROW = 19;
  const MOST_ROWS = 3;
  const USUAL = 0.05; // powers of ten: a tenth more or less
  const SIGNS = { forward: "▼", backward: "▲", parameters: "■", edits: "ƒ" };
  const WIDEST_VALUE = "−0.00e−00";
  const pen = document.createElement("canvas").getContext("2d");

  taiyi.markSigns = SIGNS;

  const ALARM_SIGNS = { alert: "!", warn: "~", muted: "i" };

  const STROKES = { plumbing: "dotted", python: "dashed" };

  /** How a box's border is drawn; empty for a plain line. */
  taiyi.strokeOf = (item) => STROKES[item.kind] ?? "";

  /** What a box tells of what was found there; nothing where it was not. */
  taiyi.alarmText = (site) => (site ? `${ALARM_SIGNS[site.look]} ${site.text}` : "");

  function widthOf(text, font) {
    pen.font = FONTS[font];
    return pen.measureText(text).width;
  }

  /**
   * What to draw of a box.
   * @param {object} outline
   * @param {number} index
   * @param {object} [alarm] What was found there.
   * @returns {object} With `width` and `height`; `rows` of single boxes, `badges` of closed ones.
   */
  taiyi.describe = (outline, index, alarm) => {
    const item = outline.items[index];
    const sums = taiyi.sums(outline, index);
    const rows = rowsOf(item); // of a closed box those of the module itself
    const within = withinOf(outline, item);
    const badges = badgesOf(within, hiddenStates(sums, within, rows));
    const lines = [badges, alarm ? [badge(alarm.look, taiyi.alarmText(alarm))] : []];
    const box = {
      index,
      name: taiyi.shortened(item.label, 34),
      className: taiyi.shortened(classText(item), 34),
      isDouble: item.kind === "fold" || item.kind === "rest",
      isSoft: item.kind === "plumbing",
      stroke: taiyi.strokeOf(item),
      isProbed: sums.forward + sums.backward + sums.parameters > 0,
      state: taiyi.gravest(sums),
      opens: taiyi.opens(item),
      rows,
      badges: lines.filter((line) => line.length > 0),
    };
    return sized(box);
  };

  function classText(item) {
    const isRun = item.kind === "fold" || item.kind === "rest";
    if (isRun) return `${item.class_name} × ${item.count}`.trim();
    if (item.class_name) return item.is_called ? item.class_name : `${item.class_name}, never called`;
    return item.kind === "input" || item.kind === "parameter" ? item.kind : "";
  }

  /** An item's name and class, as a cluster's title has them; what is empty is left out. */
  taiyi.titleParts = (item) =>
    [item.label, classText(item)].filter(Boolean).map((part) => taiyi.shortened(part, 34));

  /** An item's name and class in one line. */
  taiyi.titleOf = (item) => taiyi.titleParts(item).join(" · ") || item.kind;

  /** The room that a cluster's title takes. */
  taiyi.titleWidth = (item, alarm) =>
    widthOf(
      [taiyi.titleOf(item), taiyi.ownMarks(item), taiyi.ownState(item).text, taiyi.alarmText(alarm)].join("  "),
      "name",
    ) + 32;

  /** What is taken of an open module itself, as signs with their counts. */
  taiyi.ownMarks = (item) =>
    [...taiyi.sides, "edits"]
      .filter((side) => item.marks[side].length > 0)
      .map((side) => `${SIGNS[side]} ${countOf(item.marks[side].length, side)}`)
      .join(" ");

  const countOf = (count, side) =>
    side === "edits" ? taiyi.counted(count, "edit") : taiyi.counted(count, "quantity", "quantities");

  /**
   * The gravest state of what is taken of an open module itself, and its text.
   * @returns {{state: string, text: string}}
   */
  taiyi.ownState = (item) => {
    const all = (item.module && taiyi.seriesByModule().get(item.module)) || [];
    const count = (state) => all.filter((series) => series.state === state).length;
    const [alerts, warnings] = [count("alert"), count("warn")];
    const state = taiyi.gravest({ alerts, warnings });
    const texts = { alert: `! ${taiyi.whole(alerts)}`, warn: `~ ${taiyi.whole(warnings)}`, ok: "" };
    return { state, text: texts[state] };
  };

  function rowsOf(item) {
    const readings = taiyi.sides.flatMap((side) => sideRows(item, side));
    const edits = item.marks.edits.map((text) => row("edits", taiyi.shortened(text, 26), "", "ok"));
    return [...readings, ...edits.slice(0, MOST_ROWS)];
  }

  function sideRows(item, side) {
    const marks = item.marks[side].map(([quantity]) => ({
      quantity,
      series: taiyi.seriesOfMark(item, quantity),
    }));
    const rows = mostTelling(marks)
      .map(({ quantity, series }) => markRow(side, quantity, series));
    const more = marks.length - rows.length;
    if (more > 0) rows.at(-1).more = ` + ${more} more`;
    return rows;
  }

  /**
   * As many marks as there are rows for: flagged ones, then those that tell most; those alike to
   * half a power of ten stay in the order given, so that boxes show the same where they can.
   */
  function mostTelling(marks) {
    const gravity = ({ series }) => taiyi.gravity(series?.state);
    const sorted = marks.toSorted(
      (one, other) => gravity(one) - gravity(other) || rankOf(other.series) - rankOf(one.series),
    );
    return sorted.slice(0, MOST_ROWS);
  }

  /** How much a series tells, in halves of a power of ten; less than nothing for what stays as it is. */
  function rankOf(series) {
    if (series?.health === "counts_non_finite") return -2; // none, or it is flagged
    const score = series?.score ?? 0;
    return score < USUAL ? -1 : Math.round(2 * score);
  }

  function markRow(side, quantity, series) {
    const name = taiyi.shortened(series?.quantity ?? quantity, 26);
    const latest = taiyi.latestText(series);
    if (latest === null) return row(side, name, taiyi.header.graph_alone ? "" : "–", "none");
    return row(side, name, latest + taiyi.stateSign(series), taiyi.lookOfLatest(series));
  }

  const row = (side, name, value, state) => ({ side, name, value, state, more: "" });

  const rowWidth = ({ side, name, value, more }) => {
    const hasValue = side !== "edits" && !taiyi.header.graph_alone;
    const shown = hasValue ? WIDEST_VALUE : ""; // a live value keeps its room
    const room = Math.max(widthOf(shown, "row"), widthOf(value, "row"));
    return 30 + widthOf(name, "row") + room + widthOf(more, "row");
  };

  function badgesOf(within, states) {
    const counted = [...taiyi.sides, "edits"].filter((side) => within[side] > 0);
    const badges = counted.map((side) => badge(side, `${SIGNS[side]} ${within[side]}`));
    return [...badges, ...stateBadges(states)];
  }

  /** The numbers of marks in the parts of an item, without its own. */
  function withinOf(outline, item) {
    const counted = [...taiyi.sides, "edits", "alerts", "warnings"];
    const parts = item.children.map((index) => taiyi.sums(outline, index));
    const sumOf = (name) => parts.reduce((sum, part) => sum + part[name], 0);
    return Object.fromEntries(counted.map((name) => [name, sumOf(name)]));
  }

  /** The states of a box that its rows do not show: those of its parts, or of the other mode. */
  function hiddenStates(sums, within, rows) {
    const isShown = (state) => rows.some((one) => one.state === state);
    return {
      alerts: isShown("alert") ? within.alerts : sums.alerts,
      warnings: isShown("warn") ? within.warnings : sums.warnings,
    };
  }

  function stateBadges({ alerts, warnings }) {
    const badges = [];
    if (alerts > 0) badges.push(badge("alert", `! ${taiyi.whole(alerts)} flagged`));
    if (warnings > 0) badges.push(badge("warn", `~ ${taiyi.whole(warnings)}`));
    return badges;
  }

  const badge = (side, text) => ({ side, text, width: widthOf(text, "row") + 14 });

  /** The width of badges side by side. */
  const badgesWidth = (badges) => badges.reduce((sum, { width }) => sum + width + 4, -4);

  taiyi.badgesWidth = badgesWidth;

  function sized(box) {
    const gap = box.className ? 6 : 0;
    const nameWidth = widthOf(box.name, box.isSoft ? "class" : "name");
    const titleWidth = nameWidth + gap + widthOf(box.className, "class");
    const inside = Math.max(titleWidth, ...box.badges.map(badgesWidth), ...box.rows.map(rowWidth));
    const lines = box.rows.length + box.badges.length;
    const border = box.isDouble ? 10 : 0;
    return {
      ...box,
      titleWidth,
      width: Math.ceil(Math.max(inside + 20, 60) + border + (box.opens ? 14 : 0)),
      height: 30 + lines * ROW + (lines ? 4 : 0) + border,
      inset: border / 2,
      rowHeight: ROW,
    };
  }

  /**
   * All that there is to tell of an item, line by line.
   * @param {object} item
   * @returns {string}
   */
  taiyi.tooltip = (item) => {
    const readings = taiyi.sides.flatMap((side) =>
      item.marks[side].map((mark) => markLine(item, side, mark)),
    );
    const edits = item.marks.edits.map((text) => `${SIGNS.edits} ${text}`);
    const lines = [pathLine(item), item.class_name, ...item.notes, ...readings, ...edits];
    if (taiyi.opens(item)) lines.push("Double-click or press e to open");
    return lines.filter(Boolean).map(taiyi.visible).join("\n");
  };

  const pathLine = (item) => item.module || item.label;

  function markLine(item, side, [quantity, schedule]) {
    const series = taiyi.seriesOfMark(item, quantity);
    const latest = taiyi.latestText(series);
    const reason = latest !== null && taiyi.lacksValue(series) ? ` (${taiyi.undefinedText})` : "";
    const value = latest === null ? "no value yet" : latest + taiyi.stateSign(series) + reason;
    const step = latest === null ? "" : ` at step ${taiyi.whole(series.last)}`;
    return `${SIGNS[side]} ${quantity}: ${value}${step}${schedule ? ` (${schedule})` : ""}`;
  }

  /**
   * What a screen reader says of an item: what it is, what is taken there and in which state.
   * @param {object} outline
   * @param {number} index
   * @returns {string}
   */
  taiyi.spoken = (outline, index) => {
    const item = outline.items[index];
    const sums = taiyi.sums(outline, index);
    const words = { forward: "forward", backward: "backward", parameters: "parameter" };
    const counts = taiyi.sides
      .filter((side) => sums[side] > 0)
      .map((side) =>
        taiyi.counted(sums[side], `${words[side]} quantity`, `${words[side]} quantities`),
      );
    const rows = rowsOf(item).map((one) => `${one.name} ${one.value}`);
    const alerts = sums.alerts > 0 ? [taiyi.counted(sums.alerts, "alert")] : [];
    const warnings = sums.warnings > 0 ? [taiyi.counted(sums.warnings, "warning")] : [];
    const edits = sums.edits > 0 ? [taiyi.counted(sums.edits, "edit")] : [];
    return [taiyi.titleOf(item), ...counts, ...edits, ...alerts, ...warnings, ...rows].join(", ");
  };
})(taiyi);
