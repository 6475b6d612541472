/** A drawn sample as the server answers it. */
export interface Drawn {
  readonly frameDigest: string
  readonly beaconHex: string
  readonly strata: readonly {
    readonly name: string
    readonly seed: string
    readonly ids: readonly string[]
    readonly reserves: readonly string[]
  }[]
}

/** The result of the check of a draw. */
export interface Audit {
  readonly faults: readonly string[]
  readonly tickets: number
}

const encoder = new TextEncoder()

/** Draws again from the list and the beacon, using only SHA-256, and compares the two draws. */
export async function audit(
  drawn: Drawn,
  frame: Readonly<Record<string, readonly string[]>>,
): Promise<Audit> {
  const faults: string[] = []
  const all = Object.values(frame).flat()
  const digest = await sha256([...all].sort(bytewise).join('\n'))
  if (digest !== drawn.frameDigest)
    faults.push(`The list has the digest ${digest}, and ${drawn.frameDigest} was committed to.`)
  for (const { name, seed, ids, reserves } of drawn.strata) {
    if (!seed.endsWith(`|${name}|${drawn.frameDigest}|${drawn.beaconHex}`))
      faults.push(`The seed of ${name} is not made of its stratum, the digest and the beacon.`)
    const seedDigest = await sha256(seed)
    const tickets = await Promise.all(
      (frame[name] ?? []).map(async (id) => ({ id, ticket: await ticketOf(seedDigest, id) })),
    )
    tickets.sort((a, b) =>
      a.ticket < b.ticket ? -1 : a.ticket > b.ticket ? 1 : bytewise(a.id, b.id),
    )
    const again = tickets.slice(0, ids.length + reserves.length).map(({ id }) => id)
    if (again.join('\n') !== [...ids, ...reserves].join('\n'))
      faults.push(`In ${name} other households are drawn from this list.`)
  }
  return { faults, tickets: all.length }
}

/** The digits of the hash as a decimal number in reverse order; such texts compare like the fractions with these digits. */
async function ticketOf(seedDigest: string, id: string): Promise<string> {
  const digits = BigInt(`0x${await sha256(seedDigest + id)}`).toString()
  return [...digits.padStart(64, '0')].reverse().join('')
}

async function sha256(text: string): Promise<string> {
  const bytes = new Uint8Array(await crypto.subtle.digest('SHA-256', encoder.encode(text)))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Compares two texts by their UTF-8 bytes. JavaScript's own order differs for characters beyond the basic plane. */
function bytewise(a: string, b: string): number {
  const [first, second] = [encoder.encode(a), encoder.encode(b)]
  const length = Math.min(first.length, second.length)
  for (let at = 0; at < length; at++) if (first[at] !== second[at]) return first[at]! - second[at]!
  return first.length - second.length
}
