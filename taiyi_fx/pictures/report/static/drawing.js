"use strict";

/* The graph as SVG, of a plan and of what its boxes say. */
((taiyi) => {
  const MARGIN = 14;
  const { svg } = taiyi;

  /**
   * The drawing of a view.
   * @param {object} outline
   * @param {object} view
   * @param {Map<number, object>} boxes
   * @param {object} plan
   * @returns {SVGElement} Of its natural size, in its attributes `width` and `height`.
   */
  taiyi.drawGraph = (outline, view, boxes, plan) => {
    const [width, height] = [plan.width + 2 * MARGIN, plan.height + 2 * MARGIN];
    const clusters = [...plan.clusters];
    const parts = [...boxes.values()].map((box) =>
      drawBox(outline, box, plan.boxes.get(box.index)),
    );
    return svg(
      "svg",
      {
        width,
        height,
        viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}`,
        role: "group",
        "aria-label": "Graph of the model",
      },
      arrowHead(),
      ...clusters.map(([index, place]) => drawFrame(outline, index, place)),
      ...plan.edges.map(drawEdge),
      ...clusters.map(([index, place]) =>
        drawTitle(outline, index, place, view.alarms.get(index)),
      ),
      ...parts,
    );
  };

  const arrowHead = () =>
    svg(
      "defs",
      {},
      svg(
        "marker",
        {
          id: "arrow",
          viewBox: "0 0 8 8",
          refX: 7.5,
          refY: 4,
          markerWidth: 7,
          markerHeight: 7,
          orient: "auto",
          markerUnits: "userSpaceOnUse",
        },
        svg("path", { class: "arrow", d: "M0 0.8L8 4L0 7.2z" }),
      ),
    );

  function drawEdge({ source, target, path, label, shape, at }) {
    const line = svg("path", { d: path, "marker-end": "url(#arrow)" });
    const parts = shape ? [svg("title", {}, taiyi.visible(shape)), line] : [line];
    if (label && at) parts.push(...edgeLabel(label, at));
    return svg("g", { class: "edge", "data-source": source, "data-target": target }, ...parts);
  }

  const edgeLabel = (label, { x, y }) => {
    const width = label.length * 6.2 + 6;
    return [
      svg("rect", { class: "paper", x: x - width / 2, y: y - 7, width, height: 14, rx: 3 }),
      svg("text", { x, y: y + 4, class: "shape" }, label),
    ];
  };

  function drawFrame(outline, index, { x, y, width, height }) {
    const item = outline.items[index];
    const { kind, depth } = item;
    const isSoft = ["rest", "plumbing", "range"].includes(kind);
    const look = kind === "python" ? "python" : isSoft ? "soft" : "solid";
    const place = { x, y, width, height, rx: 10 };
    return svg("rect", {
      class: `frame ${look} depth-${depth % 4} is-${taiyi.ownState(item).state}`,
      "data-frame": index,
      ...place,
    });
  }

  /** A cluster's title, drawn over the edges: what is clicked and focused of it. */
  function drawTitle(outline, index, { x, y, width }, alarm) {
    const item = outline.items[index];
    const room = Math.min(taiyi.titleWidth(item, alarm), width - 8);
    return svg(
      "g",
      { ...shared(outline, item, `cluster depth-${item.depth % 4}`), "aria-expanded": "true" },
      svg("title", {}, taiyi.tooltip(item)),
      svg("rect", { class: "body", x: x + 4, y: y + 5, width: room, height: 20, rx: 6 }),
      toggle("−", x + 15, y + 15),
      svg("text", { class: "title", x: x + 27, y: y + 19 }, ...titleSpans(item, alarm)),
    );
  }

  function titleSpans(item, alarm) {
    const [name, className] = taiyi.titleParts(item);
    const own = taiyi.ownState(item);
    const parts = [
      ["name", name],
      ["class", className ? ` · ${className}` : ""],
      ["own", taiyi.ownMarks(item)],
      [`grave ${own.state}`, own.text],
      [`warned ${alarm?.look}`, taiyi.alarmText(alarm)],
    ];
    const isApart = (look) => look !== "name" && look !== "class";
    return parts
      .filter(([, text]) => text)
      .map(([look, text]) => svg("tspan", { class: look, dx: isApart(look) ? 8 : 0 }, text));
  }

  const shared = (outline, item, kind) => ({
    class: kind,
    "data-item": item.index,
    tabindex: -1,
    role: "button",
    "aria-label": taiyi.spoken(outline, item.index),
  });

  const toggle = (sign, x, y) =>
    svg(
      "g",
      { class: "toggle", "aria-hidden": "true" },
      svg("rect", { x: x - 7, y: y - 7, width: 14, height: 14, rx: 4 }),
      svg("text", { x, y: y + 4 }, sign),
    );

  function drawBox(outline, box, { x, y }) {
    const item = outline.items[box.index];
    const attributes = shared(outline, item, boxClasses(item, box));
    if (box.opens) attributes["aria-expanded"] = "false";
    return svg(
      "g",
      { ...attributes, transform: `translate(${x - box.width / 2} ${y - box.height / 2})` },
      svg("title", {}, taiyi.tooltip(item)),
      ...outlines(box),
      nameLine(box),
      ...box.rows.map((row, k) => drawRow(box, row, box.inset + 27 + k * box.rowHeight)),
      ...drawBadges(box),
      ...(box.opens ? [toggle("+", box.width - box.inset - 13, box.inset + 15)] : []),
    );
  }

  function boxClasses(item, box) {
    const words = ["box", `kind-${item.kind}`];
    if (item.family) words.push(`family-${item.family}`);
    if (box.isProbed) words.push("probed");
    if (box.state !== "ok") words.push(`is-${box.state}`);
    if (box.stroke) words.push(box.stroke);
    return words.join(" ");
  }

  function outlines({ width, height, isDouble }) {
    const outer = svg("rect", { class: "body", width, height, rx: 10 });
    if (!isDouble) return [outer];
    const inner = { x: 4, y: 4, width: width - 8, height: height - 8, rx: 7 };
    return [outer, svg("rect", { class: "body inner", ...inner })];
  }

  function nameLine(box) {
    const left = (box.width - (box.opens ? 14 : 0) - box.titleWidth) / 2;
    const parts = [svg("tspan", { class: "name" }, box.name)];
    if (box.className) parts.push(svg("tspan", { class: "class", dx: 6 }, box.className));
    return svg("text", { x: left, y: box.inset + 20 }, ...parts);
  }

  function drawRow(box, row, y) {
    const left = box.inset + 8;
    const right = box.width - box.inset - 8;
    const value = svg("tspan", { class: `value ${row.state}` }, row.value);
    const parts = row.more ? [value, svg("tspan", { class: "more" }, row.more)] : [value];
    return svg(
      "g",
      { class: "row" },
      svg("rect", { class: "chip", x: left, y, width: right - left, height: 16, rx: 4 }),
      svg("path", { class: `sign ${row.side}`, d: tab(left, y) }),
      svg("text", { class: "mark", x: left + 8.5, y: y + 12 }, taiyi.markSigns[row.side]),
      svg("text", { x: left + 21, y: y + 12 }, row.name),
      svg("text", { class: "end", x: right - 5, y: y + 12 }, ...parts),
    );
  }

  /** The left end of a chip: round on its left only. */
  const tab = (x, y) => `M${x + 17} ${y}h-13a4 4 0 0 0 -4 4v8a4 4 0 0 0 4 4h13z`;

  function drawBadges(box) {
    const top = box.inset + 28 + box.rows.length * box.rowHeight;
    return box.badges.flatMap((line, k) => drawLine(box, line, top + k * box.rowHeight));
  }

  function drawLine(box, badges, y) {
    let x = (box.width - taiyi.badgesWidth(badges)) / 2;
    return badges.map(({ side, text, width }) => {
      const middle = x + width / 2;
      const body = svg("rect", { class: `sign ${side}`, x, y, width, height: 17, rx: 4 });
      x += width + 4;
      return svg("g", {}, body, svg("text", { class: "mark", x: middle, y: y + 12.5 }, text));
    });
  }
})(taiyi);
