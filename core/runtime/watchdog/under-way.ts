/** How many names the shared memory holds: those of what began last. */
export const slots = 8
/** How many bytes each name may take in the shared memory, with its length and its number. */
export const slotBytes = 160

let pad: Buffer | undefined
let next = 0

/**
 * Notes what begins now: a route, a run, a handler of a plugin. When the event loop freezes, the watchdog's thread can still
 * read the note. A note costs a write of a few bytes, and nothing without a watchdog.
 */
export function underWay(what: string): void {
  if (pad === undefined) return
  const start = begin(pad)
  pad[start] = pad.write(what, start + 2, slotBytes - 2)
}

/** Makes a function that notes the same name each time, such as that of a route. The name is encoded only once. */
export function underWayAs(what: string): () => void {
  const name = Buffer.alloc(slotBytes - 2)
  const length = name.write(what)
  const written = name.subarray(0, length)
  return () => {
    if (pad === undefined) return
    const start = begin(pad)
    pad.set(written, start + 2)
    pad[start] = length
  }
}

/** Begins the next slot. The caller writes the length in its first byte last, so that no reader takes half a name for a whole. */
function begin(pad: Buffer): number {
  const start = (next++ % slots) * slotBytes
  pad[start] = 0
  pad[start + 1] = next & 0xff
  return start
}

/** Sets the memory that takes the notes from now on; undefined stops the notes. */
export function noteIn(memory: SharedArrayBuffer | undefined): void {
  pad = memory && Buffer.from(memory)
}
