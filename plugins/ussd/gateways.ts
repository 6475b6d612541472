import { BlockList, isIP } from 'node:net'

const entriesOf = (text: string) => text.split(',').flatMap((entry) => entry.trim() || [])

/** Whether a list of gateways is empty. */
export const isEmptyList = (text: string): boolean => entriesOf(text).length === 0

/** The entries of a list of gateways that are neither an address nor a network such as `2001:db8::/32`. */
export function foreignEntries(text: string): string[] {
  return entriesOf(text).filter((entry) => {
    const [address = '', bits, ...rest] = entry.split('/')
    const family = isIP(address)
    const isBits =
      bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 6 ? 128 : 32))
    return family === 0 || !isBits || rest.length > 0
  })
}

/** Makes the check whether an address is in a list of gateways. */
export function gatewayList(text: string): (address: string) => boolean {
  const entries = entriesOf(text)
  if (entries.length === 0) return () => false
  const list = new BlockList()
  for (const entry of entries) {
    const [address = '', bits] = entry.split('/')
    if (bits === undefined) list.addAddress(address, kindOf(address))
    else list.addSubnet(address, Number(bits), kindOf(address))
  }
  return (address) => isIP(address) !== 0 && list.check(address, kindOf(address))
}

const kindOf = (address: string) => (isIP(address) === 6 ? 'ipv6' : 'ipv4')
