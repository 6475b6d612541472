/** A number from 0 to 1 that is always the same for an id, so that all lines about one thing stand or fall together. */
export function shareOf(id: string): number {
  // FNV-1a, with the bits mixed once more: ids differ mostly in their last characters.
  let hash = 0x811c9dc5
  for (let at = 0; at < id.length; at++) hash = Math.imul(hash ^ id.charCodeAt(at), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d)
  hash = Math.imul(hash ^ (hash >>> 12), 0x297a2d39)
  return ((hash ^ (hash >>> 15)) >>> 0) / 2 ** 32
}
