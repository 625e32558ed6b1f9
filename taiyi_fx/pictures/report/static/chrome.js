"use strict";

/* What frames the panels: title, theme, choices of quantity and mode, the border, help, print. */
((taiyi) => {
  const MOST_TABS = 12;
  const SIDES = {
    forward: "forward",
    backward: "gradients",
    parameters: "parameters",
    "": "logged",
  };
  const { find, element } = taiyi;
  let visited = "";

  /** Sets up all that frames the panels. */
  taiyi.startChrome = () => {
    tellTheRun();
    startTheme();
    startChoices();
    startBorder();
    startHelp();
    startPrint();
    find("more-charts").addEventListener("click", taiyi.showAllCharts);
    find("show-all").addEventListener("click", () => taiyi.set({ range: null }));
    find("clear").addEventListener("click", () => taiyi.select([]));
    find("urgent").addEventListener("click", visitNext);
    taiyi.on(["range", "selection", "updates"], tellTheView);
    taiyi.on(["updates"], tellTheRun);
    tellTheView();
  };

  function tellTheRun() {
    const [run, ...others] = taiyi.runs();
    const names = others.length ? namesOf([run, ...others]) : taiyi.header.title;
    find("run-name").textContent = taiyi.shortened(names, 60);
    find("run-name").title = taiyi.visible(names);
    const model = taiyi.shortened(run.model.split(".").at(-1), 40);
    const facts = [model === names ? "" : model, ...taken(run)];
    find("run-facts").textContent = facts.filter(Boolean).join(" · ");
    const versions = Object.entries(run.versions).map(([name, version]) => `${name} ${version}`);
    find("run-facts").title = [`made ${taiyi.header.made}`, ...versions]
      .map(taiyi.visible)
      .join("\n");
    tellWhatIsUrgent();
  }

  function namesOf(runs) {
    const names = runs.map(({ name }) => name);
    return `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
  }

  /** What the button in the head goes through: findings, or series that are flagged without one. */
  const stations = () => {
    const findings = taiyi.findings();
    return findings.length
      ? findings.map((found) => ({ look: taiyi.lookOfFinding(found), go: () => taiyi.showFinding(found) }))
      : taiyi.urgent().map(stationOf);
  };

  const stationOf = (series) => ({
    look: series.state,
    rank: taiyi.modes().indexOf(series.mode),
    key: JSON.stringify([series.module, series.quantity, series.mode]),
    go: () => {
      taiyi.set({ mode: series.mode, quantity: series.quantity });
      taiyi.selectModule(series.module);
    },
  });

  function tellWhatIsUrgent() {
    const all = stations();
    find("urgent").hidden = all.length === 0;
    if (all.length === 0) return;
    const isFound = taiyi.findings().length > 0;
    const sign = { alert: "!", warn: "~", muted: "i" }[all[0].look];
    find("urgent").className = all[0].look;
    find("urgent").textContent = isFound
      ? `${sign} ${taiyi.counted(all.length, "finding")}`
      : `${sign} ${taiyi.whole(all.length)} series flagged`;
  }

  /** Goes to the finding, or to the flagged series, after the one gone to last. */
  function visitNext() {
    // In an order that does not follow the mode, which this changes.
    const all = stations().sort((one, other) => (one.rank ?? 0) - (other.rank ?? 0));
    const place = all.findIndex((one, k) => (one.key ?? String(k)) === visited);
    const next = (place + 1) % all.length;
    visited = all[next].key ?? String(next);
    all[next].go();
  }

  function taken(run) {
    if (!run.series.length) return [];
    const [first, last] = taiyi.allSteps();
    return [
      taiyi.counted(run.series.length, "series", "series"),
      `steps ${taiyi.whole(first)} to ${taiyi.whole(last)}`,
      run.epochs.length > 1 ? taiyi.counted(run.epochs.length, "epoch") : "",
    ];
  }

  function tellTheView() {
    const { range, selection } = taiyi.state;
    const [first, last] = taiyi.shownSteps().map(taiyi.whole);
    find("shown-steps").textContent = range ? `steps ${first} to ${last}` : "";
    find("show-all").hidden = range === null;
    find("clear").hidden = selection.length === 0;
  }

  /* Theme */

  function startTheme() {
    const prefersDark = matchMedia("(prefers-color-scheme: dark)");
    const follow = () => setTheme(prefersDark.matches ? "dark" : "light");
    follow();
    prefersDark.addEventListener("change", follow);
    find("theme").addEventListener("click", () =>
      setTheme(taiyi.state.theme === "dark" ? "light" : "dark"),
    );
  }

  function setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    find("theme").setAttribute("aria-pressed", String(theme === "dark"));
    taiyi.set({ theme });
  }

  /** Paper is white: what is drawn on canvas is drawn anew for it. */
  function startPrint() {
    let screenTheme = null;
    const leave = () => {
      if (screenTheme !== null) setTheme(screenTheme);
      screenTheme = null;
    };
    const enter = () => {
      screenTheme ??= taiyi.state.theme;
      find("legend").open = true;
      setTheme("light");
    };
    matchMedia("print").addEventListener("change", ({ matches }) => (matches ? enter() : leave()));
    addEventListener("beforeprint", enter);
    addEventListener("afterprint", leave);
  }

  /* Choices */

  function startChoices() {
    const modes = taiyi.modes();
    const quantities = taiyi.quantities();
    taiyi.state.mode = modes.includes("train") ? "train" : (modes[0] ?? "train");
    const { mode, quantity } = foremost() ?? {};
    taiyi.state.mode = mode ?? taiyi.state.mode;
    taiyi.state.quantity = quantity ?? quantities[0] ?? "";
    find("quantity").addEventListener("change", ({ target }) =>
      taiyi.set({ quantity: target.value }),
    );
    find("previous").addEventListener("click", () => step(-1));
    find("next").addEventListener("click", () => step(1));
    const topics = ["quantity", "mode", "compared", "colourScale", "valueScale", "rowOrder"];
    taiyi.on([...topics, "updates"], fillChoices);
    fillChoices();
  }

  /**
   * What to begin with: the evidence of what was found first and has a heat map, the first flagged
   * series, or what tells most.
   */
  function foremost() {
    const found = taiyi.findings().find(({ opens }) => taiyi.quantities().includes(opens));
    const first = found && { mode: "train", quantity: found.opens };
    if (first && found.severity !== "note") return first;
    return taiyi.urgent()[0] ?? first ?? taiyi.mostTelling();
  }

  /** The next quantity, or the one before. */
  function step(by) {
    const all = taiyi.quantities();
    const place = all.indexOf(taiyi.state.quantity) + by;
    taiyi.set({ quantity: all[(place + all.length) % all.length] });
  }

  function fillChoices() {
    fillQuantities();
    const choice = (id, name, pairs) => {
      find(id).hidden = pairs.length < 2;
      taiyi.fillChoice(find(id), pairs, taiyi.state[name], (value) => taiyi.set({ [name]: value }));
    };
    choice(
      "modes",
      "mode",
      taiyi.modes().map((mode) => [mode, mode]),
    );
    const scales = ["auto", "log", "linear"].map((scale) => [scale, scale]);
    choice("colour-scale", "colourScale", taiyi.showsRatio() ? [] : scales);
    choice("value-scale", "valueScale", scales);
    const orders = [
      ["role", "by role", "Layers of one role together, as all of blocks.*.mlp"],
      ["execution", "in order", "All layers in the order in which they are executed"],
    ];
    choice("row-order", "rowOrder", orders);
    choice("compared", "compared", comparisons());
  }

  /** Each run, and each over the first. */
  function comparisons() {
    const names = taiyi.runs().map(({ name }) => name);
    const [first, ...others] = names;
    const isPair = others.length === 1;
    const over = (name) => (isPair ? "second / first" : `${name} / ${first}`);
    return [
      ...names.map((name, place) => [String(place), name]),
      ...others.map((name, k) => [`ratio${k + 1}`, over(name)]),
    ];
  }

  function fillQuantities() {
    const { quantity } = taiyi.state;
    const all = taiyi.quantities();
    const isLong = all.length > MOST_TABS;
    find("tabs").hidden = isLong;
    find("long-list").hidden = !isLong;
    if (isLong) fillLongList(quantity);
    else {
      const pairs = all.map((one) => [one, markedName(one)]);
      taiyi.fillChoice(find("tabs"), pairs, quantity, (value) => taiyi.set({ quantity: value }));
    }
  }

  function fillLongList(chosen) {
    const [run] = taiyi.runs();
    const sideOf = new Map(run.series.map((series) => [series.quantity, series.direction]));
    const groups = Map.groupBy(
      taiyi.quantities(),
      (one) => SIDES[sideOf.get(one)] ?? SIDES.forward,
    );
    const made = [...groups].map(([label, quantities]) =>
      element("optgroup", { label }, ...quantities.map((one) => option(one, chosen))),
    );
    find("quantity").replaceChildren(...made);
  }

  const option = (quantity, chosen) =>
    element(
      "option",
      { value: quantity, selected: quantity === chosen },
      taiyi.shortened(markedName(quantity), 60),
    );

  /** A quantity's name, with the number of its flagged series. */
  function markedName(quantity) {
    const alerts = taiyi.alertsOf(quantity);
    return alerts ? `${quantity} ! ${taiyi.whole(alerts)}` : quantity;
  }

  /* The border between graph and panels */

  function startBorder() {
    const border = find("border");
    const place = (share) => {
      const kept = Math.min(Math.max(share, 20), 75);
      find("main").style.setProperty("--share", `${kept}%`);
      border.setAttribute("aria-valuenow", String(Math.round(kept)));
    };
    const share = () => Number(border.getAttribute("aria-valuenow"));
    border.addEventListener("pointerdown", (event) => border.setPointerCapture(event.pointerId));
    border.addEventListener("pointermove", (event) => {
      if (border.hasPointerCapture(event.pointerId)) place((event.clientX / innerWidth) * 100);
    });
    border.addEventListener("keydown", ({ key }) => {
      const by = { ArrowLeft: -3, ArrowRight: 3 }[key];
      if (by) place(share() + by);
    });
  }

  /* Help and keys of the whole page */

  function startHelp() {
    const dialog = find("help");
    find("help-button").addEventListener("click", () => dialog.showModal());
    find("help-close").addEventListener("click", () => dialog.close());
    addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      const act = KEYS[event.key];
      if (!act || dialog.open) return;
      event.preventDefault();
      act();
    });
    addEventListener("keydown", ({ key, target }) => {
      if (key === "Escape" && target.matches("select")) target.blur();
    });
  }

  const isTyping = (target) => target.matches("input:not([type=checkbox]), textarea");

  const KEYS = {
    "?": () => find("help").showModal(),
    "/": () => find("search").focus(),
    "[": () => step(-1),
    "]": () => step(1),
    t: () => find("theme").click(),
  };
})(taiyi);
