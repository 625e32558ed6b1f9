"use strict";

/* The model as boxes within boxes, and the view of it: which are open, who feeds whom. */
((taiyi) => {
  const LEVELS = new Set(["module", "container", "python"]);
  const OPENED = new Set([...LEVELS, "fold"]);
  const SIDES = ["forward", "backward", "parameters"];
  const NO_MARKS = { forward: [], backward: [], parameters: [], edits: [] };

  /**
   * @typedef {object} Outline
   * @property {object[]} items With `index`, `children`, `depth` and `path` added.
   * @property {[number, number, string][]} edges
   * @property {Map<string, number>} byModule
   */

  /**
   * The header's outline, with what the page asks of items often.
   * @param {object} told
   * @returns {Outline}
   */
  taiyi.readOutline = (told) => {
    const items = told.items.map(readItem);
    const byModule = new Map();
    for (const item of items) {
      const parent = items[item.parent];
      parent?.children.push(item.index);
      item.depth = parent ? parent.depth + (LEVELS.has(parent.kind) ? 1 : 0) : 0;
      if (item.module && !byModule.has(item.module)) byModule.set(item.module, item.index);
    }
    return { items, edges: told.edges, byModule };
  };

  function readItem(told, index) {
    return {
      label: "",
      class_name: "",
      module: "",
      family: "",
      count: 1,
      notes: [],
      ...told,
      marks: { ...NO_MARKS, ...told.marks },
      index,
      children: [],
      depth: 0,
    };
  }

  /** Whether an item may be opened. */
  taiyi.opens = (item) => item.children.length > 0;

  /**
   * The items that a depth opens; infinity opens all, identical blocks too.
   * @param {Outline} outline
   * @param {number} depth
   * @returns {Set<number>}
   */
  taiyi.openedTo = (outline, depth) => {
    const isOpened = (item) =>
      depth === Infinity || (OPENED.has(item.kind) && item.depth < depth);
    const opened = outline.items.filter((item) => taiyi.opens(item) && isOpened(item));
    return new Set(opened.map((item) => item.index));
  };

  /** The greatest depth that still opens anything. */
  taiyi.deepest = (outline) =>
    Math.max(1, ...outline.items.filter(taiyi.opens).map((item) => item.depth + 1));

  /**
   * For each item the one that stands for it: the outermost on its path that is not open.
   * @param {Outline} outline
   * @param {Set<number>} open
   * @returns {number[]}
   */
  taiyi.standing = (outline, open) => {
    const standing = [];
    const isOpen = (index) => open.has(index) && taiyi.opens(outline.items[index]);
    for (const { index, parent } of outline.items) {
      const isSeen = parent < 0 || (standing[parent] === parent && isOpen(parent));
      standing.push(isSeen ? index : standing[parent]);
    }
    return standing;
  };

  /**
   * What to draw.
   * @param {Outline} outline
   * @param {Set<number>} open
   * @param {boolean} onlyProbed
   * @returns {{boxes: number[], clusters: number[], edges: object[], standing: number[],
   *   alarmed: number | undefined}} `alarmed` is where the first NaN or Inf came up.
   */
  taiyi.view = (outline, open, onlyProbed) => {
    const standing = taiyi.standing(outline, open);
    const isOpen = (index) => open.has(index) && taiyi.opens(outline.items[index]);
    const seen = outline.items.map((item) => item.index).filter((i) => standing[i] === i);
    const isKept = (index) => !onlyProbed || isMarked(outline, index);
    const boxes = seen.filter((index) => !isOpen(index) && isKept(index));
    const clusters = clustersOf(outline, boxes);
    const edges = edgesOf(outline, standing, new Set(boxes));
    return { boxes, clusters, edges, standing, alarmed: alarmedOf(outline, standing) };
  };

  const alarmedOf = (outline, standing) =>
    standing[outline.byModule.get(taiyi.firstNonFinite()?.module)];

  const isMarked = (outline, index) => {
    const sums = taiyi.sums(outline, index);
    return sums.forward + sums.backward + sums.parameters + sums.edits > 0;
  };

  const isCluster = (item) => item.index !== 0 && item.kind !== "fold";

  function clustersOf(outline, boxes) {
    const clusters = new Set();
    for (const index of boxes) {
      taiyi.homes(outline, index).forEach((home) => clusters.add(home));
    }
    return [...clusters].sort((one, other) => one - other);
  }

  /** The clusters that an item stands in when it is seen, the innermost first. */
  taiyi.homes = (outline, index) => {
    const homes = [];
    let item = outline.items[outline.items[index].parent];
    for (; item; item = outline.items[item.parent]) if (isCluster(item)) homes.push(item.index);
    return homes;
  };

  function edgesOf(outline, standing, boxes) {
    const found = new Map();
    const feeds = new Map();
    for (const [from, to, shape] of outline.edges) {
      const [source, target] = [standing[from], standing[to]];
      if (source === target) continue;
      if (!feeds.has(source)) feeds.set(source, new Map());
      if (!feeds.get(source).has(target)) feeds.get(source).set(target, shape);
    }
    for (const source of feeds.keys()) if (boxes.has(source)) follow(feeds, boxes, source, found);
    return labelled(outline, [...found.values()]);
  }

  /** Edges of a box, through boxes that are not drawn. */
  function follow(feeds, boxes, source, found) {
    const waiting = [[source, ""]];
    const passed = new Set([source]);
    const pass = (target, shape) => {
      if (boxes.has(target)) found.set(`${source} ${target}`, { source, target, shape });
      else waiting.push([target, shape]);
      passed.add(target);
    };
    while (waiting.length) {
      const [at, carried] = waiting.pop();
      for (const [target, shape] of feeds.get(at) ?? []) {
        if (!passed.has(target)) pass(target, carried || shape);
      }
    }
  }

  /** Shapes are told where a cluster's border is cut, and once for each value. */
  function labelled(outline, edges) {
    const told = new Set();
    return edges.map(({ source, target, shape }) => {
      const homes = (index) => taiyi.homes(outline, index).join(" ");
      const value = `${source} ${shape}`;
      const isTold = shape !== "" && homes(source) !== homes(target) && !told.has(value);
      if (isTold) told.add(value);
      return { source, target, shape, label: isTold ? taiyi.shortened(shape, 24) : "" };
    });
  }

  /**
   * How many marks, alerts and warnings an item and all that stands in it have.
   * @param {Outline} outline
   * @param {number} index
   * @returns {{forward: number, backward: number, parameters: number, edits: number,
   *   alerts: number, warnings: number}}
   */
  taiyi.sums = (outline, index) => {
    outline.sums ??= summed(outline);
    return outline.sums[index];
  };

  function summed(outline) {
    const sums = outline.items.map((item) => ({
      forward: item.marks.forward.length,
      backward: item.marks.backward.length,
      parameters: item.marks.parameters.length,
      edits: item.marks.edits.length,
      alerts: 0,
      warnings: 0,
    }));
    for (const series of taiyi.runs()[0].series) {
      const index = outline.byModule.get(series.module);
      if (index === undefined) continue;
      if (series.state === "alert") sums[index].alerts += 1;
      if (series.state === "warn") sums[index].warnings += 1;
    }
    for (let index = sums.length - 1; index > 0; index -= 1) {
      const parent = sums[outline.items[index].parent];
      for (const name of Object.keys(parent)) parent[name] += sums[index][name];
    }
    return sums;
  }

  /**
   * An item and all that stand in it.
   * @param {Outline} outline
   * @param {number} index
   * @returns {object[]}
   */
  taiyi.within = (outline, index) => {
    const item = outline.items[index];
    return [item, ...item.children.flatMap((child) => taiyi.within(outline, child))];
  };

  /**
   * The latest series of a mark: one, or where the quantity gives several numbers the gravest.
   * @param {object} item
   * @param {string} quantity
   * @returns {object | undefined}
   */
  taiyi.seriesOfMark = (item, quantity) => {
    const all = taiyi.seriesByModule().get(item.module) ?? [];
    const own = all.filter(
      (series) =>
        series.mode === taiyi.state.mode &&
        (series.quantity === quantity || series.quantity.startsWith(`${quantity}.`)),
    );
    return taiyi.bySeverity(own)[0];
  };

  /** The first run's series by their modules; read anew after an update. */
  taiyi.seriesByModule = () => {
    const [run] = taiyi.runs();
    run.byModule ??= Map.groupBy(run.series, (series) => series.module);
    return run.byModule;
  };

  taiyi.sides = SIDES;
})(taiyi);
