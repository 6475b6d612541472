/** How many things are remembered, and how much of the name of each. */
export const slots = 8
export const slotBytes = 160

let pad: Buffer | undefined
let next = 0

/**
 * Notes what begins now: a route, a run, a handler of a plugin. Where an event loop freezes, a thread can still read
 * it here. It costs a write of a few bytes, and nothing where no thread looks.
 */
export function underWay(what: string): void {
  if (pad === undefined) return
  const start = (next++ % slots) * slotBytes
  // The length in the first byte is written last, so that no reader takes half a name for a whole one.
  pad[start] = 0
  pad[start + 1] = next & 0xff
  pad[start] = pad.write(what, start + 2, slotBytes - 2)
}

/** Where the notes go from now on. */
export function noteIn(memory: SharedArrayBuffer | undefined): void {
  pad = memory && Buffer.from(memory)
}
