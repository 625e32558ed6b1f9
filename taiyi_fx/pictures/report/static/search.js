"use strict";

/* Search: names of modules, classes and quantities; Enter goes to what is found. */
((taiyi) => {
  const MOST = 12;
  const { find, element } = taiyi;
  let found = [];
  let active = 0;

  /** Sets the search field up. */
  taiyi.startSearch = () => {
    const field = find("search");
    field.addEventListener("input", () => show(matches(field.value)));
    field.addEventListener("keydown", onKey);
    field.addEventListener("blur", close);
    // A press on a result leaves the focus in the field: the click that follows still finds the list.
    find("results").addEventListener("mousedown", (event) => event.preventDefault());
    field.addEventListener("focus", () => field.value && show(matches(field.value)));
  };

  function matches(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0) return [];
    const fits = (entry) => words.every((word) => entry.text.toLowerCase().includes(word));
    const rank = (entry) => entry.text.toLowerCase().indexOf(words[0]) + entry.text.length / 1000;
    return entries()
      .filter(fits)
      .sort((one, other) => rank(one) - rank(other))
      .slice(0, MOST);
  }

  /** All that can be found: boxes, modules without one, quantities. */
  function entries() {
    const items = taiyi.outline?.items ?? [];
    const boxes = items
      .filter((item) => item.index > 0 && item.kind !== "fold")
      .map((item) => ({
        kind: "box",
        text: [item.module || item.label, item.class_name].filter(Boolean).join(" · "),
        go: async () => {
          await taiyi.reveal(item.index);
          if (isWaiting()) taiyi.focusBox(item.index);
        },
      }));
    const known = taiyi.outline?.byModule ?? new Map();
    const others = [...taiyi.seriesByModule().keys()]
      .filter((module) => !known.has(module))
      .map((module) => ({ kind: "module", text: module, go: () => taiyi.selectModule(module) }));
    const quantities = taiyi.quantities().map((quantity) => ({
      kind: "quantity",
      text: quantity,
      go: () => taiyi.set({ quantity }),
    }));
    return [...quantities, ...boxes, ...others];
  }

  /** Whether the focus is where a choice has left it: nobody has typed on or gone elsewhere since. */
  const isWaiting = () => document.activeElement === find("search") && find("results").hidden;

  function show(entriesFound) {
    found = entriesFound;
    active = 0;
    const list = find("results");
    const isEmpty = find("search").value.trim() === "";
    list.hidden = isEmpty;
    list.replaceChildren(
      ...(found.length ? found.map(option) : [element("li", {}, "Nothing has that name")]),
    );
    find("search").setAttribute("aria-expanded", String(!isEmpty));
    mark();
    if (!isEmpty) taiyi.announce(taiyi.counted(found.length, "result"));
  }

  const option = (entry, index) =>
    element(
      "li",
      {
        role: "option",
        id: `result-${index}`,
        title: taiyi.visible(entry.text),
        onclick: () => choose(index),
      },
      element("span", { class: "name" }, taiyi.shortened(entry.text, 64)),
      element("span", { class: "kind" }, entry.kind),
    );

  function mark() {
    [...find("results").children].forEach((shown, index) =>
      shown.setAttribute("aria-selected", String(index === active)),
    );
    find("search").setAttribute("aria-activedescendant", found.length ? `result-${active}` : "");
  }

  function onKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && found.length) active = (active + step + found.length) % found.length;
    else if (event.key === "Enter") choose(active);
    else if (event.key === "Escape") leave();
    else return;
    event.preventDefault();
    mark();
  }

  function choose(index) {
    if (!found[index]) return;
    found[index].go();
    close();
  }

  function leave() {
    close();
    find("search").blur();
  }

  function close() {
    found = [];
    find("results").hidden = true;
    find("search").setAttribute("aria-expanded", "false");
    find("search").setAttribute("aria-activedescendant", "");
  }
})(taiyi);
