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
   * @param {object} stored
   * @returns {Outline}
   */
  taiyi.readOutline = (stored) => {
    const items = stored.items.map(readItem);
    const byModule = new Map();
    for (const item of items) {
      const parent = items[item.parent];
      parent?.children.push(item.index);
      item.depth = parent ? parent.depth + (LEVELS.has(parent.kind) ? 1 : 0) : 0;
      if (item.module && !byModule.has(item.module)) byModule.set(item.module, item.index);
    }
    return { items, edges: stored.edges, byModule };
  };

  function readItem(stored, index) {
    return {
      label: "",
      class_name: "",
      module: "",
      family: "",
      count: 1,
      notes: [],
      is_called: true,
      ...stored,
      marks: { ...NO_MARKS, ...stored.marks },
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
   *   alarms: Map<number, object>}} `alarms` are the sites of what was found, by the items that
   *   stand for them, the most urgent first.
   */
  taiyi.view = (outline, open, onlyProbed) => {
    const holds = (index) => taiyi.opens(outline.items[index]) && open.has(index);
    // A cluster around nothing is not drawn, nor are its own marks.
    const isOpen = (index) => holds(index) && (!onlyProbed || isMarkedWithin(outline, index));
    const opened = new Set([...open].filter(isOpen));
    const standing = taiyi.standing(outline, opened);
    const seen = outline.items.map((item) => item.index).filter((i) => standing[i] === i);
    const isKept = (index) => !onlyProbed || marksOf(outline, index) > 0;
    const boxes = seen.filter((index) => !opened.has(index) && isKept(index));
    const clusters = clustersOf(outline, boxes);
    const edges = edgesOf(outline, standing, new Set(boxes));
    return { boxes, clusters, edges, standing, alarms: alarmsOf(outline, standing) };
  };

  function alarmsOf(outline, standing) {
    const alarms = new Map();
    for (const site of taiyi.sites(outline)) {
      const index = standing[site.index];
      if (index !== undefined && !alarms.has(index)) alarms.set(index, site);
    }
    return alarms;
  }

  const marksOf = (outline, index) => {
    const sums = taiyi.sums(outline, index);
    return sums.forward + sums.backward + sums.parameters + sums.edits;
  };

  const isMarkedWithin = (outline, index) =>
    outline.items[index].children.some((child) => marksOf(outline, child) > 0);

  const isMarked = ({ marks }) => Object.values(marks).some((own) => own.length > 0);

  /** Whether an open item is a cluster: a fold is none, nor the model without its own marks. */
  const isCluster = (item) => item.kind !== "fold" && (item.index > 0 || isMarked(item));

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
      const known = feeds.get(source).get(target) ?? shape;
      feeds.get(source).set(target, known === shape ? shape : "");
    }
    for (const source of feeds.keys()) if (boxes.has(source)) follow(feeds, boxes, source, found);
    return labelled(outline, [...found.values()]);
  }

  /** Edges of a box, through boxes that are not drawn: the shape behind these is not known. */
  function follow(feeds, boxes, source, found) {
    const waiting = [source];
    const passed = new Set([source]);
    const pass = (target, shape) => {
      if (boxes.has(target)) found.set(`${source} ${target}`, { source, target, shape });
      else waiting.push(target);
      passed.add(target);
    };
    while (waiting.length) {
      const at = waiting.pop();
      for (const [target, shape] of feeds.get(at) ?? []) {
        if (!passed.has(target)) pass(target, at === source ? shape : "");
      }
    }
  }

  /** Shapes are written where an edge crosses a cluster's border, and once for each value. */
  function labelled(outline, edges) {
    const written = new Set();
    return edges.map(({ source, target, shape }) => {
      const homes = (index) => taiyi.homes(outline, index).join(" ");
      const value = `${source} ${shape}`;
      const isFirst = shape !== "" && homes(source) !== homes(target) && !written.has(value);
      if (isFirst) written.add(value);
      return { source, target, shape, label: isFirst ? taiyi.shortened(shape, 24) : "" };
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
      alerts: inState(item, "alert"),
      warnings: inState(item, "warn"),
    }));
    for (let index = sums.length - 1; index > 0; index -= 1) {
      const parent = sums[outline.items[index].parent];
      for (const name of Object.keys(parent)) parent[name] += sums[index][name];
    }
    return sums;
  }

  /** How many marks of an item are in a state, in the present mode. */
  const inState = (item, state) =>
    SIDES.flatMap((side) => item.marks[side]).filter(
      ([quantity]) => taiyi.seriesOfMark(item, quantity)?.state === state,
    ).length;

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
