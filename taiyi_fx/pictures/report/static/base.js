"use strict";

/** The one name that the page's scripts share: each file adds what it gives. */
const taiyi = {};

((taiyi) => {
  const listeners = [];

  /**
   * What the page shows. Changed by `taiyi.set` only.
   *
   * `selection` holds entries `{label, modules, item}`; `range` and `cursor` are in steps, null for
   * all of them and for none; `updates` counts what a live run has added; `compared` is the place
   * of the run whose heat map is shown, or "ratio" and the place of the one over the first.
   */
  taiyi.state = {
    quantity: "",
    mode: "train",
    compared: "0",
    colourScale: "auto",
    valueScale: "auto",
    rowOrder: "role",
    pattern: "",
    selection: [],
    range: null,
    cursor: null,
    open: new Set(),
    onlyProbed: false,
    theme: "light",
    updates: 0,
  };

  /**
   * Has a function called after any of the named parts of the state has changed.
   * @param {string[]} names
   * @param {() => void} listener
   */
  taiyi.on = (names, listener) => {
    listeners.push({ names, listener });
  };

  /**
   * Changes parts of the state, and tells those who listen to them once.
   * @param {object} changes
   */
  taiyi.set = (changes) => {
    Object.assign(taiyi.state, changes);
    const concerned = listeners.filter(({ names }) => names.some((name) => name in changes));
    for (const { listener } of concerned) listener();
  };
})(taiyi);
