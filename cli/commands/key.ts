import { RuntimeError } from '../../core/errors.ts'
import { type Command, UsageError } from '../command.ts'
import { developmentUser, oracleDid, serverAddress } from '../development-user.ts'

/** How long an answer of the server may take. */
const answerMs = 10_000

interface Key {
  readonly id: string
  readonly name: string
  readonly can: readonly string[]
  readonly expiresAt: string
  readonly lastUsedAt?: string
  readonly key?: string
}

/** Makes, lists and ends the personal keys of the development user, at the running server. */
export const command: Command = {
  usage:
    'key [--name "my editor"] [--days 90] [--can oracle/call,tools/call] [--list] [--end <id>] [--json]',
  example: 'oracle-runtime key --name "my editor"',
  notes:
    'The key is shown once. Programs send it as "Authorization: Bearer <key>" or "X-API-Key: <key>". ' +
    'It belongs to the development user; people make keys of their own with POST /keys.',
  options: {
    name: { type: 'string' },
    days: { type: 'string' },
    can: { type: 'string' },
    list: { type: 'boolean' },
    end: { type: 'string' },
    json: { type: 'boolean' },
  },
  async run(words) {
    const [name, days, can, end] = ['name', 'days', 'can', 'end'].map((each) => words.text(each))
    if (days !== undefined && !/^\d+$/.test(days))
      throw new UsageError(
        `--days is "${days}", which is no number of days: give 1 to 365, in digits.`,
      )
    const print = (value: unknown, text: string) =>
      console.log(words.has('json') ? JSON.stringify(value, null, 2) : text)
    if (words.has('list')) {
      const { keys } = (await ask('GET', '/keys')) as { keys: Key[] }
      return print(keys, keys.map(lineOf).join('\n') || 'There is no key.')
    }
    if (end !== undefined) {
      const ended = await ask('DELETE', `/keys/${encodeURIComponent(end)}`)
      return print(ended, `Ended ${end}.`)
    }
    const made = (await ask('POST', '/keys', {
      name: name ?? 'made by npm run key',
      ...(days !== undefined && { days: Number(days) }),
      ...(can !== undefined && { can: can.split(',').map((each) => each.trim()) }),
    })) as Key
    return print(made, `${made.key}\n\n${lineOf(made)}\nThe key is not shown again.`)
  },
}

const lineOf = ({ id, name, can, expiresAt, lastUsedAt }: Key) =>
  `${id}  ${name}  (${can.join(', ')})  until ${expiresAt.slice(0, 10)}` +
  (lastUsedAt ? `, last used ${lastUsedAt.slice(0, 16)}` : '')

/** Asks the running server in the name of the development user. */
async function ask(method: string, path: string, body?: unknown): Promise<unknown> {
  const address = serverAddress()
  const wallet = await developmentUser()
  const headers = await wallet.headers(await oracleDid(address))
  const response = await fetch(address + path, {
    method,
    headers: { ...headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(answerMs),
  }).catch((cause: unknown) => {
    throw new RuntimeError('UNAVAILABLE', `No server answers at ${address}.`, {
      hint: 'Start the server, or say with PUBLIC_URL or PORT where it is.',
      cause,
    })
  })
  const answer: unknown = await response.json().catch(() => undefined)
  if (response.ok) return answer
  const told = typeof answer === 'object' && answer !== null ? answer : {}
  const text = (name: string): string | undefined => {
    const value: unknown = Reflect.get(told, name)
    return typeof value === 'string' ? value : undefined
  }
  throw new RuntimeError(
    'UPSTREAM_FAILED',
    text('message') ?? `The server at ${address} answered ${response.status}.`,
    { hint: text('hint') },
  )
}
