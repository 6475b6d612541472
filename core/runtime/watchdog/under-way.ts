/** How many things are remembered, and how much of the name of each. */
export const slots = 8
/** How many bytes the name of what is under way may take in the shared memory. */
export const slotBytes = 160

let pad: Buffer | undefined
let next = 0

/**
 * Notes what begins now: a route, a run, a handler of a plugin. Where an event loop freezes, a thread can still read
 * it here. It costs a write of a few bytes, and nothing where no thread looks.
 */
export function underWay(what: string): void {
  if (pad === undefined) return
  const start = begin(pad)
  pad[start] = pad.write(what, start + 2, slotBytes - 2)
}

/** The same for what begins again and again, such as a route: its name is written out once. */
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

/** Begins the next slot. The length in its first byte is written last, so that no reader takes half a name for a whole one. */
function begin(pad: Buffer): number {
  const start = (next++ % slots) * slotBytes
  pad[start] = 0
  pad[start + 1] = next & 0xff
  return start
}

/** Where the notes go from now on. */
export function noteIn(memory: SharedArrayBuffer | undefined): void {
  pad = memory && Buffer.from(memory)
}
