/** SHA-256 (FIPS 180-4) for pages that came by plain http, from which browsers keep their own. */

const primes: number[] = [];
for (let n = 2; primes.length < 64; n++) if (primes.every((p) => n % p !== 0)) primes.push(n);
const fraction = (x: number): number => ((x - Math.floor(x)) * 2 ** 32) | 0;
/** Of the cube roots of the first 64 primes, and of the square roots of the first 8. */
const K = Int32Array.from(primes, (p) => fraction(Math.cbrt(p)));
const START = primes.slice(0, 8).map((p) => fraction(Math.sqrt(p)));

function blocks(state: Int32Array, bytes: DataView, w: Int32Array): void {
  for (let from = 0; from + 64 <= bytes.byteLength; from += 64) {
    for (let i = 0; i < 16; i++) w[i] = bytes.getInt32(from + 4 * i);
    for (let i = 16; i < 64; i++) {
      const x = w[i - 15] as number;
      const y = w[i - 2] as number;
      const small0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const small1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      w[i] = ((w[i - 16] as number) + small0 + (w[i - 7] as number) + small1) | 0;
    }
    let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state;
    for (let i = 0; i < 64; i++) {
      const large1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const one = (h + large1 + ((e & f) ^ (~e & g)) + (K[i] as number) + (w[i] as number)) | 0;
      const large0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const two = (large0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + one) | 0;
      d = c;
      c = b;
      b = a;
      a = (one + two) | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((x, i) => (state[i] = ((state[i] as number) + x) | 0));
  }
}

/** The 32 bytes of the digest. */
export function sha256(bytes: ArrayBuffer): ArrayBuffer {
  const state = Int32Array.from(START);
  const w = new Int32Array(64);
  const whole = bytes.byteLength - (bytes.byteLength % 64);
  blocks(state, new DataView(bytes, 0, whole), w);
  // The rest, one bit, zeros, and the length in bits.
  const rest = new Uint8Array(bytes, whole);
  const end = new Uint8Array(rest.byteLength < 56 ? 64 : 128);
  end.set(rest);
  end[rest.byteLength] = 0x80;
  const view = new DataView(end.buffer);
  view.setUint32(end.byteLength - 8, Math.floor(bytes.byteLength / 2 ** 29));
  view.setUint32(end.byteLength - 4, (bytes.byteLength << 3) >>> 0);
  blocks(state, view, w);
  const digest = new DataView(new ArrayBuffer(32));
  state.forEach((x, i) => digest.setInt32(4 * i, x));
  return digest.buffer;
}
