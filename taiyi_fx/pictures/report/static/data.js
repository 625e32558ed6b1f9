"use strict";

/* The header, parsed at load, and chunks of numbers, decoded when they are first shown. */
((taiyi) => {
  /**
   * @typedef {object} Chunk
   * @property {object} entry What the header says of it, or of a live run what the answer said.
   * @property {Float64Array} [start] First steps of columns; of tensors `step`.
   * @property {Float64Array} [end] Last steps of columns.
   * @property {Float32Array | Float64Array} [mean] Row by row; `min` and `max` likewise.
   * @property {Uint32Array} [count] Finite numbers of cells; `nan` and `inf` likewise.
   */

  const ARRAYS = {
    "<f4": Float32Array,
    "<f8": Float64Array,
    "<i4": Int32Array,
    "<u4": Uint32Array,
    "<u2": Uint16Array,
    "<u1": Uint8Array,
  };
  const chunks = new Map();

  /** Reads the header that stands in the page. */
  taiyi.readHeader = () => {
    taiyi.header = JSON.parse(taiyi.find("taiyi-data").textContent);
  };

  /**
   * One chunk of a run, decoded once.
   * @param {object} run
   * @param {number} index Its place among the run's chunks.
   * @returns {Promise<Chunk>}
   */
  taiyi.chunk = (run, index) => {
    const entry = run.chunks[index];
    if (!chunks.has(entry.id)) chunks.set(entry.id, load(entry));
    return chunks.get(entry.id);
  };

  /** The chunks that have been shown, by id: promises. */
  taiyi.loadedChunks = () => chunks;

  async function load(entry) {
    const chunk = taiyi.header.live ? await taiyi.fetchChunk(entry.id) : await decode(entry);
    const root = document.documentElement;
    root.dataset.decoded = String(Number(root.dataset.decoded ?? 0) + 1);
    return chunk;
  }

  async function decode(entry) {
    const packed = bytesOf(taiyi.find(`taiyi-chunk-${entry.id}`).textContent);
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return taiyi.unpack(entry, await new Response(stream).arrayBuffer(), 0);
  }

  function bytesOf(base64) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
    return Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0));
  }

  /**
   * A chunk's arrays, which lie one after the other.
   * @param {object} entry
   * @param {ArrayBuffer} buffer
   * @param {number} offset Where the first one starts, in bytes.
   * @returns {Chunk}
   */
  taiyi.unpack = (entry, buffer, offset) => {
    const chunk = { entry };
    let at = offset;
    for (const { name, dtype, shape } of entry.arrays) {
      const kind = ARRAYS[dtype];
      const end = at + shape.reduce((size, length) => size * length, 1) * kind.BYTES_PER_ELEMENT;
      chunk[name] = new kind(buffer.slice(at, end)); // a view would have to lie on a multiple of 8
      at = end;
    }
    return chunk;
  };

  /**
   * What a row has in a column.
   * @param {Chunk} chunk
   * @param {number} cell row * columns + column
   * @returns {{mean: number, min: number, max: number, nan: number, inf: number}}
   */
  taiyi.cell = (chunk, cell) => {
    const mean = chunk.mean[cell];
    const min = chunk.min ? chunk.min[cell] : mean;
    const max = chunk.max ? chunk.max[cell] : mean;
    return { mean, min, max, nan: chunk.nan?.[cell] ?? 0, inf: chunk.inf?.[cell] ?? 0 };
  };

  /**
   * A number of the header, where what JSON has no word for is a text.
   * @param {number | string | null} stored
   * @returns {number | null}
   */
  taiyi.number = (stored) => (stored === null || stored === undefined ? null : Number(stored));
})(taiyi);
