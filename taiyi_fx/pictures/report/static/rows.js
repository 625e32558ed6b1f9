"use strict";

/* Modules as rows: grouped by their role, named without what all share, chosen by patterns. */
((taiyi) => {
  const NUMBERS = /\d+/g;

  /**
   * What the names of modules have in common: whole parts from the left, with their last dot.
   * @param {string[]} names
   * @returns {string}
   */
  taiyi.prefixOf = (names) => {
    const [first = "", ...rest] = names.filter(Boolean).map((name) => name.split(".").slice(0, -1));
    if (!first || rest.length === 0) return "";
    const isShared = (part, k) => rest.every((other) => other[k] === part);
    const end = first.findIndex((part, k) => !isShared(part, k));
    return first
      .slice(0, end < 0 ? first.length : end)
      .map((part) => `${part}.`)
      .join("");
  };

  /**
   * A module's role: its name without the numbers of the layers that it is in.
   *
   * The number of a part of a layer stays, as in "blocks.*.mlp.2"; where no part before it has a
   * number, it is that of a layer.
   * @param {string} name
   * @returns {{role: string, layer: string}}
   */
  taiyi.roleOf = (name) => {
    const parts = name.split(".");
    const last = parts.pop();
    const around = parts.join(".");
    const layers = around.match(NUMBERS) ?? [];
    if (layers.length) {
      const role = `${around.replace(NUMBERS, "*")}.${last}`;
      return { role, layer: layers.join(".") };
    }
    if (!/^\d+(@\d+)?$/.test(last)) return { role: name, layer: "" };
    return { role: [...parts, "*"].join("."), layer: last };
  };

  /**
   * Rows, those of one role next to each other, in the order of the first of them.
   * @param {{module: string}[]} rows
   * @returns {object[]} With `role` and `layer`, and `isFirst` for the first of each role.
   */
  taiyi.byRole = (rows) => {
    const named = rows.map((row) => ({ ...row, ...taiyi.roleOf(row.module) }));
    const groups = [...Map.groupBy(named, ({ role }) => role).values()];
    return groups.flatMap((group) =>
      group.map((row, k) => ({ ...row, isFirst: k === 0, isAlone: group.length === 1 })),
    );
  };

  /**
   * Whether modules are chosen by a pattern with * ? [ ], or by a part of their names.
   * @param {string} pattern
   * @param {string} [prefix] What names may be given without.
   * @returns {(name: string) => boolean}
   */
  taiyi.matcher = (pattern, prefix = "") => {
    const wanted = pattern.trim();
    if (!wanted) return () => true;
    if (!/[*?[]/.test(wanted)) return (name) => name.includes(wanted);
    const glob = globOf(wanted);
    const shortened = (name) => (name.startsWith(prefix) ? name.slice(prefix.length) : name);
    return (name) => glob.test(name) || glob.test(shortened(name));
  };

  /** A pattern as Python's fnmatch reads it. */
  function globOf(pattern) {
    const source = pattern.replace(/\[(!?)([^\]]+)\]|[^]/g, (sign, not, set) => {
      if (set) return `[${not ? "^" : ""}${set.replace(/[\\\]^]/g, "\\$&")}]`;
      return { "*": "[^]*", "?": "[^]" }[sign] ?? sign.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
    });
    return new RegExp(`^${source}$`);
  }

  /** A test of modules' names: whether the pattern that the page has chooses them. */
  taiyi.chooser = () => {
    const names = taiyi.runs().flatMap((run) => run.series.map((series) => series.module));
    return taiyi.matcher(taiyi.state.pattern, taiyi.prefixOf([...new Set(names)]));
  };

  /**
   * The end of a text, which tells it apart from its like, of at most so many characters.
   * @param {string} text
   * @param {number} most
   */
  taiyi.ending = (text, most) => {
    const signs = Array.from(taiyi.visible(text));
    return signs.length <= most ? signs.join("") : `…${signs.slice(1 - most).join("")}`;
  };
})(taiyi);
