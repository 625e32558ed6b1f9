"use strict";

/* The graph in its pane: opening and closing, selecting, zooming, and finding one's way by keys. */
((taiyi) => {
  const WARN_FROM = 400;
  const MOST = 1500;
  const ZOOMS = [0.05, 2.5];
  const pane = () => taiyi.find("graph-pane");
  let outline = null;
  let drawn = null;
  let zoom = null;
  let refit = () => fitting(); // how a new layout is zoomed; null once zoomed by hand
  let turn = 0;
  let entry = 0; // the item that Tab comes to
  let opened = new Set(); // what headers opened so far

  /** Sets the graph up; nothing is drawn yet. False where the run has no outline. */
  taiyi.startGraph = () => {
    const { outline: stored, open } = taiyi.header;
    document.body.classList.toggle("no-graph", !stored);
    document.body.classList.toggle("graph-alone", taiyi.header.graph_alone);
    if (!stored) return false;
    outline = taiyi.readOutline(stored);
    taiyi.outline = outline;
    opened = new Set(open);
    taiyi.state.open = new Set([...open, ...transparent()]);
    taiyi.state.onlyProbed = taiyi.header.only_probed;
    taiyi.find("only-probed").checked = taiyi.header.only_probed;
    fillDepths();
    listen();
    taiyi.on(["selection"], paintSelection);
    taiyi.on(["mode"], recount);
    taiyi.on(["updates"], update);
    return true;
  };

  // A closed fold stays as it is: only what the header opens or a depth does is open.
  const transparent = () => (outline.items.length && taiyi.opens(outline.items[0]) ? [0] : []);

  /**
   * Lays the present view out and draws it; what is acted on stays where it was on the screen.
   * @param {number} [anchor] The item acted on.
   */
  taiyi.redrawGraph = async (anchor) => {
    turn += 1;
    const mine = turn;
    const view = taiyi.view(outline, taiyi.state.open, taiyi.state.onlyProbed);
    const boxes = described(view);
    busy(true);
    await new Promise((resolve) => setTimeout(resolve)); // lets the pane say that it works
    const plan = await taiyi.layout(outline, view, boxes);
    if (mine !== turn) return;
    busy(false);
    const before = anchor === undefined ? null : placeOf(anchor);
    drawn = { view, plan, boxes };
    show(taiyi.drawGraph(outline, view, boxes, plan), true);
    if (before) restore(anchor, before);
    taiyi.find("box-count").textContent = taiyi.counted(view.boxes.length, "box", "boxes");
  };

  function described(view) {
    const pairs = view.boxes.map((index) => [
      index,
      taiyi.describe(outline, index, view.alarms.get(index)),
    ]);
    return new Map(pairs);
  }

  function busy(isBusy) {
    pane().setAttribute("aria-busy", String(isBusy));
  }

  function show(picture, isLaidAnew = false) {
    const focused = pane().contains(document.activeElement)
      ? document.activeElement.dataset.item
      : undefined;
    taiyi.find("graph").replaceChildren(picture);
    if (isLaidAnew && refit) zoom = refit();
    applyZoom();
    paintSelection();
    paintAlarms();
    const home = standingFor(entry) ?? graphItems()[0];
    home?.setAttribute("tabindex", "0");
    if (focused !== undefined) taiyi.focusBox(Number(focused));
  }

  /** What takes focus in the graph, in the order of the outline. */
  const graphItems = () => {
    const all = [...taiyi.find("graph").querySelectorAll("[data-item]")];
    return all.sort((one, other) => one.dataset.item - other.dataset.item);
  };

  /** The same places, with the numbers of now; new places where a box has become higher or lower. */
  function repaint() {
    if (!drawn) return;
    const boxes = described(drawn.view);
    const isAsHigh = ({ index, height }) => height === drawn.boxes.get(index).height;
    if ([...boxes.values()].every(isAsHigh))
      show(taiyi.drawGraph(outline, drawn.view, boxes, drawn.plan));
    else taiyi.redrawGraph();
  }

  function recount() {
    delete outline.sums;
    repaint();
  }

  function update() {
    delete outline.sums;
    if (opensMore() || hasNewAlarm()) taiyi.redrawGraph();
    else repaint();
  }

  /** Opens what the header of a live run opens for the first time: there stands a new finding. */
  function opensMore() {
    const fresh = taiyi.header.open.filter((index) => !opened.has(index));
    opened = new Set([...opened, ...fresh]);
    const open = new Set([...taiyi.state.open, ...fresh]);
    const count = () => taiyi.view(outline, open, taiyi.state.onlyProbed).boxes.length;
    if (fresh.length === 0 || count() > WARN_FROM) return false;
    taiyi.set({ open });
    return true;
  }

  /** Whether a live run has come to alarms to show in the graph: their text takes room. */
  function hasNewAlarm() {
    if (drawn === null) return false;
    const { alarms } = taiyi.view(outline, taiyi.state.open, taiyi.state.onlyProbed);
    return JSON.stringify([...alarms]) !== JSON.stringify([...drawn.view.alarms]);
  }

  const elementOf = (index) => taiyi.find("graph").querySelector(`[data-item="${index}"]`);

  /** The element that stands for an item: its own, or that of the closed box it is in. */
  const standingFor = (index) => elementOf(index) ?? elementOf(drawn.view.standing[index]);

  const frameOf = (index) => taiyi.find("graph").querySelector(`[data-frame="${index}"]`);

  function placeOf(index) {
    const body = frameOf(index) ?? standingFor(index)?.querySelector(".body");
    if (!body) return null;
    const { left, width, top } = body.getBoundingClientRect();
    return { middle: left + width / 2, top };
  }

  function restore(index, before) {
    const now = placeOf(index);
    if (!now) return;
    pane().scrollLeft += now.middle - before.middle;
    pane().scrollTop += now.top - before.top;
  }

  /** Opens what is closed, closes what is open. */
  function toggle(index) {
    if (!taiyi.opens(outline.items[index])) return;
    const open = new Set(taiyi.state.open);
    if (!open.delete(index)) open.add(index);
    openAs(open, index);
  }

  /** Changes what is open, after asking where that draws very many boxes. */
  function openAs(open, anchor) {
    const count = taiyi.view(outline, open, taiyi.state.onlyProbed).boxes.length;
    const change = () => {
      taiyi.set({ open });
      return taiyi.redrawGraph(anchor);
    };
    notice(null);
    if (count <= WARN_FROM) return change();
    const shows = `That shows ${taiyi.counted(count, "box", "boxes")}`;
    if (count <= MOST) notice(`${shows}, which takes a while to lay out.`, change);
    else notice(`${shows}; at most ${taiyi.whole(MOST)} can be laid out. Open fewer at a time.`);
    return undefined;
  }

  function notice(text, proceed) {
    const place = taiyi.find("graph-notice");
    place.hidden = text === null;
    if (text === null) return;
    const go = () => {
      notice(null);
      proceed();
    };
    const buttons = proceed
      ? [taiyi.element("button", { type: "button", onclick: go }, "Show them")]
      : [];
    const leave = { type: "button", onclick: () => notice(null) };
    place.replaceChildren(text, ...buttons, taiyi.element("button", leave, "Leave it"));
  }

  /**
   * Opens all that an item stands in, selects it and brings it to the middle.
   * @param {number} index
   */
  taiyi.reveal = async (index) => {
    const open = new Set(taiyi.state.open);
    for (let at = outline.items[index].parent; at >= 0; at = outline.items[at].parent) open.add(at);
    taiyi.select([entryOf(index)]);
    if (taiyi.view(outline, open, taiyi.state.onlyProbed).boxes.length > WARN_FROM) {
      await openAs(open, index);
      return;
    }
    taiyi.set({ open });
    await taiyi.redrawGraph(index);
    centre(index);
  };

  function centre(index) {
    const smooth = !matchMedia("(prefers-reduced-motion: reduce)").matches;
    standingFor(index)?.scrollIntoView({
      block: "center",
      inline: "center",
      behavior: smooth ? "smooth" : "instant",
    });
  }

  /** Brings the box of what was found first to the middle of the pane. */
  taiyi.showAlarm = () => {
    const [index] = drawn?.view.alarms.keys() ?? [];
    if (index === undefined) return;
    const box = standingFor(index).querySelector(".body").getBoundingClientRect();
    const { left, top } = pane().getBoundingClientRect();
    pane().scrollLeft += box.left + box.width / 2 - left - pane().clientWidth / 2;
    pane().scrollTop += box.top + box.height / 2 - top - pane().clientHeight / 2;
  };

  /** Selects entries `{label, modules, item}`: their curves are shown. */
  taiyi.select = (selection) => taiyi.set({ selection });

  /** Selects a module by its name, and brings its own box to sight where it has one. */
  taiyi.selectModule = (module) => {
    const index = taiyi.outline?.byModule.get(module);
    if (index !== undefined) return taiyi.reveal(index);
    return taiyi.select([{ label: module, modules: [module], item: null }]);
  };

  /** Selects a module and brings its own box and its curves to sight. */
  taiyi.goTo = (module) => {
    taiyi.find("curves-section").scrollIntoView();
    return taiyi.selectModule(module);
  };

  function entryOf(index) {
    const item = outline.items[index];
    const modules = taiyi.within(outline, index).map((one) => one.module);
    return { label: item.module || item.label, modules: modules.filter(Boolean), item: index };
  }

  function pick(index, isAdded) {
    const { selection } = taiyi.state;
    const others = selection.filter((entry) => entry.item !== index);
    const wasThere = others.length < selection.length;
    if (isAdded) taiyi.select(wasThere ? others : [...others, entryOf(index)]);
    else taiyi.select([entryOf(index)]);
  }

  function paintSelection() {
    const graph = taiyi.find("graph");
    for (const old of graph.querySelectorAll(".selected, .near")) {
      old.classList.remove("selected", "near");
      old.removeAttribute("aria-current");
    }
    for (const { item } of taiyi.state.selection) {
      if (item === null) continue;
      standingFor(item)?.classList.add("selected");
      standingFor(item)?.setAttribute("aria-current", "true");
      frameOf(item)?.classList.add("selected");
      const ends = `[data-source="${item}"], [data-target="${item}"]`;
      for (const edge of graph.querySelectorAll(ends)) edge.classList.add("near");
    }
  }

  /** A second outline where something was found; its text is in the box already. */
  function paintAlarms() {
    for (const [index, site] of drawn.view.alarms) {
      const home = elementOf(index);
      if (home) paintAlarm(home, frameOf(index) ?? home.querySelector(".body"), site);
    }
  }

  function paintAlarm(home, body, site) {
    const { x, y, width, height } = body.getBBox();
    const grown = { x: x - 5, y: y - 5, width: width + 10, height: height + 10, rx: 14 };
    home.append(taiyi.svg("rect", { class: `alarm ${site.look}`, ...grown }));
    home.setAttribute("aria-label", `${home.getAttribute("aria-label")}, ${site.text}`);
  }

  /* Zoom */

  const natural = () => {
    const picture = taiyi.find("graph").firstElementChild;
    const [, , width, height] = picture.getAttribute("viewBox").split(" ").map(Number);
    return { picture, width, height };
  };

  const clamped = (wanted) => Math.min(Math.max(wanted, ZOOMS[0]), ZOOMS[1]);

  const fitting = () => Math.min(1, Math.max(0.55, (pane().clientWidth - 4) / natural().width));

  function applyZoom() {
    const { picture, width, height } = natural();
    picture.setAttribute("width", width * zoom);
    picture.setAttribute("height", height * zoom);
    taiyi.drawMinimap(drawn);
  }

  /** Zooms by a factor about a point of the pane. */
  function zoomBy(factor, at = { x: pane().clientWidth / 2, y: pane().clientHeight / 2 }) {
    const before = zoom;
    refit = null;
    zoom = clamped(zoom * factor);
    applyZoom();
    const grown = zoom / before;
    pane().scrollLeft = (pane().scrollLeft + at.x) * grown - at.x;
    pane().scrollTop = (pane().scrollTop + at.y) * grown - at.y;
  }

  /** All of it, however small. */
  function whole() {
    const { width, height } = natural();
    return clamped(Math.min(pane().clientWidth / width, pane().clientHeight / height, 1));
  }

  function fitAll() {
    refit = whole;
    zoom = whole();
    applyZoom();
  }

  /* Events */

  function listen() {
    const graph = taiyi.find("graph");
    graph.addEventListener("click", onClick);
    graph.addEventListener("dblclick", onDoubleClick);
    graph.addEventListener("keydown", onKey);
    graph.addEventListener("focusin", (event) => roam(event.target));
    pane().addEventListener("wheel", onWheel, { passive: false });
    listenToTools();
    dragToPan();
    taiyi.startMinimap();
  }

  function listenToTools() {
    const on = (id, name, listener) => taiyi.find(id).addEventListener(name, listener);
    on("zoom-in", "click", () => zoomBy(1.25));
    on("zoom-out", "click", () => zoomBy(0.8));
    on("zoom-fit", "click", fitAll);
    on("only-probed", "change", ({ target }) => {
      taiyi.set({ onlyProbed: target.checked });
      taiyi.redrawGraph(taiyi.state.selection[0]?.item ?? undefined);
    });
    on("depth", "change", ({ target }) => {
      const { open } = taiyi.header;
      openAs(
        target.value === "auto" ? new Set(open) : taiyi.openedTo(outline, Number(target.value)),
      );
    });
  }

  function fillDepths() {
    const depths = Array.from({ length: taiyi.deepest(outline) }, (_, k) => String(k + 1));
    const pairs = [["auto", "auto"], ...depths.map((depth) => [depth, depth]), ["Infinity", "all"]];
    taiyi.fillSelect(taiyi.find("depth"), pairs, "auto");
  }

  const itemAt = (target) => {
    const home = target.closest?.("[data-item]");
    return home ? Number(home.dataset.item) : null;
  };

  function onClick(event) {
    const index = itemAt(event.target);
    if (index === null) return;
    focusItem(index);
    if (event.target.closest(".toggle")) toggle(index);
    else pick(index, event.ctrlKey || event.metaKey || event.shiftKey);
  }

  function onDoubleClick(event) {
    const index = itemAt(event.target);
    if (index !== null && !event.target.closest(".toggle")) toggle(index);
  }

  const MOVES = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

  function onKey(event) {
    const index = itemAt(event.target);
    if (index === null || event.ctrlKey || event.metaKey || event.altKey) return;
    if (MOVES[event.key]) focusNext(index, MOVES[event.key]);
    else if (event.key === " ") pick(index, event.shiftKey);
    else if (event.key === "e" || event.key === "Enter") act(index, event);
    else return;
    event.preventDefault();
  }

  function act(index, event) {
    if (taiyi.opens(outline.items[index])) toggle(index);
    else pick(index, event.shiftKey);
  }

  /** The focus moves to what is nearest that way; sideways distance counts double. */
  function focusNext(index, [right, down]) {
    const centreOf = (element) => {
      const { left, width, top } = element.querySelector(".body").getBoundingClientRect();
      return { x: left + width / 2, y: top };
    };
    const here = centreOf(elementOf(index));
    let nearest = null;
    let least = Infinity;
    for (const element of taiyi.find("graph").querySelectorAll("[data-item]")) {
      const [dx, dy] = [centreOf(element).x - here.x, centreOf(element).y - here.y];
      const along = dx * right + dy * down;
      const distance = along + 2 * Math.abs(dx * down) + 2 * Math.abs(dy * right);
      if (along > 1 && distance < least) [nearest, least] = [element, distance];
    }
    if (nearest) focusItem(Number(nearest.dataset.item));
  }

  /**
   * Gives the focus to an item's box, or to that of the closed box it is in.
   * @param {number} index
   */
  taiyi.focusBox = (index) => standingFor(index)?.focus({ preventScroll: true });

  function focusItem(index) {
    const element = standingFor(index);
    taiyi.focusBox(index);
    element?.querySelector(".title, .body").scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** One box takes part in the order of focus: the last one that had it. */
  function roam(target) {
    const element = target.closest("[data-item]");
    if (!element) return;
    taiyi.find("graph").querySelector('[tabindex="0"]')?.setAttribute("tabindex", "-1");
    element.setAttribute("tabindex", "0");
    entry = Number(element.dataset.item);
  }

  function onWheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const { left, top } = pane().getBoundingClientRect();
    const at = { x: event.clientX - left, y: event.clientY - top };
    zoomBy(Math.exp(-event.deltaY / 400), at);
  }

  function dragToPan() {
    let from = null;
    pane().addEventListener("pointerdown", (event) => {
      if (itemAt(event.target) !== null || event.pointerType !== "mouse") return;
      from = { x: event.clientX, y: event.clientY };
    });
    addEventListener("pointermove", (event) => {
      if (!from) return;
      pane().scrollBy(from.x - event.clientX, from.y - event.clientY);
      from = { x: event.clientX, y: event.clientY };
    });
    addEventListener("pointerup", () => {
      from = null;
    });
  }
})(taiyi);
