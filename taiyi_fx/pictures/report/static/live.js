"use strict";

/* A running run: the header is asked for now and then, and of shown chunks what came since. */
((taiyi) => {
  const QUIET = 10_000;
  const { find } = taiyi;
  let isPaused = false;
  let latest = "";
  let heard = 0;
  let isAnswered = true;

  /** Starts asking, where the header says that the run is live. */
  taiyi.startLive = () => {
    const { live } = taiyi.header;
    find("live").hidden = !live;
    if (!live) return;
    find("pause").addEventListener("click", () => {
      isPaused = !isPaused;
      find("pause").textContent = isPaused ? "Resume" : "Pause";
      find("live").classList.toggle("paused", isPaused);
      tell();
    });
    latest = versions();
    heard = Date.now();
    tell();
    setInterval(tell, 1000);
    setTimeout(poll, live.poll_ms);
  };

  async function poll() {
    if (!isPaused) await update().catch(fail);
    setTimeout(poll, taiyi.header.live.poll_ms);
  }

  /** The server may come back: asking goes on, and the page says that it waits. */
  function fail(error) {
    isAnswered = false;
    find("live").title = error.message;
    tell();
  }

  async function update() {
    const known = JSON.stringify(taiyi.header.outline);
    taiyi.header = await (await answered("header")).json();
    if (JSON.stringify(taiyi.header.outline) !== known) {
      location.reload(); // the run has shown more of its model, or another has taken its place
      return;
    }
    await Promise.all(taiyi.runs()[0].chunks.map(refresh));
    const before = latest;
    latest = versions();
    if (latest !== before) heard = Date.now();
    isAnswered = true;
    find("live").removeAttribute("title");
    tell();
    if (latest !== before) taiyi.set({ updates: taiyi.state.updates + 1 });
  }

  const versions = () =>
    taiyi
      .runs()[0]
      .chunks.map(({ last, version }) => `${last} ${version}`)
      .join();

  /** Says how far the run is, for how long nothing came, or what keeps it from being read. */
  function tell() {
    const { problem } = taiyi.header.live;
    const quiet = Date.now() - heard;
    const isFailed = !isAnswered || Boolean(problem);
    const isSilent = !isFailed && !isPaused && quiet > QUIET;
    find("live").classList.toggle("failed", isFailed);
    find("live").classList.toggle("silent", isSilent);
    const text = isFailed ? problemText(problem) : progressText(isSilent ? quiet : 0);
    if (find("live-text").textContent !== text) find("live-text").textContent = text;
  }

  const problemText = (problem) =>
    isAnswered ? taiyi.shortened(problem, 120) : "the server does not answer";

  function progressText(quiet) {
    const step = `step ${taiyi.whole(taiyi.allSteps()[1])}`;
    return quiet ? `no news for ${durationText(quiet)} · ${step}` : `live · ${step}`;
  }

  /** A stretch of time, by tens of seconds, or by minutes where it is long. */
  const durationText = (milliseconds) => {
    const seconds = Math.floor(milliseconds / 10_000) * 10;
    return seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`;
  };

  async function answered(path) {
    const answer = await fetch(path, { cache: "no-store" });
    if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
    return answer;
  }

  /**
   * A chunk, as the server has it now: the length of its entry, the entry, its arrays.
   * @param {number} id
   * @param {number} [after] Only columns of later steps.
   * @returns {Promise<object>}
   */
  taiyi.fetchChunk = async (id, after) => {
    const query = after === undefined ? "" : `?after=${after}`;
    const buffer = await (await answered(`chunk/${id}${query}`)).arrayBuffer();
    const length = new DataView(buffer).getUint32(0, true);
    const entry = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
    return taiyi.unpack(entry, buffer, 4 + length);
  };

  /** What came since; a chunk whose past has changed, or whose rows, is asked for anew. */
  async function refresh({ id, kind, rows, last, version }) {
    const chunks = taiyi.loadedChunks();
    if (!chunks.has(id)) return;
    const old = await chunks.get(id);
    const isOf = (entry) => entry.version === old.entry.version && entry.rows === old.entry.rows;
    const end = (old.end ?? old.step).at(-1) ?? -1;
    if (isOf({ rows, version }) && last <= end) return;
    const added = kind === "numbers" ? await taiyi.fetchChunk(id, end) : null;
    const made = added && isOf(added.entry) ? joined(old, added) : await taiyi.fetchChunk(id);
    chunks.set(id, made);
  }

  /** Columns after columns; where only one side has an array, the other has what its absence means. */
  function joined(old, added) {
    const [before, after] = [old.start.length, added.start.length];
    if (after === 0) return old;
    const { rows } = old.entry;
    const chunk = { entry: { ...added.entry, columns: before + after } };
    for (const name of ["start", "end"]) chunk[name] = sideBySide(old[name], added[name], 1);
    for (const name of ["mean", "min", "max", "nan", "inf"]) {
      if (!old[name] && !added[name]) continue;
      chunk[name] = sideBySide(meant(old, name), meant(added, name), rows);
    }
    return chunk;
  }

  function meant(chunk, name) {
    if (chunk[name]) return chunk[name];
    if (name === "min" || name === "max") return chunk.mean;
    return new Uint32Array(chunk.mean.length);
  }

  function sideBySide(left, right, rows) {
    const [before, after] = [left.length / rows, right.length / rows];
    const made = new left.constructor(left.length + right.length);
    for (let row = 0; row < rows; row += 1) {
      made.set(left.subarray(row * before, (row + 1) * before), row * (before + after));
      made.set(right.subarray(row * after, (row + 1) * after), row * (before + after) + before);
    }
    return made;
  }
})(taiyi);
