import { BlockList, isIPv4 } from 'node:net'
import type { NetworkInterfaceInfo } from 'node:os'

const listOf = (...nets: readonly (readonly [net: string, bits: number])[]) => {
  const list = new BlockList()
  for (const [net, bits] of nets) list.addSubnet(net, bits)
  return list
}
const inner = listOf(
  ['10.0.0.0', 8],
  ['172.16.0.0', 12],
  ['192.168.0.0', 16],
  ['100.64.0.0', 10],
  ['169.254.0.0', 16],
)
/** This machine, any machine, groups of machines, and what is kept for later. */
const nobody = listOf(['0.0.0.0', 8], ['127.0.0.0', 8], ['224.0.0.0', 3])
const innerMark = 'lan:'

/** Whether none of a machine's addresses can be reached from outside of its network: a call would then have no way in. */
export function isInnerOnly(
  interfaces: Readonly<
    Record<
      string,
      readonly Pick<NetworkInterfaceInfo, 'family' | 'address' | 'internal'>[] | undefined
    >
  >,
): boolean {
  const outward = Object.values(interfaces)
    .flatMap((addresses) => addresses ?? [])
    .filter(({ family, internal }) => family === 'IPv4' && !internal)
  return outward.every(({ address }) => inner.check(address))
}

/**
 * The address of CALLS_ADDRESS: a public one, or one of an inner network behind the mark `lan:`, which says that the callers stand
 * in that network. Throws a sentence with what to do for any other.
 */
export function toldAddress(text: string): string {
  const isMarked = text.startsWith(innerMark)
  const address = isMarked ? text.slice(innerMark.length) : text
  if (!isIPv4(address))
    throw new Error('an IPv4 address such as 203.0.113.7: the public one, behind one-to-one NAT')
  if (!isMarked && nobody.check(address))
    throw new Error(
      `${address} is no address that a caller reaches. Name the public one, or leave the variable out`,
    )
  if (!isMarked && inner.check(address))
    throw new Error(
      `${address} is reached from its own network alone. Name the public address, leave the variable out where this ` +
        `machine has the address itself, or write ${innerMark}${address} where all callers stand in that network`,
    )
  return address
}
