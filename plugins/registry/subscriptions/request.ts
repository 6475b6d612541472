import { BlockList, isIP } from 'node:net'
import { z } from 'zod'
import { wants } from '../wants.ts'

const inside = new BlockList()
for (const [net, bits] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.168.0.0', 16],
] as const)
  inside.addSubnet(net, bits, 'ipv4')
for (const [net, bits] of [
  ['fc00::', 7],
  ['fe80::', 10],
] as const)
  inside.addSubnet(net, bits, 'ipv6')

const anAddress = 'an https address outside of this network'

/** Whether an address may be one to deliver to, as far as it can be read; `deliver` judges what its name resolves to. */
function isAddress(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, hostname, username, password } = new URL(text)
  const host = hostname.replace(/^\[|\]$/g, '')
  if (username !== '' || password !== '') return false
  const family = isIP(host)
  if (family !== 0 && inside.check(host, family === 6 ? 'ipv6' : 'ipv4')) return false
  // Plain http goes to this machine at most, and there only where the operator develops.
  return protocol === 'https:' || (protocol === 'http:' && host === '127.0.0.1')
}

const loopback: ReadonlySet<string> = new Set([
  '127.0.0.1',
  'localhost',
  '[::1]',
  '0.0.0.0',
  '[::]',
])

/** Whether an address is one of the server that is told by its own address, however the host is written. */
export function isOfServer(url: string, own: string): boolean {
  if (!URL.canParse(own)) return false
  const [one, other] = [url, own].map((text) => {
    const { protocol, hostname, port } = new URL(text)
    const host = hostname.replace(/\.+$/, '')
    return `${loopback.has(host) ? 'loopback' : host}:${port || (protocol === 'https:' ? 443 : 80)}`
  })
  return one === other
}

const aSecret = '"whsec_" and base64, or any other text, of 16 to 200 characters'

/** The request that makes a subscription. */
export const subscriptionSchema = z.strictObject({
  where: z
    .string(wants('a condition'))
    .optional()
    .describe('Only entities of which it holds; default: all that the caller sees'),
  url: z
    .string(wants(anAddress))
    .max(2000, wants(anAddress))
    // The address may hold a secret, so that a refusal does not repeat it.
    .refine(isAddress, `give ${anAddress}`)
    .describe('Where changes are posted'),
  secret: z
    .string(`give ${aSecret}`)
    .min(16, `give ${aSecret}`)
    .max(200, `give ${aSecret}`)
    .regex(/^(?:whsec_[A-Za-z0-9+/]+={0,2}|(?!whsec_)[\x21-\x7e]+)$/, `give ${aSecret}`)
    .describe('Signs what is posted'),
})
/** A request for a subscription that passed the schema. */
export type SubscriptionRequest = z.output<typeof subscriptionSchema>
