"use strict";

/* Places for the boxes of a view, by Graphviz: it sees sizes and numbers, never a name. */
((taiyi) => {
  const INCH = 72;
  let engine = null;

  /**
   * @typedef {object} Plan
   * @property {number} width
   * @property {number} height
   * @property {Map<number, {x: number, y: number}>} boxes Centres.
   * @property {Map<number, {x: number, y: number, width: number, height: number}>} clusters
   * @property {{source: number, target: number, path: string, label: string, at: object}[]} edges
   */

  /**
   * Where everything of a view goes.
   * @param {object} outline
   * @param {object} view
   * @param {Map<number, object>} boxes Descriptions of the boxes, with their sizes.
   * @returns {Promise<Plan>}
   */
  taiyi.layout = async (outline, view, boxes) => {
    engine ??= Viz.instance();
    const viz = await engine;
    const dot = dotOf(outline, view, boxes);
    const made = viz.render(dot, { format: "json0", engine: "dot", yInvert: true });
    if (made.status !== "success") throw new Error(made.errors.map((e) => e.message).join("; "));
    return planOf(JSON.parse(made.output), view);
  };

  function dotOf(outline, view, boxes) {
    const inside = new Map([["", { boxes: [], clusters: [] }]]);
    for (const index of view.clusters) inside.set(index, { boxes: [], clusters: [] });
    const homeOf = (index) => inside.get(taiyi.homes(outline, index)[0] ?? "");
    for (const index of view.clusters) homeOf(index).clusters.push(index);
    for (const index of view.boxes) homeOf(index).boxes.push(index);
    const body = groupLines(inside, (index) => titleRoom(outline, view, index), boxes, "");
    const edges = view.edges.map((edge) => edgeLine(edge));
    return [
      "digraph {",
      `graph [rankdir=${taiyi.header.direction} ranksep=0.32 nodesep=0.22 margin=0]`,
      'node [shape=box fixedsize=true label=""] edge [arrowsize=0.7]',
      ...body,
      ...edges,
      "}",
    ].join("\n");
  }

  const titleRoom = (outline, view, index) =>
    taiyi.titleWidth(outline.items[index], view.alarms.get(index));

  function groupLines(inside, roomOf, boxes, home) {
    const { boxes: own, clusters } = inside.get(home);
    const parts = [
      ...own.map((index) => [index, [boxLine(boxes.get(index))]]),
      ...clusters.map((index) => [index, clusterLines(inside, roomOf, boxes, index)]),
    ];
    return parts.sort(([one], [other]) => one - other).flatMap(([, lines]) => lines);
  }

  const boxLine = ({ index, width, height }) =>
    `n${index} [width=${width / INCH} height=${height / INCH}]`;

  function clusterLines(inside, roomOf, boxes, index) {
    const label = blank(roomOf(index), 18);
    const lines = groupLines(inside, roomOf, boxes, index);
    return [`subgraph cluster_${index} { label=${label} labeljust=l margin=10`, ...lines, "}"];
  }

  const edgeLine = ({ source, target, label }) =>
    `n${source} -> n${target}${label ? ` [label=${blank(label.length * 6.2 + 10, 14)}]` : ""}`;

  /** Room for a text that the page draws itself. */
  const blank = (width, height) =>
    '<<TABLE FIXEDSIZE="TRUE" BORDER="0" CELLBORDER="0" CELLPADDING="0" CELLSPACING="0" ' +
    `WIDTH="${Math.ceil(width)}" HEIGHT="${height}"><TR><TD></TD></TR></TABLE>>`;

  function planOf(laid, view) {
    const [, height, width] = numbers(laid.bb);
    const boxes = new Map();
    const clusters = new Map();
    for (const object of laid.objects ?? []) {
      const index = Number(object.name.replace(/^\D+/, ""));
      if (object.name.startsWith("cluster_")) clusters.set(index, boundary(object.bb));
      else boxes.set(index, point(object.pos));
    }
    const ends = new Map((laid.objects ?? []).map((object) => [object._gvid, object.name]));
    const edges = (laid.edges ?? []).map((edge) => edgeOf(edge, ends, view));
    return { width, height, boxes, clusters, edges };
  }

  const numbers = (text) => text.split(/[ ,]/).map(Number);

  const point = (text) => {
    const [x, y] = numbers(text);
    return { x, y };
  };

  function boundary(text) {
    const [left, bottom, right, top] = numbers(text);
    return { x: left, y: top, width: right - left, height: bottom - top };
  }

  function edgeOf(edge, ends, view) {
    const [source, target] = [edge.tail, edge.head].map((id) => Number(ends.get(id).slice(1)));
    const drawn = view.edges.find((one) => one.source === source && one.target === target);
    const at = edge.lp ? point(edge.lp) : null;
    return { source, target, path: pathOf(edge.pos), label: drawn.label, shape: drawn.shape, at };
  }

  /** A spline "e,x,y x,y x,y …" as an SVG path that ends where the arrow points. */
  function pathOf(spline) {
    const parts = spline.split(" ");
    const tip = parts[0].startsWith("e,") ? parts.shift().slice(2) : null;
    const [first, ...rest] = parts;
    return `M${first}C${rest.join(" ")}${tip ? `L${tip}` : ""}`;
  }
})(taiyi);
