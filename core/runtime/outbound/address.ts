import ipaddr from 'ipaddr.js'

/** The only block from which IPv6 addresses of the public network are given out. */
const globalIPv6 = ipaddr.IPv6.parseCIDR('2000::/3')

/**
 * Whether an address belongs to the public network: neither private, shared, local to a link nor to a machine, reserved,
 * nor one that carries such an IPv4 address inside it.
 */
export function isPublicAddress(address: string): boolean {
  if (!ipaddr.isValid(address)) return false
  const parsed = ipaddr.process(address)
  if (parsed.range() !== 'unicast') return false
  // The ranges of the library leave out old forms such as ::127.0.0.1.
  return parsed instanceof ipaddr.IPv4 || parsed.match(globalIPv6)
}

/** Whether an address is one of this machine: 127.0.0.0/8 and ::1, also written as IPv6. */
export const isLoopbackAddress = (address: string): boolean =>
  ipaddr.isValid(address) && ipaddr.process(address).range() === 'loopback'
