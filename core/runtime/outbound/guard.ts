import { lookup, type LookupAddress, type LookupAllOptions } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { RuntimeError } from '../../errors.ts'
import { hostOf, isAllowedHost, portOf } from '../../manifest/allowed-hosts.ts'
import { isLoopbackAddress, isPublicAddress } from './address.ts'
import type { OutboundRules } from './rules.ts'

/** How names become addresses: `dns.lookup`, which asks as every program of the machine does. */
export type Resolve = (
  host: string,
  options: LookupAllOptions,
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void

/**
 * Refuses a URL by what is written in it: a scheme, a port or a literal address that may not be called. The addresses of
 * a name are checked by `guardedLookup` when the socket connects: an earlier look-up could get another answer than the socket.
 */
export function checkUrl(url: URL, rules: readonly OutboundRules[]): void {
  const isWeb = url.protocol === 'https:' || url.protocol === 'http:'
  if (!isWeb || url.username !== '' || url.password !== '') throw refusal(url)
  const host = hostOf(url)
  if (isIP(host) !== 0 ? !admits(url, host, rules) : !mayAdmit(url, rules)) throw refusal(url)
}

/**
 * The `lookup` of a socket that goes to a URL. The look-up asks once and judges every address of the
 * answer; one address inside the network refuses them all, because the socket may try any of them.
 */
export function guardedLookup(
  url: URL,
  rules: readonly OutboundRules[],
  resolve: Resolve = lookup,
): LookupFunction {
  return (host, options, callback) => {
    resolve(host, { ...options, all: true }, (error, addresses) => {
      if (error) return callback(error, '', 0)
      const [first] = addresses
      if (!first || !addresses.every(({ address }) => admits(url, address, rules)))
        return callback(refusal(url), '', 0)
      if (options.all) callback(null, addresses)
      else callback(null, first.address, first.family)
    })
  }
}

/** Whether a socket that goes to a URL may connect to an address. */
function admits(url: URL, address: string, rules: readonly OutboundRules[]): boolean {
  return rules.every((own) => {
    if (isAllowedHost(url, own.allowed)) return true
    if (isLoopbackAddress(address)) return own.isForAuthors && !own.refusesOwnMachine
    return isPublicAddress(address) && isOrdinary(url, own)
  })
}

/** Whether there is any address at which a named host may be called. */
const mayAdmit = (url: URL, rules: readonly OutboundRules[]): boolean =>
  rules.every((own) => isAllowedHost(url, own.allowed) || own.isForAuthors || isOrdinary(url, own))

/** https at port 443, and for authors also http at port 80. */
const isOrdinary = (url: URL, { isForAuthors }: OutboundRules): boolean =>
  url.protocol === 'https:' ? portOf(url) === 443 : isForAuthors && portOf(url) === 80

/** The sentence names the host as it was given, and never what the name stands for: that would map our network. */
const refusal = ({ host, protocol }: URL): RuntimeError =>
  new RuntimeError(
    'ADDRESS_REFUSED',
    `${protocol}//${host} may not be called: only https at port 443 of public addresses may.`,
    { hint: 'An operator who means a host of the own network names it in OUTBOUND_ALLOW.' },
  )
