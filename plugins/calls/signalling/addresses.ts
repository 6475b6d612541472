import { BlockList } from 'node:net'
import type { NetworkInterfaceInfo } from 'node:os'

const inner = new BlockList()
for (const [net, bits] of [
  ['10.0.0.0', 8],
  ['172.16.0.0', 12],
  ['192.168.0.0', 16],
  ['100.64.0.0', 10],
  ['169.254.0.0', 16],
] as const)
  inner.addSubnet(net, bits)

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
