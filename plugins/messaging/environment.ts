import { z } from 'zod'

const whole = (least: number, most: number) => z.coerce.number().int().min(least).max(most)
const isLoopback = (host: string) => /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/.test(host)

/** Whether an address may be that of a messaging server: over TLS, or on this very machine. */
function isServerAddress(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, hostname, username, password, search, hash } = new URL(text)
  if (username || password || search || hash) return false
  return protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname))
}

const words = (text: string) =>
  text
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '')
const list = z.string().transform(words)
const flag = z.enum(['on', 'off']).transform((word) => word === 'on')

const notNeeded = 'Not needed: one line at boot says so where it is set'

/** The variables of messaging. Without the first two, and a password or a token, the plugin is left out. */
export const environment = {
  MATRIX_BASE_URL: z
    .string()
    .refine(isServerAddress, 'an https address without a user name; http only to this machine')
    .transform((text) => text.replace(/\/+$/, ''))
    .describe('The client address of the messaging server'),
  MATRIX_ORACLE_ADMIN_USER_ID: z
    .string()
    .regex(/^@[^\s:]+:\S+$/, 'an account such as @oracle:example.org')
    .describe('The account of the oracle on the messaging server'),
  MATRIX_ORACLE_ADMIN_PASSWORD: z
    .string()
    .optional()
    .meta({ secret: true })
    .describe('The password of the account; also used when the token is rejected'),
  MATRIX_ORACLE_ADMIN_ACCESS_TOKEN: z
    .string()
    .optional()
    .meta({ secret: true })
    .describe('An access token of the account, in place of the password'),
  MATRIX_RECOVERY_PHRASE: z
    .string()
    .min(1)
    .optional()
    .meta({ secret: true })
    .describe('The recovery key or the passphrase of the secret storage of the account'),
  MATRIX_STORE_KEY: z
    .string()
    .regex(/^[0-9a-fA-F]{64}$/, '64 hexadecimal digits')
    .meta({ secret: true, generate: 'hex32' })
    .describe('Seals the keys of the device in the database: 64 hexadecimal digits'),
  MESSAGING_ALLOW: list
    .optional()
    .describe(
      'Whose invitations and words are taken: accounts, `*:server` or `*`; by default the own server',
    ),
  MESSAGING_GUESTS: flag
    .default(true)
    .describe('Whether accounts without a DID get answers: on or off'),
  MESSAGING_DID_SERVERS: list
    .optional()
    .describe(
      'Servers that give `@did-ixo-<address>` to nobody but the holder of that DID; in production none by default',
    ),
  MESSAGING_OPENID_SERVERS: list
    .optional()
    .describe(
      'Servers whose OpenID tokens link accounts: `name` or `name=https://address`; by default the own server',
    ),
  MESSAGING_ROOMS_BOT: flag
    .optional()
    .describe(
      'Whether the routes under /spaces make rooms: on or off; by default on outside production',
    ),
  MESSAGING_EDIT_MS: whole(100, 60_000)
    .default(1_500)
    .describe('The least time between two edits of a reply, in milliseconds'),
  MESSAGING_MAX_EDITS: whole(1, 200).default(20).describe('How many edits one reply has, at most'),
  MESSAGING_MAX_AGE_MINUTES: whole(1, 43_200)
    .default(1_440)
    .describe('What was said longer ago while the oracle was away is not answered'),
  MESSAGING_TURNS_PER_MINUTE: whole(1, 1_000)
    .default(10)
    .describe('How many turns a minute a sender gets; a room gets three times as many'),
  MESSAGING_MAX_ROOMS: whole(1, 10_000)
    .default(1_000)
    .describe('How many rooms the oracle is in; invitations beyond are refused'),
  MESSAGING_MAX_FILE_BYTES: whole(1_024, 104_857_600)
    .default(10_485_760)
    .describe('How large a file in a room may be, in bytes'),
  MATRIX_ACCOUNT_ROOM_ID: z.string().optional().describe(notNeeded),
  MATRIX_VALUE_PIN: z.string().optional().meta({ secret: true }).describe(notNeeded),
  MATRIX_STORE_PATH: z.string().optional().describe(notNeeded),
}

/** Names that deployments have set for other runtimes. */
export const earlierNames = [
  'MATRIX_ACCOUNT_ROOM_ID',
  'MATRIX_VALUE_PIN',
  'MATRIX_STORE_PATH',
] as const

/** The variables, parsed. */
export interface MessagingEnv {
  readonly MATRIX_BASE_URL: string
  readonly MATRIX_ORACLE_ADMIN_USER_ID: string
  readonly MATRIX_ORACLE_ADMIN_PASSWORD?: string | undefined
  readonly MATRIX_ORACLE_ADMIN_ACCESS_TOKEN?: string | undefined
  readonly MATRIX_RECOVERY_PHRASE?: string | undefined
  readonly MATRIX_STORE_KEY: string
  readonly MESSAGING_ALLOW?: readonly string[] | undefined
  readonly MESSAGING_GUESTS: boolean
  readonly MESSAGING_DID_SERVERS?: readonly string[] | undefined
  readonly MESSAGING_OPENID_SERVERS?: readonly string[] | undefined
  readonly MESSAGING_ROOMS_BOT?: boolean | undefined
  readonly MESSAGING_EDIT_MS: number
  readonly MESSAGING_MAX_EDITS: number
  readonly MESSAGING_MAX_AGE_MINUTES: number
  readonly MESSAGING_TURNS_PER_MINUTE: number
  readonly MESSAGING_MAX_ROOMS: number
  readonly MESSAGING_MAX_FILE_BYTES: number
  readonly MATRIX_ACCOUNT_ROOM_ID?: string | undefined
  readonly MATRIX_VALUE_PIN?: string | undefined
  readonly MATRIX_STORE_PATH?: string | undefined
}

/** The server of an account or an alias: `@oracle:example.org` is of `example.org`. */
export const serverOf = (id: string): string => id.slice(id.indexOf(':') + 1)

/** Whether an account stands on a list of accounts, `*:server` and `*`. */
export const isOnList = (account: string, entries: readonly string[]): boolean =>
  entries.some((entry) => entry === '*' || entry === account || entry === `*:${serverOf(account)}`)
