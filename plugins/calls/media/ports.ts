import { networkInterfaces } from 'node:os'
import type { Place } from './messages.ts'

/** How many ports a call takes: one at each address of this machine, and one at loopback where that is offered. */
export function portsOfCall({ isLocal }: Pick<Place, 'isLocal'>): number {
  const addresses = Object.values(networkInterfaces()).flatMap((all) =>
    (all ?? []).filter(
      ({ family, internal, address }) =>
        family === 'IPv4' && !internal && !address.startsWith('169.254.'),
    ),
  )
  return Math.max(1, addresses.length + (isLocal ? 1 : 0))
}
